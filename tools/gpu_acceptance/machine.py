"""The phase that looks around: which device, driver and tools there are. The others cannot go on without it."""

import os
import platform
import shutil

from . import command
from .context import EMULATORS, distinct_shapes
from .results import PhaseResult, State

ASK_S = 60.0
GPU_FACTS = "name,driver_version,clocks.max.sm,clocks.max.memory,power.limit,temperature.gpu,persistence_mode,compute_mode"
QUICK_PRESETS = ("wide-vit-1024", "ablation-rmsnorm", "ablation-mh-rmsnorm-shared", "gemma3-270m")


def _nvidia_smi(stop):
    binary = shutil.which("nvidia-smi")
    if binary is None:
        return None
    answer = command.run([binary, f"--query-gpu={GPU_FACTS}", "--format=csv"], 20.0, stop)
    return answer.out.strip() if answer.code == 0 else answer.problem() or command.last_line(answer.err)


def find_device(devices, wanted):
    """The entry of `headnorm devices` that an option means: "cuda" is the first, "emulator" that of the h200."""
    alias = {"cuda": "cuda:0", "emulator": "emulator:h200"}.get(wanted, wanted)
    return next((device for device in devices if device["id"] == alias), None)


def look(context, quick):
    """Fills in what the context says of devices and shapes."""
    answers = {}
    for verb in ("devices", "presets", "doctor"):
        answers[verb] = context.tool.ask([verb], ASK_S)
        if verb != "doctor" and answers[verb].problem():
            return PhaseResult("machine", State.BROKEN, f"headnorm {verb}: {answers[verb].problem()}")
    document = answers["devices"].document
    device = find_device(document["devices"], context.device)
    data = {"device": device, "cuda_driver": document.get("cuda_driver"), "doctor": (answers["doctor"].document or {}).get("checks"),
            "nvidia_smi": _nvidia_smi(context.stop), "system": platform.platform(), "processors": os.cpu_count()}
    if device is None:
        there = ", ".join(entry["id"] for entry in document["devices"])
        return PhaseResult("machine", State.BROKEN, f"there is no device {context.device}; there are {there}", data)
    if device["kind"] not in ("cuda", "emulator"):
        return PhaseResult("machine", State.BROKEN, f"{context.device} is no GPU", data)
    context.device, context.target = device["id"], device["target"]
    base = device["target"].partition("+")[0].rstrip("af")
    context.emulator = f"emulator:{EMULATORS.get(base, 'h200')}"
    if find_device(document["devices"], context.emulator) is None:
        return PhaseResult("machine", State.BROKEN, f"the emulator's device {context.emulator} is missing: the pack is not whole", data)
    shapes = distinct_shapes(answers["presets"].document["presets"])
    context.shapes = [shape for shape in shapes if set(QUICK_PRESETS) & set(shape.presets)] if quick else shapes
    data["shapes"] = len(context.shapes)
    return PhaseResult("machine", State.PASSED, f"{device['name']}, {device['target']}, driver {device['driver']}", data)
