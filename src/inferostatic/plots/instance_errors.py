"""Errors of every instance of every network on one task (the paper's experiment)."""

import textwrap
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from ..inputs import as_number
from .arrays import Numbers, as_finite, as_label
from .style import (
    BLUE,
    FAINT,
    INK,
    VERMILION,
    make_panels,
    open_frame,
    spans_decades,
    use_log_axis,
    use_style,
)

#: Dashes of the lines of published values.
DASHES = (0, (4, 2))


def error_by_instance(
    errors: Mapping[str, Numbers],
    standard_errors: Mapping[str, Numbers],
    *,
    title: str,
    published: Mapping[str, float] | None = None,
    direct: Collection[str] | None = None,
    label: str = "mean squared error",
) -> Figure:
    """Error of every trained instance of every network on one task, best network first.

    Networks stand along the x axis in the order of their median error. The y axis starts at zero,
    or is logarithmic where the errors span more than a factor of 20.

    Args:
        errors: For each network the errors of its instances, shape (instances,).
        standard_errors: The statistical uncertainty of each of those, with the same keys and
            shapes; drawn as error bars.
        title: Title of the figure.
        published: Medians to compare with, for all or some of the networks.
        direct: The names of the networks that model their target directly; the others are drawn as
            inferostatic networks (ISN). By default those whose name contains "dir".
        label: What the errors are, for the y axis.
    """
    for given, what in ((errors, "errors"), (standard_errors, "standard_errors")):
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise TypeError(f"{what} must be a dictionary of numbers by network, got {given!r}")
    if published is not None and not isinstance(published, Mapping):
        raise TypeError(f"published must be a dictionary of numbers, got {published!r}")
    if direct is not None and not isinstance(direct, list | tuple | set | frozenset):
        raise TypeError(f"direct must be a list of names of networks, got {direct!r}")
    title, label = as_label(title, "title"), as_label(label, "label")
    if not errors:
        raise ValueError("expected the errors of at least one network, got an empty mapping")
    if set(errors) != set(standard_errors):
        raise ValueError(
            "errors and standard_errors must name the same networks: "
            f"got {sorted(errors)} and {sorted(standard_errors)}"
        )
    published = dict(published or {})
    chosen = [*published, *(() if direct is None else direct)]
    unknown = [name for name in chosen if not isinstance(name, str) or name not in errors]
    if unknown:
        raise ValueError(f"{unknown} are not among the networks {sorted(errors)}")
    for name, value in published.items():
        as_number(value, f"the published value of {name!r}")
    is_direct = set(direct) if direct is not None else {n for n in errors if "dir" in n.lower()}
    networks = [
        _Network(name, values, bars, name in is_direct, published.get(name))
        for name in errors
        for values, bars in [_read_errors(name, errors[name], standard_errors[name])]
    ]
    networks.sort(key=lambda network: network.median)
    with use_style():
        figure, (axes,) = make_panels(1, width=1.6 + 0.95 * max(len(networks), 3), height=3.4)
        open_frame(axes)
        for column, network in enumerate(networks):
            _draw_network(axes, column, network)
        _set_range(axes, networks)
        axes.set_xlim(-0.6, len(networks) - 0.4)
        labels = [textwrap.fill(network.name, 12) for network in networks]
        axes.set_xticks(range(len(networks)), labels)
        axes.tick_params(axis="x", length=0)
        axes.set(ylabel=label, title=title)
        handles = _make_legend(networks)
        # Outside the axes, because no corner is free of points for every set of errors.
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


class _Network(NamedTuple):
    """Errors of the instances of a network with their standard errors, shape (instances,)."""

    name: str
    errors: NDArray[np.float64]
    bars: NDArray[np.float64]
    direct: bool
    published: float | None

    @property
    def median(self) -> float:
        return float(np.median(self.errors))


def _read_errors(
    name: str, errors: Numbers, standard_errors: Numbers
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = as_finite(errors, f"errors of {name!r}")
    bars = as_finite(standard_errors, f"standard errors of {name!r}")
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"errors of {name!r}: expected shape (instances,), got {values.shape}")
    if bars.shape != values.shape or (bars < 0).any():
        raise ValueError(
            f"standard errors of {name!r}: expected {values.size} numbers that are not "
            f"negative, got shape {bars.shape} with minimum {bars.min():g}"
        )
    return values, bars


def _draw_network(axes: Axes, column: int, network: _Network) -> None:
    colour, marker, size = (VERMILION, "s", 3.2) if network.direct else (BLUE, "o", 3.6)
    count = network.errors.size
    axes.errorbar(
        column + (np.linspace(-0.26, 0.26, count) if count > 1 else np.zeros(1)),
        network.errors,
        yerr=network.bars,
        fmt=marker,
        color=colour,
        markersize=size,
        elinewidth=1.1,
        capsize=2.6,
        capthick=1.1,
        zorder=3,
        label=network.name,
    )
    ends = (column - 0.38, column + 0.38)
    axes.hlines(network.median, *ends, colors=colour, linewidth=2.0, alpha=0.45, zorder=1.5)
    if network.published is not None:
        axes.hlines(
            network.published, *ends, colors=INK, linewidth=1.2, linestyles=DASHES, zorder=2
        )


def _set_range(axes: Axes, networks: list[_Network]) -> None:
    published = [n.published for n in networks if n.published is not None]
    values = np.concatenate([*(n.errors for n in networks), published])
    highest = max(*(float((n.errors + n.bars).max()) for n in networks), *published, -np.inf)
    if spans_decades(values):
        use_log_axis(axes, float(values.min()) / 1.35, highest * 1.35)
    else:
        axes.set_ylim(0.0, highest * 1.08 if highest > 0 else 1.0)


def _make_legend(networks: list[_Network]) -> list[Line2D]:
    dots: dict[str, Any] = {"linestyle": "none", "markersize": 4.5}
    handles = []
    if any(not network.direct for network in networks):
        handles.append(Line2D([], [], color=BLUE, marker="o", label="ISN", **dots))
    if any(network.direct for network in networks):
        handles.append(Line2D([], [], color=VERMILION, marker="s", label="direct", **dots))
    handles.append(Line2D([], [], color=FAINT, alpha=0.8, linewidth=2, label="median"))
    if any(network.published is not None for network in networks):
        handles.append(
            Line2D([], [], color=INK, linewidth=1.2, linestyle=DASHES, label="published median")
        )
    return handles
