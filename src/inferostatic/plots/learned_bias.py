"""The bias of an estimate by the learned score."""

import numpy as np
from matplotlib.figure import Figure

from ..estimator.trusted_events import CERTAIN, TOLERATED
from ..inference.likelihood.learned_bias import LearnedBias
from ..inputs import kind_of
from .names import show_name
from .style import BAND, BLUE, FAINT, make_panels, open_frame, use_style


def learned_bias(bias: LearnedBias) -> Figure:
    """How far the learned score shifts each estimate, in its standard errors.

    Bars are two standard errors of the bias itself; within the band, ± 0.3, intervals cover nearly
    as often as they should.

    Args:
        bias: `.bias` of a fit, a posterior, a confidence set or a limit.
    """
    if not isinstance(bias, LearnedBias):
        raise TypeError(f"bias must be the .bias of a result, got {kind_of(bias)}")
    rows = np.arange(len(bias.names))
    error = np.where(np.isfinite(bias.error), CERTAIN * bias.error, 0.0)
    with use_style():
        figure, (axes,) = make_panels(1, width=4.8, height=1.3 + 0.32 * len(rows))
        open_frame(axes)
        axes.grid(visible=False, axis="y")
        axes.axvspan(-TOLERATED, TOLERATED, color=BAND, linewidth=0)
        axes.axvline(0, color=FAINT, linewidth=0.8)
        axes.errorbar(
            bias.bias,
            rows,
            xerr=error,
            fmt="o",
            color=BLUE,
            markersize=4.5,
            capsize=3,
            linewidth=1.2,
        )
        axes.set_yticks(rows, [show_name(name) for name in bias.names])
        reach = max(0.5, float(np.max(np.abs(bias.bias) + error)) * 1.15)
        axes.set(
            xlim=(-reach, reach),
            ylim=(len(rows) - 0.5, -0.5),
            xlabel="shift of the estimate, in its standard errors",
            title=bias.verdict,
        )
    return figure
