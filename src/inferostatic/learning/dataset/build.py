"""`build_dataset`: events or records, checked for a method and laid out for training."""

import dataclasses

import equinox as eqx
import numpy as np

from ...events.events import Events, in_memory
from ...host import put_array
from ...memory_map import require_whole
from ...supervision.kernels import find_kernels, largest_widths
from ...supervision.references import ReferencePoint
from ...supervision.supervision import ThetaDistribution, trusted_region
from ..draw import Records
from ..methods import AbstractMethod
from .dataset import AbstractDataset, column_range
from .files import FileDataset, FileRows, cut_into_chunks
from .memory import MemoryDataset

#: Numbers in x up to which memory-mapped events are simply read into memory.
READ_WHOLE = 8_000_000
#: Memory-mapped events that a method is shown beforehand, to check them and to lay them out.
SHOWN_EVENTS = 20_000


def build_dataset(events: Events | Records, method: AbstractMethod) -> AbstractDataset:
    """Check the events and lay them out; large memory-mapped ones stay in their files."""
    if isinstance(events, Records):
        return _from_records(events)
    for name in ("x", "theta", "weight"):
        require_whole(getattr(events, name), name)
    if events.mapped and events.x.size <= READ_WHOLE:
        events = in_memory(events, slice(None), events.prior)
    return _from_files(events, method) if events.mapped else _from_memory(events, method)


def _from_records(records: Records) -> MemoryDataset:
    theta = next(v for k, v in vars(records.record).items() if k.startswith("theta"))
    rows = np.asarray(theta).reshape(-1, records.prior.dim)
    low, high = trusted_region(records.prior, rows)
    if isinstance(records.method.supervision, ReferencePoint):
        point = np.asarray(records.method.supervision.theta_ref)
        low, high = np.minimum(low, point), np.maximum(high, point)
    weight = np.ones(len(records))
    return MemoryDataset(records.x, weight, records.prior, None, low, high, records=records.record)


def _from_memory(events: Events, method: AbstractMethod) -> MemoryDataset:
    for kernel in find_kernels(method):
        largest_widths(kernel, events.x, events.theta)
    supply = method.supply(events)
    rows, distribution = supply.rows, supply.distribution
    x = np.asarray(rows.x)
    if not _reads_x(method, distribution):
        # Targets do not look at x, so batches need not carry it beside its features.
        rows = eqx.tree_at(lambda r: r.x, rows, put_array(np.zeros((len(x), 0))))
    low, high = (np.asarray(edge, np.float64) for edge in (distribution.low, distribution.high))
    return MemoryDataset(x, supply.weight, distribution.prior, distribution, low, high, rows)


def _from_files(events: Events, method: AbstractMethod) -> FileDataset:
    """Leave memory-mapped events where they are, and learn what must be known from some."""
    _refuse_what_needs_all_events(method)
    some = cut_into_chunks(events.x, np.zeros(0, int), 0).some(SHOWN_EVENTS)
    prior = events.stored_prior() if events.prior is None else events.prior
    sample = in_memory(events, some, prior)
    for kernel in find_kernels(method):
        largest_widths(kernel, sample.x, sample.theta)
    supply = method.supply(sample)
    found = supply.distribution
    # Where the support is open, the trusted region is the range of all stored θ.
    theta_low, theta_high = column_range(events.theta, "theta")
    edge_low, edge_high = found.prior.support
    low = np.where(np.isfinite(edge_low), found.low, theta_low).astype(found.low.dtype)
    high = np.where(np.isfinite(edge_high), found.high, theta_high).astype(found.high.dtype)
    latent = {name: events.latent[name] for name in supply.rows.latent}
    return FileDataset(
        x=events.x,
        weight=events.weight,
        prior=found.prior,
        distribution=dataclasses.replace(found, low=low, high=high),
        low=low.astype(np.float64),
        high=high.astype(np.float64),
        rows=FileRows(events.x, events.theta, _reads_x(method, found), latent),
    )


def _refuse_what_needs_all_events(method: AbstractMethod) -> None:
    remedy = (
        "load the events into memory (np.load without mmap_mode), or as many of them as fit, such "
        "as every tenth, events[np.arange(0, len(events), 10)]."
    )
    for supervision in method.supervisions:
        if supervision.needs_all_events:
            raise ValueError(
                f"{method} must see all events at once before training "
                f"({type(supervision).__name__} says that it needs them), which memory-mapped "
                f"events do not allow: {remedy} Methods without a reference, such as KCE, KLRE, "
                "CARL and KSE, train from files."
            )
    if any(not kernel.constant for kernel in find_kernels(method)):
        raise ValueError(
            "a width that is a function of x or θ is checked at all events beforehand, which "
            f"memory-mapped events do not allow: {remedy} Constant widths train from files."
        )


def _reads_x(method: AbstractMethod, distribution: ThetaDistribution) -> bool:
    if distribution.joint is not None and distribution.joint.uses_x:
        return True
    return any(supervision.reads_x for supervision in method.supervisions)
