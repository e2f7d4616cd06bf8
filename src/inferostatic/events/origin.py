"""`Origin`: where events come from, in words that a model card can hold."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..inputs import as_seed, as_text
from ..serial import known, user_name

#: Fields in which a simulator of ours holds the user's function.
INNER = ("simulator", "simulate_one", "function", "model")
#: Where our own simulators are.
PACKAGE = __name__.partition(".")[0]


@known
@dataclasses.dataclass(frozen=True)
class Origin:
    """Where events come from, as far as it is known.

    Attributes:
        simulator: name of the simulator.
        version: of the simulator, as the user gave it.
        seed: of the simulation.
        source: files or other things that they were read or drawn from, in words.
    """

    simulator: str | None = None
    version: str | None = None
    seed: int | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        """Texts and a seed."""
        for name in ("simulator", "version", "source"):
            if getattr(self, name) is not None:
                as_text(getattr(self, name), name)
        if self.seed is not None:
            as_seed(self.seed)


def name_simulator(simulator: Any) -> str:  # noqa: ANN401
    """The name of the user's function or class; of a program, its command without folders."""
    command = getattr(simulator, "command", None)
    if isinstance(command, Sequence) and not isinstance(command, str):
        words = map(str, command)
        return " ".join(Path(word).name if Path(word).is_absolute() else word for word in words)
    ours = type(simulator).__module__.partition(".")[0] == PACKAGE
    inner = [getattr(simulator, name) for name in INNER if ours and hasattr(simulator, name)]
    return name_simulator(inner[0]) if inner else user_name(simulator)


def join_origins(origins: Sequence[Origin | None]) -> Origin | None:
    """Of events that were put together: what all of them share."""
    if any(origin is None for origin in origins):
        return None
    fields = {}
    for field in dataclasses.fields(Origin):
        found = list(dict.fromkeys(getattr(origin, field.name) for origin in origins))
        if len(found) == 1:
            fields[field.name] = found[0]
        elif field.name != "seed" and None not in found:
            fields[field.name] = ", ".join(found)
    return Origin(**fields)
