"""The phases that compare: kernels with double precision, the GPU with the emulator, and both under compute-sanitizer."""

import concurrent.futures
import itertools
import os
import pathlib
import re
import shutil

from . import command, npy
from .context import VARIANTS
from .results import PhaseResult, State, finish

ONE_COMMAND_S = 60.0  # far more than one takes: what does not come by then has hung
VERIFY_ROWS = "1,7"
COMPARED_ROWS = 5

# Of y against the emulator's. Both run the same instructions in the same order. rsqrt.approx alone may differ: the emulator rounds
# the exact root, a GPU is within 2^-22.9 of it. That moves the f32 result by two of its ulp and a rounding or two that follow by one
# each; rounded to 16 bits it is the same number or a neighbour.
ULP = {"f32": 4, "f16": 1, "bf16": 1}


def _in_parallel(context, deadline, jobs, work):
    """work(job, seconds) of all jobs that begin before the deadline: a list of (job, result)."""
    def one(job):
        if context.stop.requested or deadline.left_s() <= 0:
            return None
        return job, work(job, min(ONE_COMMAND_S, max(deadline.left_s(), 5.0)))

    with concurrent.futures.ThreadPoolExecutor(max_workers=context.jobs) as pool:
        return [result for result in pool.map(one, jobs) if result is not None]


def _cut_off(answer, deadline):
    """Whether the time of the phase ended it, or whoever runs this: that says nothing about what it ran."""
    return answer.ended_by == "interrupt" or answer.ended_by == "limit" and deadline.left_s() <= 0


def _failed_cases(shape, variant, answer):
    where = f"{shape.preset}, {variant}"
    wrong = answer.document.get("failures", []) if answer.document else []
    if not wrong:
        return [f"{where}: {answer.problem() or f'exit code {answer.code}'}"]
    return [f"{where}, {case['rows']} rows, {case['schedule']}: {case['what']}: {case['message']}; row {case['row']}, channel "
            f"{case['channel']}: {case['value']}, expected {case['expected']}, bound {case['bound']}" for case in wrong[:3]]


def verify(context, deadline):
    """Every preset, plain and with all that is fused, against the double evaluation, on several schedules."""
    jobs = list(itertools.product(context.shapes, VARIANTS))

    def work(job, seconds):
        shape, variant = job
        return context.tool.ask(["verify", "--preset", shape.preset, "--device", context.device, "--rows", VERIFY_ROWS, "--seed",
                                 context.seed, *VARIANTS[variant]], seconds)

    failures, cases, done, rows = [], 0, 0, []
    for (shape, variant), answer in _in_parallel(context, deadline, jobs, work):
        if _cut_off(answer, deadline):
            continue
        done += 1
        counted = (answer.document or {}).get("cases", 0)
        cases += counted
        right = answer.code == 0 and counted > 0
        if not right:
            failures += _failed_cases(shape, variant, answer)
        rows.append({"presets": shape.presets, "variant": variant, "cases": counted, "right": right})
    return finish("verify", failures, done, len(jobs), f"shapes ({cases} cases)", {"cases": cases, "shapes": rows})


def _write_operands(context, shape, folder):
    """The .npy files of all operands that a variant may have, by their option."""
    seed, width, dtype = context.seed, shape.width, shape.dtype
    tensors = {"input": npy.activations(COMPARED_ROWS, width, dtype, seed),
               "residual-input": npy.activations(COMPARED_ROWS, width, dtype, seed + 1),
               "gamma": npy.weights(shape.gamma_size(), dtype, seed + 2, 1.0, 0.1),
               "alpha": npy.weights(width, dtype, seed + 3, 0.0, 0.5),
               "beta": npy.weights(width, dtype, seed + 4, 0.0, 0.3 / shape.head_size**0.5)}
    for name, tensor in tensors.items():
        npy.write(folder / f"{name}.npy", tensor)


OPERANDS = {"norm": ("input", "gamma"), "residual + gate": ("input", "residual-input", "gamma", "alpha", "beta")}
OUTPUTS = {"norm": ("output",), "residual + gate": ("output", "residual-output")}


def _run_on(context, shape, variant, device, folder, seconds):
    words = ["run", "--preset", shape.preset, "--device", device, "--db", folder / "db", *VARIANTS[variant]]
    for name in OPERANDS[variant]:
        words += [f"--{name}", folder.parent / f"{name}.npy"]
    for name in OUTPUTS[variant]:
        words += [f"--{name}", folder / f"{name}.npy"]
    return context.tool.ask(words, seconds)


def _compare_outputs(shape, variant, folders):
    """(differences by output, failures) of the two devices' files."""
    differences, failures = {}, []
    for name in OUTPUTS[variant]:
        try:
            found = npy.compare(*(npy.read(folder / f"{name}.npy", shape.dtype) for folder in folders))
        except (OSError, ValueError) as error:
            failures.append(f"{shape.preset}, {variant}: {name}: {error}")
            continue
        allowed = ULP[shape.dtype] if name == "output" else 0  # u has no root in it: the same bits
        differences[name] = {"elements": found.elements, "unequal": found.unequal, "largest_ulp": found.largest_ulp}
        if found.largest_ulp > allowed:
            failures.append(f"{shape.preset}, {variant}: {name} is {found.largest_ulp} ulp of {shape.dtype} from the emulator's, allowed "
                            f"are {allowed}; row {found.at[0]}, channel {found.at[1]}: {found.values[0]} here, {found.values[1]} there")
    return differences, failures


def _compare_devices(context, job, seconds):
    """What one shape and variant comes to: a row of the report, or an answer that is none."""
    shape, variant = job
    place = context.scratch / f"{shape.preset}-{len(VARIANTS[variant])}"
    folders = [place / "here", place / "there"]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    _write_operands(context, shape, place)
    answers = [_run_on(context, shape, variant, device, folder, seconds)
               for device, folder in zip((context.device, context.emulator), folders)]
    row = {"presets": shape.presets, "variant": variant, "failures": [], "outputs": {}}
    for answer, device in zip(answers, (context.device, context.emulator)):
        if answer.problem() and answer.ended_by != "interrupt":
            row["failures"].append(f"{shape.preset}, {variant}, on {device}: {answer.problem()}")
    if all(answer.document and not answer.problem() for answer in answers):
        row["schedules"] = [answer.document["schedule"] for answer in answers]
        if row["schedules"][0] == row["schedules"][1]:
            row["outputs"], row["failures"] = _compare_outputs(shape, variant, folders)
    shutil.rmtree(place, ignore_errors=True)
    return row


def emulator(context, deadline):
    """The same operands on the device and on the emulator of its target: the same bits, or neighbours (ULP)."""
    jobs = list(itertools.product(context.shapes, VARIANTS))
    rows = [row for _, row in _in_parallel(context, deadline, jobs, lambda job, seconds: _compare_devices(context, job, seconds))]
    # Drivers of unlike age may give one GPU two targets, and so two schedules, which add in another order: no bound in ulp holds.
    rows = [row for row in rows if row["failures"] or row["outputs"]]
    failures = [text for row in rows for text in row["failures"]]
    outputs = [output for row in rows for output in row["outputs"].values()]
    data = {"emulator": context.emulator, "rows": rows, "elements": sum(output["elements"] for output in outputs),
            "unequal": sum(output["unequal"] for output in outputs), "allowed_ulp": ULP}
    return finish("emulator", failures, len(rows), len(jobs), "shapes", data)


SANITIZED = ("wide-vit-1024", "ablation-rmsnorm", "vit-gigantic-14")  # heads of a warp, a row over barriers, an odd head
SANITIZERS = ("memcheck", "racecheck")
SANITIZER_FOUND = 86  # an exit code that headnorm does not have


def find_sanitizer(environment=None):
    environment = os.environ if environment is None else environment
    places = [pathlib.Path(environment[name], "bin") for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    places += [pathlib.Path("/usr/local/cuda/bin"), pathlib.Path("/opt/cuda/bin")]
    return shutil.which("compute-sanitizer", path=environment.get("PATH")) or next(
        (str(place / "compute-sanitizer") for place in places if os.access(place / "compute-sanitizer", os.X_OK)), None)


def sanitizer(context, deadline):
    """compute-sanitizer's memcheck and racecheck over a few kernels of unlike structure."""
    if context.is_emulated():
        return PhaseResult("sanitizer", State.SKIPPED, "the emulator checks bounds and races of every launch by itself")
    binary = find_sanitizer()
    if binary is None:
        return PhaseResult("sanitizer", State.SKIPPED, "compute-sanitizer is not here (it comes with the CUDA toolkit)")
    known = {name for shape in context.shapes for name in shape.presets}
    jobs = [(tool, preset, variant) for tool in SANITIZERS for preset in SANITIZED if preset in known for variant in VARIANTS]
    rows, failures, broken = [], [], []
    for tool, preset, variant in jobs:
        if context.stop.requested or deadline.left_s() <= 0 or broken:
            break
        words = ["verify", "--preset", preset, "--device", context.device, "--rows", "5", *VARIANTS[variant]]
        before = [binary, "--tool", tool, "--error-exitcode", SANITIZER_FOUND, "--print-limit", 5]
        answer = command.run([*before, context.tool.binary, *words], deadline.left_s(), context.stop)
        if answer.ended_by in ("limit", "interrupt"):
            break
        text = answer.out + answer.err
        summary = re.search(r"SUMMARY: (\d+) (?:error|hazard)", text)
        if summary is None:
            broken.append(f"{tool}, {preset}, {variant}: exit code {answer.code}: {command.last_line(text)}")
            continue
        right = answer.code == 0 and summary[1] == "0"
        rows.append({"tool": tool, "preset": preset, "variant": variant, "right": right})
        if not right:
            failures.append(f"{tool}, {preset}, {variant}: exit code {answer.code}: {text.strip()[-600:]}")
    data = {"sanitizer": binary, "rows": rows}
    if broken and not failures:
        return PhaseResult("sanitizer", State.BROKEN, "compute-sanitizer does not work here", data, broken)
    return finish("sanitizer", failures, len(rows), len(jobs), "runs", data)
