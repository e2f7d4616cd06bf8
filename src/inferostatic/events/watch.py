"""How fast a simulation goes: its cost is announced before most of it is spent."""

import time

from ..progress import announce

#: Events from which on the cost of a simulation is announced.
ANNOUNCED_EVENTS = 50_000
#: Results after which the rate of many workers is known. In one process it is two: the first one
#: may have compiled or loaded something.
TIMED_RESULTS = 16


class Watch:
    """Counts events as they are made, and announces once what all of them will take."""

    count: int
    show: bool | None
    results: int
    done: int
    first: int
    began: float
    first_done: float

    def __init__(self, count: int, *, in_process: bool, show: bool | None) -> None:
        """Start.

        Args:
            count: events in all.
            in_process: whether results come one after the other.
            show: force the announcement on or off.
        """
        self.count, self.show = count, show
        self.announced_at = 2 if in_process else TIMED_RESULTS
        self.results = self.done = self.first = 0
        self.began = self.first_done = time.perf_counter()

    def add(self, events: int) -> str:
        """So many more were made; returns a note on the rate."""
        now = time.perf_counter()
        self.results, self.done = self.results + 1, self.done + events
        if self.results == 1:
            self.first, self.first_done = events, now
        elif self.results == self.announced_at and self.count >= ANNOUNCED_EVENTS:
            each = (now - self.first_done) / (self.done - self.first)
            announce(f"simulating {self.count:,} events", self.count * each, show=self.show)
        rate = self.done / max(now - self.began, 1e-9)
        return f"{rate:,.0f} events/s" if rate >= 10 else f"{rate:.2g} events/s"
