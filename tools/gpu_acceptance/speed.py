"""The phases that time: the ceiling of a copy, tuning, and the peers side by side."""

import json

from . import command
from .context import VARIANTS
from .results import PhaseResult, State, finish, write_whole

NO_TIMES = "an emulated device has no times"
LEAST_COPY_S = 10.0  # far more than it takes: also when another phase has used up the time

# Those worth tuning first; as many as the time allows.
TUNED = ("wide-vit-4096", "llama-3-8b", "wide-vit-1024", "dit-xl-2", "ablation-rmsnorm", "wide-vit-2048", "deepseek-v3", "gemma3-27b",
         "vit-gigantic-14", "qwen3-4b", "flux.1", "vit-b-16", "vit-22b", "ablation-d64", "gemma3-270m")
SECONDS_A_SEARCH, LEAST_SECONDS = 8.0, 3.0
QUICK_ROWS = 8


def copy_ceiling(context, deadline):
    """What a plain copy on the device reaches, to hold kernels against."""
    if context.is_emulated():
        return PhaseResult("copy", State.SKIPPED, NO_TIMES)
    answer = context.tool.ask(["explain", "--preset", "wide-vit-4096", "--target", context.target, "--device", context.device],
                              max(deadline.left_s(), LEAST_COPY_S))
    if answer.problem():
        return PhaseResult("copy", State.BROKEN, answer.problem())
    roofline = answer.document["roofline"][0]
    return PhaseResult("copy", State.PASSED, f"{roofline['gb_per_s']:.0f} GB/s, {roofline['source']}",
                       {"gb_per_s": roofline["gb_per_s"], "source": roofline["source"]})


def _tune_jobs(context):
    named = {name: shape for shape in context.shapes for name in shape.presets}
    names = [name for name in TUNED if name in named]
    jobs = [(name, variant) for variant in VARIANTS for name in names]
    return jobs[:1] if context.quick else jobs


def tune(context, deadline):
    """Searches schedules of the presets into a database that comes back with the report."""
    jobs, results, failures = _tune_jobs(context), [], []
    for preset, variant in jobs:
        if context.stop.requested or deadline.left_s() < LEAST_SECONDS:
            break
        seconds = min(SECONDS_A_SEARCH, deadline.left_s())
        words = ["tune", "--preset", preset, "--device", context.device, "--db", context.out / "db", "--search", "random", "--budget",
                 f"{seconds:.1f}s", "--seed", context.seed, *VARIANTS[variant]]
        if context.quick:
            words += ["--rows", QUICK_ROWS, "--policy", "warm"]
        # A search ends by itself a little after its budget; one that does not has hung.
        answer = context.tool.ask(words, seconds + 30.0)
        if answer.ended_by == "interrupt":
            break
        if answer.problem() or not answer.document.get("results"):
            failures.append(f"{preset}, {variant}: {answer.problem() or 'no result'}")
            continue
        result = {"preset": preset, "variant": variant, **answer.document["results"][0]}
        context.tuned[preset, variant] = result
        results.append(result)
    return finish("tune", failures, len(results) + len(failures), len(jobs), "searches", {"database": "db", "results": results})


# Which of them are compared; each takes some seconds, most of them torch.compile's.
COMPARED = ("wide-vit-4096", "llama-3-8b", "wide-vit-1024", "ablation-rmsnorm", "dit-xl-2", "gemma3-27b", "vit-b-16", "deepseek-v3")
PROBE = "import json,sys,torch\nt={'torch':torch.__version__,'cuda':torch.version.cuda,'gpu':torch.cuda.is_available()}\n" \
        "try:\n import triton;t['triton']=triton.__version__\nexcept ImportError:\n t['triton']=None\nprint(json.dumps(t))"


def probe_torch(python, limit_s, stop):
    """(versions, "") or (None, why there are none)."""
    answer = command.run([python, "-c", PROBE], limit_s, stop)
    if answer.ended_by or answer.code != 0:
        return None, answer.problem() if answer.ended_by else command.last_line(answer.err) or f"exit code {answer.code}"
    return json.loads(command.last_line(answer.out)), ""


def _make_case(context, preset, variant, deadline):
    """The kernel of one comparison as PTX, with its tuned schedule if there is one; or why there is none."""
    tuned = context.tuned.get((preset, variant))
    file = context.scratch / f"{preset}-{len(VARIANTS[variant])}.ptx"
    words = ["generate", "--preset", preset, "--target", context.target, "--emit", "ptx", "-o", file, *VARIANTS[variant]]
    if tuned:
        words += ["--schedule", tuned["schedule"]]
    answer = context.tool.ask(words, max(deadline.left_s(), 5.0))
    if answer.problem():
        return None, f"{preset}, {variant}: {answer.problem()}"
    rows = next(shape.rows for shape in context.shapes if preset in shape.presets)
    return {"preset": preset, "variant": variant, "rows": tuned["rows"] if tuned else rows, "tuned": bool(tuned),
            "ptx": str(file), "launch": f"{file}.launch.json", "seed": context.seed}, ""


def peers(context, deadline):
    """Ours, a copy, PyTorch, torch.compile and a Triton kernel, interleaved in one process (peer_worker.py)."""
    versions, missing = probe_torch(context.python, min(60.0, deadline.left_s()), context.stop)
    if versions is None:
        return PhaseResult("peers", State.SKIPPED, f"PyTorch is not here: {missing}")
    if context.is_emulated() or not versions["gpu"]:
        return PhaseResult("peers", State.SKIPPED, f"PyTorch {versions['torch']} sees no GPU")
    named = {name for shape in context.shapes for name in shape.presets}
    jobs = [(preset, variant) for preset in COMPARED if preset in named for variant in VARIANTS]
    made = [_make_case(context, *job, deadline) for job in jobs]
    failures = [problem for case, problem in made if case is None]
    cases = context.scratch / "peer_cases.json"
    write_whole(cases, json.dumps({"device": context.device, "cases": [case for case, _ in made if case]}))
    results = context.scratch / "peer_results.jsonl"
    worker = [context.python, "-m", f"{__package__}.peer_worker", cases, results, f"{deadline.left_s():.0f}"]
    answer = command.run(worker, deadline.left_s() + 10.0, context.stop, {"PYTHONPATH": str(context.package_place())})
    rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()] if results.exists() else []
    failures += [text for row in rows for text in row["failures"]]
    data = {"versions": versions, "rows": rows}
    if not rows:
        return PhaseResult("peers", State.BROKEN, f"no comparison was made: {command.last_line(answer.err) or answer.problem()}", data)
    return finish("peers", failures, len(rows), len(jobs), "comparisons", data)
