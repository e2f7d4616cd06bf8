"""What a run says: lines on stderr for people, and the same with the time in `run/log.txt`."""

import contextlib
import datetime
import warnings
from collections.abc import Iterator
from pathlib import Path

from ..streams import complain, make_visible

#: The log in the run folder.
LOG = "log.txt"


class Journal:
    """Says lines and keeps them; a log that cannot be written stops no work."""

    def __init__(self, run: Path) -> None:
        self._path = run / LOG

    def say(self, line: str) -> None:
        """On stderr and in the log."""
        complain(make_visible(line))
        self.note(line)

    def note(self, text: str) -> None:
        """In the log alone."""
        time = now()
        lines = "".join(f"{time} {line}\n" for line in text.splitlines())
        with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as stream:
            stream.write(lines.encode("utf-8", "backslashreplace").decode())

    @contextlib.contextmanager
    def collecting(self) -> Iterator[list[str]]:
        """Within it warnings become lines, each once, and fill the list."""
        found: list[str] = []

        def show(message: Warning | str, *_: object, **__: object) -> None:
            text = str(message)
            if text not in found:
                found.append(text)
                self.say(f"warning: {text}")

        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.showwarning = show
            yield found


def now() -> str:
    """The time, in ISO form with the time zone."""
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")
