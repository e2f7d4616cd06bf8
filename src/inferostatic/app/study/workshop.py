"""What steps share within a process: the study, the journal, the simulator and its workers."""

import contextlib
import dataclasses
import io
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...files import write_whole
from .build import build_prior, load_simulator
from .folder import Study, take_digest
from .journal import Journal

if TYPE_CHECKING:
    import numpy as np

    from ...checkpoint import Checkpoint
    from ...events.events import Events
    from ...events.origin import Origin
    from ...world.priors.prior import AbstractPrior

#: Minutes after which long work is saved: little is lost, and saving is cheap.
MINUTES = 0.25


@dataclasses.dataclass(frozen=True)
class Workshop:
    """The surroundings of steps; the user's code is imported when a step first needs it.

    Attributes:
        study: whose steps are done.
        journal: to which they say what they do.
        workers: processes that simulate; None for this one alone.
        stack: ends them.
    """

    study: Study
    journal: Journal
    workers: int | None
    stack: contextlib.ExitStack

    @cached_property
    def prior(self) -> "AbstractPrior":
        """The prior."""
        return build_prior(self.study.table)

    @cached_property
    def bare_simulator(self) -> Any:  # noqa: ANN401
        """The user's simulator as it is."""
        return load_simulator(self.study)

    @cached_property
    def engine(self) -> Any:  # noqa: ANN401
        """Worker processes; None where there are none."""
        from ...events.engines.process_pool import ProcessPool

        return None if self.workers is None else self.stack.enter_context(ProcessPool(self.workers))

    @cached_property
    def simulator(self) -> Any:  # noqa: ANN401
        """The simulator, run by the workers where there are any; the numbers are the same."""
        return self.bare_simulator if self.engine is None else self.engine(self.bare_simulator)

    @cached_property
    def versions(self) -> dict[str, str]:
        """Of Python and the packages."""
        import platform

        from ...archive import package_versions

        return {"python": platform.python_version(), **package_versions()}

    def checkpoint(self, folder: Path) -> "Checkpoint":
        """Where a step keeps what it has done so far; other versions begin anew."""
        from ...checkpoint import Checkpoint

        name = f"checkpoint-{take_digest(self.versions)[:8]}"
        return Checkpoint(folder / name, minutes=MINUTES)

    def events(self, which: str, n: int) -> "Events":
        """The first `n` stored events."""
        from ...events.simulate import joint_density
        from ...events.store.parts import find_parts
        from ...events.store.store import Store, open_events, require_parts

        store = Store(self.study.store(which))
        if not store.exists():
            raise ValueError(
                f"there are no {which} events yet: `inferostatic simulate {self.study.folder}`."
            )
        manifest = store.manifest()
        if manifest.events < n:
            raise ValueError(
                f"there are {manifest.events:,} {which} events of {n:,}; `inferostatic simulate "
                f"{self.study.folder}` makes the others."
            )
        require_parts(store.path, find_parts(store.path), range(manifest.count_parts(n)))
        joint = None if manifest.joint is None else joint_density(self.bare_simulator)
        events = open_events(store.path, manifest, n, self.prior, joint)
        return events.with_origin(self._describe_origin(which))

    def _describe_origin(self, which: str) -> "Origin":
        """The simulator as `study.toml` names it; the name in the stores is the same for all."""
        from ...events.origin import Origin

        table = self.study.table.simulator
        name = table.module or " ".join(table.command or ())
        if table.file is not None:
            name = f"{table.function} of {table.file}"
        return Origin(name, table.version or None, self.study.seeds[which])

    def estimator(self, folder: Path) -> Any:  # noqa: ANN401
        """The trained estimator of a step."""
        from ...estimator.loading import load

        return load(folder / MODEL)


#: The model in the folder of a fit.
MODEL = "model.isn"


def save_array(path: Path, values: "np.ndarray") -> None:
    """Write a file for `np.load`, whole."""
    import numpy as np

    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=False)
    write_whole(path, stream.getvalue())
