"""Results of the phases and of a whole run, as plain values; and the exit code that they come to."""

import dataclasses
import enum
import json
import os


class State(str, enum.Enum):
    PASSED = "passed"
    FAILED = "failed"  # something is wrong with headnorm
    BROKEN = "broken"  # the phase could not be done
    SKIPPED = "skipped"  # what it needs is not here, or was not asked for
    INCOMPLETE = "incomplete"  # right as far as it came before its time was over


EXIT_RIGHT, EXIT_CHECK_FAILED, EXIT_USAGE, EXIT_ENVIRONMENT, EXIT_INTERNAL, EXIT_INTERRUPTED = 0, 1, 2, 3, 70, 75


@dataclasses.dataclass
class PhaseResult:
    name: str
    state: State
    summary: str  # one line
    data: dict = dataclasses.field(default_factory=dict)  # what the report renders, as JSON
    failures: list = dataclasses.field(default_factory=list)  # texts
    seconds: float = 0.0


@dataclasses.dataclass
class Run:
    tool: str  # "headnorm 0.1.0"
    device: str
    options: dict
    started: str  # UTC, ISO 8601
    phases: list = dataclasses.field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0

    def states(self):
        return {phase.state for phase in self.phases}

    def verdict(self):
        if State.FAILED in self.states():
            return "not accepted: a check failed"
        if self.interrupted:
            return "interrupted: nothing was found wrong so far"
        if State.BROKEN in self.states():
            return "not accepted: a phase could not be done"
        if State.INCOMPLETE in self.states():
            return "nothing was found wrong, but the time was over before everything was looked at"
        skipped = [phase.name for phase in self.phases if phase.state == State.SKIPPED]
        word = "right, but no GPU was looked at" if self.device.startswith("emulator") else "accepted"
        return f"{word}, without {', '.join(skipped)}" if skipped else word

    def exit_code(self):
        if State.FAILED in self.states():
            return EXIT_CHECK_FAILED
        if self.interrupted:
            return EXIT_INTERRUPTED
        return EXIT_ENVIRONMENT if State.BROKEN in self.states() else EXIT_RIGHT

    def document(self):
        """As the JSON that is written, read back: plain lists, numbers and texts."""
        values = {**dataclasses.asdict(self), "verdict": self.verdict(), "exit_code": self.exit_code()}
        return json.loads(json.dumps(values, default=str))


def finish(name, failures, done, wanted, unit, data):
    """The result of a phase that went through `done` of `wanted` things and found these failures."""
    counted = f"{done} of {wanted} {unit}"
    if failures:
        return PhaseResult(name, State.FAILED, f"{counted}, {len(failures)} failed", data, failures)
    if done < wanted:
        return PhaseResult(name, State.INCOMPLETE, f"{counted}, all right; its time was over", data)
    return PhaseResult(name, State.PASSED, f"{counted}, all right", data)


def write_whole(path, text):
    """A reader sees the old file or the new one."""
    beside = path.with_name(path.name + ".part")
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def write_json(path, run):
    write_whole(path, json.dumps(run.document(), indent=2, sort_keys=True) + "\n")
