"""Budget: how a run's time is shared among its phases. What one phase leaves goes to those after it; what it overruns, they lack."""

import time


class Deadline:
    """A moment on the clock after which a phase begins nothing new."""

    def __init__(self, end_s, now):
        self._end_s, self._now = end_s, now

    def left_s(self):
        return max(0.0, self._end_s - self._now())

    def within(self, seconds):
        """The sooner of this deadline and so many seconds from now."""
        return Deadline(min(self._end_s, self._now() + seconds), self._now)


class Budget:
    """`shares`: a weight for every phase, in the order in which they run."""

    def __init__(self, total_s, shares, now=time.monotonic):
        self._shares, self._now = dict(shares), now
        self._end_s = now() + total_s

    def left_s(self):
        return max(0.0, self._end_s - self._now())

    def deadline(self, phase):
        """For a phase that begins now: its weight against those of itself and of all that come after it."""
        names = list(self._shares)
        to_come = sum(self._shares[name] for name in names[names.index(phase):])
        return Deadline(self._now() + self.left_s() * self._shares[phase] / to_come, self._now)
