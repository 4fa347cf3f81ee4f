"""One process that times headnorm's kernels beside a copy, PyTorch, torch.compile and Triton. Writes a JSON line per comparison.

usage: python -m gpu_acceptance.peer_worker CASES.json RESULTS.jsonl SECONDS

Every contender is a CUDA graph of the same number of launches, which rotate over operand sets that hold more than twice the L2
cache. Graphs are replayed in random order, round after round, so that a GPU that changes its clock changes all of them; a ratio is
the median of those of the rounds.
"""

import json
import random
import sys
import time

import torch

from . import cuda_launch, peer_kernels
from .peer_results import parse_spec, summarise

ROUNDS, MOST_LAUNCHES, LEAST_LAUNCHES = 25, 64, 10
CASE_SECONDS = 8.0  # one that begins later than this before the end would be cut off
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Contender:
    def __init__(self, name, function, sets, launches):
        self.name = name
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):  # compiles, and chooses what is to be chosen, before the capture
            for _ in range(3):
                function(sets[0])
        torch.cuda.synchronize()
        self._graph, self._kept = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(self._graph):
            for i in range(launches):
                self._kept.append(function(sets[i % len(sets)]))  # kept: each launch has outputs of its own, as ours have
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._launches = launches

    def time_us(self):
        self._begin.record()
        self._graph.replay()
        self._end.record()
        self._end.synchronize()
        return self._begin.elapsed_time(self._end) * 1e3 / self._launches


def choose_triton(sets, spec):
    """The fastest configuration, each timed alone a few times."""
    from . import triton_kernel
    best = None
    for configuration in triton_kernel.configurations(spec["width"] // spec["head_size"], spec["head_size"]):
        def launch(operands, chosen=configuration):
            return triton_kernel.norm(operands, spec["head_size"], spec["eps"], chosen)
        contender = Contender("triton", launch, sets, max(len(sets), LEAST_LAUNCHES))
        time_us = min(contender.time_us() for _ in range(5))
        if best is None or time_us < best[0]:
            best = (time_us, launch)
    return best[1]


def make_functions(case, spec, sets, driver):
    """(name, how to make its function of operands that returns y), of all contenders."""
    def ours():
        kernel = cuda_launch.Kernel(driver, case["ptx"], case["launch"])

        def launch(operands):
            kernel.launch(operands.addresses(), spec["width"], case["rows"], torch.cuda.current_stream().cuda_stream)
            return operands.y, operands.residual_out
        return launch

    def copy():  # of all row tensors, so that it moves as many bytes
        def launch(operands):
            operands.y.copy_(operands.x)
            if spec["fused"]:
                operands.residual_out.copy_(operands.residual)
            return operands.y, operands.residual_out
        return launch

    return [("headnorm", ours), ("copy", copy),
            ("pytorch", lambda: lambda operands: peer_kernels.eager(operands, spec["head_size"], spec["eps"])),
            ("torch.compile", lambda: peer_kernels.make_compiled(spec["head_size"], spec["eps"])),
            ("triton", lambda: choose_triton(sets, spec))]


def make_sets(case, spec):
    """Operand sets that hold more than twice the L2 cache together, as far as a quarter of the memory allows."""
    facts = torch.cuda.get_device_properties(torch.cuda.current_device())
    generator = torch.Generator(device="cuda").manual_seed(case["seed"])

    def make():
        return peer_kernels.make_operands(case["rows"], spec["width"], spec["head_size"], DTYPES[spec["dtype"]], spec["fused"], generator)

    sets = [make()]
    wanted = 2 * facts.L2_cache_size // sets[0].bytes() + 1
    room = facts.total_memory // 4 // sets[0].bytes()
    sets += [make() for _ in range(min(wanted, room, MOST_LAUNCHES) - 1)]
    return sets


def compare(case, driver):
    with open(case["launch"], encoding="utf-8") as file:
        spec = parse_spec(json.load(file)["spec"])
    sets = make_sets(case, spec)
    launches = len(sets) * -(-LEAST_LAUNCHES // len(sets))
    contenders, errors, absent, failures = [], {}, {}, []
    for name, make in make_functions(case, spec, sets, driver):
        try:
            function = make()
            y = function(sets[0])[0]
            torch.cuda.synchronize()
            if name != "copy":
                errors[name] = peer_kernels.largest_error(y, sets[0], spec["head_size"], spec["eps"])
            contenders.append(Contender(name, function, sets, launches))
        except Exception as error:  # a contender that fails in whatever way is left out, and said
            absent[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300] if str(error).strip() else ''}"
    where = f"{case['preset']}, {case['variant']}"
    if "headnorm" in absent:
        failures.append(f"{where}: headnorm: {absent['headnorm']}")
    elif not errors["headnorm"] <= 1:
        failures.append(f"{where}: headnorm's y is {errors['headnorm']:.3g} times further from the formula than rounding allows")
    row = {"preset": case["preset"], "variant": case["variant"], "rows": case["rows"], "spec": spec, "tuned": case["tuned"],
           "operand_sets": len(sets), "errors": errors, "absent": absent, "failures": failures, "times": {}, "ratios": {}}
    if "headnorm" not in absent:
        row["times"], row["ratios"] = summarise(time_rounds(contenders, case["seed"]), sets[0].bytes())
    return row


def time_rounds(contenders, seed):
    order, shuffle = list(contenders), random.Random(seed)
    times = {contender.name: [] for contender in contenders}
    for contender in contenders:
        contender.time_us()
    for _ in range(ROUNDS):
        shuffle.shuffle(order)
        for contender in order:
            times[contender.name].append(contender.time_us())
    return times


def main(cases_file, results_file, seconds):
    end_s = time.monotonic() + float(seconds)
    with open(cases_file, encoding="utf-8") as file:
        asked = json.load(file)
    torch.cuda.set_device(int(asked["device"].partition(":")[2] or 0))
    torch.cuda.synchronize()
    driver = cuda_launch.Driver()
    with open(results_file, "w", encoding="utf-8") as results:
        for case in asked["cases"]:
            if end_s - time.monotonic() < CASE_SECONDS:
                break
            print(json.dumps(compare(case, driver)), file=results, flush=True)
            torch.compiler.reset()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main(*sys.argv[1:])
