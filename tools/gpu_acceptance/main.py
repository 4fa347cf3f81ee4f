"""Arguments, the phases one after the other, and the report after each of them."""

import argparse
import contextlib
import datetime
import os
import pathlib
import signal
import sys
import tempfile
import time
import traceback

from . import checks, command, machine, pack, render, speed
from .budget import Budget
from .context import Context
from .results import EXIT_ENVIRONMENT, EXIT_USAGE, PhaseResult, Run, State, write_json, write_whole

# Seconds of the default budget. A phase that needs less leaves it to the next ones; the report itself takes next to nothing.
SHARES = {"machine": 10, "verify": 90, "emulator": 50, "sanitizer": 70, "copy": 10, "tune": 120, "peers": 110}
LEAST_BUDGET_S = 5.0
MOST_JOBS = 8

PHASES = {"machine": lambda context, deadline: machine.look(context, context.quick), "verify": checks.verify,
          "emulator": checks.emulator, "sanitizer": checks.sanitizer, "copy": speed.copy_ceiling, "tune": speed.tune, "peers": speed.peers}


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="gpu-acceptance", description="Checks and measures headnorm on a GPU, and writes a report.",
                                     epilog="Exit codes: 0 accepted, 1 a check failed, 2 usage, 3 something is missing, 75 interrupted.")
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or emulator:MODEL to try the script (cuda:0)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-acceptance-results"),
                        help="folder of report.json, report.md and the database db/ (gpu-acceptance-results)")
    parser.add_argument("--budget", type=float, default=float(sum(SHARES.values())), metavar="SECONDS",
                        help=f"time of the whole run ({sum(SHARES.values())})")
    parser.add_argument("--only", metavar="PHASE,...", help=f"these phases alone, and machine: {', '.join(SHARES)}")
    parser.add_argument("--quick", action="store_true", help="four presets and one small search")
    parser.add_argument("--seed", type=int, default=1, help="of the data (1)")
    parser.add_argument("--headnorm", type=pathlib.Path, help="the command (that of the pack, or of build/portable, build/release)")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch and Triton (the one that runs this)")
    parser.add_argument("--pack", type=pathlib.Path, metavar="OUT", help="builds the pack for another machine into a new folder, and ends")
    options = parser.parse_args(arguments)
    if options.budget < LEAST_BUDGET_S:
        parser.error(f"--budget {options.budget:g} is below {LEAST_BUDGET_S:g} seconds")
    asked = options.only.split(",") if options.only else list(SHARES)
    for name in asked:
        if name not in SHARES:
            parser.error(f"--only {name}: the phases are {', '.join(SHARES)}")
    options.phases = [name for name in SHARES if name in asked or name == "machine"]
    return options


def run_phase(name, context, deadline):
    """A phase that raises is a defect of this script: the run goes on, and the report says it."""
    begin_s = time.monotonic()
    try:
        result = PHASES[name](context, deadline)
    except Exception as error:
        result = PhaseResult(name, State.BROKEN, f"{type(error).__name__}: {error}", failures=[traceback.format_exc()])
    result.seconds = time.monotonic() - begin_s
    return result


def run_phases(context, budget, run, names, report):
    """`report(run)` after each, so that whatever ends the process leaves what there was."""
    begin_s = time.monotonic()
    for name in names:
        if context.stop.requested:
            break
        result = run_phase(name, context, budget.deadline(name))
        run.phases.append(result)
        run.interrupted = context.stop.requested
        run.seconds = time.monotonic() - begin_s
        report(run)
        if name == "machine" and result.state == State.BROKEN:  # the others have nothing to work with
            break
    return run


def write_report(out, run):
    write_json(out / "report.json", run)
    write_whole(out / "report.md", render.markdown(run.document()))


def say(run):
    if run.phases:
        last = run.phases[-1]
        print(f"{last.name:<10} {last.state.value:<11} {last.seconds:6.1f} s  {last.summary}", flush=True)


def main(arguments):
    options = parse_arguments(arguments)
    if options.pack:
        return pack.make(options.pack)
    binary = options.headnorm or pack.find_binary()
    if binary is None or not os.access(binary, os.X_OK):
        print(f"error: there is no headnorm command{f' at {binary}' if binary else ''}\nremedy: run this from a pack (--pack OUT makes one), "
              "build the preset release or portable, or name the command with --headnorm", file=sys.stderr)
        return EXIT_ENVIRONMENT
    stop = command.Stop()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, stop.request)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"error: {options.out} cannot be made: {error.strerror}\nremedy: name another folder with --out", file=sys.stderr)
        return EXIT_ENVIRONMENT
    return accept(options, binary, stop)


def accept(options, binary, stop):
    tool = command.Headnorm(str(binary.resolve()), stop)
    version = command.run([tool.binary, "--version"], 30.0, stop)
    run = Run(command.last_line(version.out) or "headnorm", options.device,
              {"budget": options.budget, "quick": options.quick, "seed": options.seed, "phases": options.phases},
              datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))

    def report(done):
        write_report(options.out, done)

    with contextlib.ExitStack() as stack:
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu-acceptance-")))
        context = Context(tool, stop, options.device, "", "", [], options.out.resolve(), scratch, options.seed,
                          max(1, min(MOST_JOBS, os.cpu_count() or 1)), options.quick, options.python)
        budget = Budget(options.budget, {name: SHARES[name] for name in options.phases})
        run_phases(context, budget, run, options.phases, lambda done: (report(done), say(done)))
    write_report(options.out, run)
    print(f"\n{run.verdict()}\n{options.out / 'report.md'}, report.json")
    return run.exit_code()
