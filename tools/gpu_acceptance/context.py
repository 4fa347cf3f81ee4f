"""What the phases share: the command, the devices, the shapes and where results go."""

import dataclasses
import pathlib

from . import command

# The emulated device that plays a GPU of this target.
EMULATORS = {"sm_80": "a100", "sm_86": "rtx3090", "sm_89": "l40s", "sm_90": "h200", "sm_100": "b200", "sm_120": "rtx5090"}

# Options that are added to a preset: the norm alone, and all that is fused into it.
VARIANTS = {"norm": (), "residual + gate": ("--residual", "add", "--gate", "seednorm")}


@dataclasses.dataclass(frozen=True)
class Shape:
    """A kernel that several presets may share."""

    preset: str  # the first of them
    presets: tuple
    width: int
    head_size: int
    dtype: str
    rows: int
    weight: str = "channel"

    def gamma_size(self):
        return {"channel": self.width, "head": self.width // self.head_size, "shared": self.head_size}[self.weight]


def distinct_shapes(presets):
    """Of the JSON of `headnorm presets`: one for all that have the same kernel; those of a later version are left out."""
    groups = {}
    for preset in presets:
        if not preset["supported"]:
            continue
        key = tuple(preset[field] for field in ("width", "head_size", "dtype", "eps", "weight", "weight_offset", "stat"))
        groups.setdefault(key, []).append(preset)
    return [Shape(group[0]["name"], tuple(preset["name"] for preset in group), group[0]["width"], group[0]["head_size"],
                  group[0]["dtype"], max(preset["rows"] for preset in group), group[0]["weight"]) for group in groups.values()]


@dataclasses.dataclass
class Context:
    tool: command.Headnorm
    stop: command.Stop
    device: str  # "cuda:0"
    emulator: str  # "emulator:h200": of the same target
    target: str  # of the device
    shapes: list
    out: pathlib.Path
    scratch: pathlib.Path
    seed: int = 1
    jobs: int = 1
    quick: bool = False
    python: str = "python3"  # that has PyTorch, if any
    tuned: dict = dataclasses.field(default_factory=dict)  # (preset, variant) -> result of tune

    @staticmethod
    def package_place():
        """The folder that this package lies in."""
        return pathlib.Path(__file__).resolve().parents[1]

    def is_emulated(self):
        return self.device.startswith("emulator")
