"""Commands with a time limit, and the headnorm command with its JSON answers. Nothing here raises for what a command does."""

import dataclasses
import json
import os
import signal
import subprocess
import time

POLL_S = 0.1
GRACE_S = 3.0  # from the request to stop to the end by force


@dataclasses.dataclass
class Answer:
    code: int = -1
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    ended_by: str = ""  # "limit" or "interrupt": asked to stop before it was done; "start": it could not be started
    document: dict = None  # of headnorm: its JSON; None if there is none

    def problem(self):
        """Why this is no answer, in one line; empty if it is one."""
        if self.ended_by == "limit":
            return f"no answer within {self.seconds:.0f} s"
        if self.ended_by == "interrupt":
            return "interrupted"
        if self.ended_by == "start":
            return self.err
        if self.code < 0:
            return f"ended by signal {-self.code}"
        if self.document is None:
            return f"exit code {self.code} without a JSON document: {last_line(self.err) or last_line(self.out)}"
        error = self.document.get("error")
        return f"{error.get('kind')}: {error.get('message')}" if isinstance(error, dict) else ""


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


class Stop:
    """Set by a signal; commands that run then are asked to stop."""

    def __init__(self):
        self.requested = False

    def request(self, *_):
        self.requested = True


def _end(process):
    """Asks the process to stop, as Ctrl-C does, and ends all that it started if it does not."""
    for sign, patience_s in ((signal.SIGINT, GRACE_S), (signal.SIGKILL, GRACE_S)):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            pass
        try:
            return process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            continue
    return "", ""


def run(words, limit_s, stop, environment=None):
    """Runs a command to its end, its limit or a request to stop."""
    begin_s = time.monotonic()
    answer = Answer()
    try:
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
                                   env={**os.environ, **(environment or {})})
    except OSError as error:
        return Answer(err=f"{words[0]} cannot be started: {error.strerror}", ended_by="start")
    while True:
        try:
            answer.out, answer.err = process.communicate(timeout=POLL_S)
            break
        except subprocess.TimeoutExpired:
            if stop.requested or time.monotonic() - begin_s > limit_s:
                answer.ended_by = "interrupt" if stop.requested else "limit"
                answer.out, answer.err = _end(process)
                break
    answer.code, answer.seconds = process.returncode, time.monotonic() - begin_s
    return answer


class Headnorm:
    """The command of the pack."""

    def __init__(self, binary, stop):
        self.binary, self.stop = binary, stop

    def ask(self, words, limit_s, before=()):
        """`before`: a command that runs it, a sanitizer say."""
        answer = run([*before, self.binary, *words, "--json"], limit_s, self.stop)
        try:
            document = json.loads(answer.out)
        except json.JSONDecodeError:
            document = None
        answer.document = document if isinstance(document, dict) else None
        return answer
