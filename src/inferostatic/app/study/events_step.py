"""The step `simulate`: training and validation events into stores."""

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .folder import Study, describe_prior
from .step import Outcome, StudyStep

if TYPE_CHECKING:
    from ...events.store.status import StoreStatus
    from .workshop import Workshop


def plan_events(study: Study) -> StudyStep:
    """The step."""
    table = study.table.simulate
    inputs = {
        "simulator": study.simulator_identity,
        "prior": describe_prior(study.table),
        "events": table.events,
        "validation": table.validation,
        "seeds": [study.seeds["training"], study.seeds["validation"]],
    }
    return StudyStep("simulate", "simulate", inputs, _work)


def count_wanted(study: Study) -> dict[str, int]:
    """Events of every store that the study asks for."""
    table = study.table.simulate
    wanted = {"training": table.events, "validation": table.validation}
    return {which: n for which, n in wanted.items() if n}


def simulate_share(workshop: "Workshop", share: tuple[int, int] | None) -> dict[str, Any]:
    """Make what is missing, or a share of it; what was made, by store."""
    from ...events.simulate import simulate
    from ...events.store.store import Store

    made = {}
    table = workshop.study.table.simulator
    for which, n in count_wanted(workshop.study).items():
        path = workshop.study.store(which)
        path.parent.mkdir(parents=True, exist_ok=True)
        store = Store(path, name="simulator", version=table.version or None)
        before, began = _count(store, n), time.monotonic()
        simulate(
            workshop.bare_simulator,
            workshop.prior,
            n,
            store=store,
            engine=workshop.engine,
            parts=share,
            seed=workshop.study.seeds[which],
        )
        made[which] = {
            "events": _count(store, n) - before,
            "seconds": round(time.monotonic() - began, 3),
        }
    return made


def find_stores(study: Study) -> dict[str, "StoreStatus | None"]:
    """The state of the stores; None where there is none yet."""
    from ...events.store.store import Store

    found: dict[str, StoreStatus | None] = {}
    for which in count_wanted(study):
        found[which] = None
        with contextlib.suppress(ValueError, OSError):
            found[which] = Store(study.store(which)).status()
    return found


def are_complete(study: Study) -> bool:
    """Whether all events are there that the study asks for."""
    wanted = count_wanted(study)
    stores = find_stores(study)
    return all(
        found is not None and found.complete and found.events >= wanted[which]
        for which, found in stores.items()
    )


def _count(store: Any, n: int) -> int:  # noqa: ANN401
    if not store.exists():
        return 0
    return min(n, store.status().present)


def _work(workshop: "Workshop", folder: Path) -> Outcome:
    simulate_share(workshop, None)
    events = workshop.events("training", workshop.study.table.simulate.events)
    numbers: dict[str, float] = {
        f"{which} events": n for which, n in count_wanted(workshop.study).items()
    }
    text = ", ".join(f"{n:,} {which} events" for which, n in count_wanted(workshop.study).items())
    return Outcome((events,), numbers, text)
