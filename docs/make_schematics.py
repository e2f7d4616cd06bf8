"""Draws the schematic diagrams of the documentation into `docs/images/` as SVG files.

Run `python docs/make_schematics.py`; only matplotlib is needed. The same input gives the same
bytes, so a redrawn file differs only where the drawing does. Each diagram stands on a white card
with rounded corners, which keeps it legible on light and on dark pages.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, PathPatch
from matplotlib.path import Path as Outline

IMAGES = Path(__file__).parent / "images"

INK = "#222222"
SOFT = "#5F666D"

Point = tuple[float, float]


@dataclass(frozen=True)
class Kind:
    """How one kind of box looks."""

    face: str
    edge: str
    note: str = ""


# Light faces of the Okabe-Ito hues: distinct for colour-blind readers, dark text on all of them.
DRAWN = Kind("#E3F0F8", "#0072B2", "drawn at random")
COMPUTED = Kind("#F3F3F3", "#7A7A7A", "computed")
SIMULATOR = Kind("#FBE8DA", "#D55E00", "simulator")
RECORD = Kind("#DDF1EA", "#009E73", "training record")
NETWORK = Kind("#FFFFFF", "#0072B2")


@dataclass(frozen=True)
class Box:
    """A box on the canvas, by its centre and size in inches."""

    x: float
    y: float
    width: float
    height: float

    def at(self, across: float, up: float) -> Point:
        """A point of the box; (-1, -1) is the lower left corner and (1, 1) the upper right."""
        return self.x + across * self.width / 2, self.y + up * self.height / 2


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """A transparent figure with a white rounded card; one data unit is one inch."""
    figure = Figure(figsize=(width, height))
    figure.patch.set_alpha(0.0)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_axis_off()
    card = Box(width / 2, height / 2, width - 0.06, height - 0.06)
    rounded(axes, card, Kind("white", "#D9DDE1"), corner=0.16, line=1.0, zorder=0)
    return figure, axes


def rounded(
    axes: Axes, place: Box, kind: Kind, *, corner: float, line: float = 1.3, zorder: float = 3
) -> None:
    """Draw a rectangle with rounded corners."""
    axes.add_patch(
        FancyBboxPatch(
            place.at(-1, -1),
            place.width,
            place.height,
            boxstyle=f"round,pad=0,rounding_size={corner}",
            facecolor=kind.face,
            edgecolor=kind.edge,
            linewidth=line,
            zorder=zorder,
        )
    )


def write(
    axes: Axes,
    place: Point,
    text: str,
    *,
    size: float = 14.5,
    colour: str = INK,
    ha: str = "center",
) -> None:
    """Write text, centred in height."""
    axes.text(*place, text, fontsize=size, color=colour, ha=ha, va="center", zorder=4)


def box(axes: Axes, centre: Point, text: str, kind: Kind, *, width: float) -> Box:
    """Draw a box with centred text."""
    place = Box(*centre, width, 0.62)
    # Random draws are pills and everything else a rectangle: kinds differ without their colours.
    corner = 0.31 if kind is DRAWN else 0.07
    rounded(axes, place, kind, corner=corner, line=1.9 if kind is SIMULATOR else 1.3)
    write(axes, centre, text)
    return place


def record(axes: Axes, centre: Point, word: str, formula: str, *, height: float = 0.62) -> Box:
    """Draw one part of the training record: its role and its formula."""
    place = Box(*centre, 2.5, height)
    rounded(axes, place, RECORD, corner=0.07)
    write(axes, (place.at(-1, 0)[0] + 0.13, place.y), word, size=11, colour="#00694D", ha="left")
    write(axes, (place.x + 0.32, place.y), formula)
    return place


def arrow(axes: Axes, *points: Point, head: bool = True) -> None:
    """Draw an arrow along straight lines with rounded corners."""
    vertices, codes = [points[0]], [Outline.MOVETO]
    for before, corner, after in zip(points[:-2], points[1:-1], points[2:], strict=True):
        vertices += [towards(corner, before, 0.1), corner, towards(corner, after, 0.1)]
        codes += [Outline.LINETO, Outline.CURVE3, Outline.CURVE3]
    # The tip of a stroked arrow head reaches past its end; stop short of the box.
    end = towards(points[-1], points[-2], 0.02) if head else points[-1]
    axes.add_patch(
        FancyArrowPatch(
            path=Outline([*vertices, end], [*codes, Outline.LINETO]),
            arrowstyle="-|>,head_width=3.2,head_length=6" if head else "-",
            mutation_scale=1.0,
            color=INK,
            linewidth=1.2,
            zorder=2,
            joinstyle="round",
        )
    )


def towards(start: Point, goal: Point, distance: float) -> Point:
    """The point at a distance from the start on the way to the goal."""
    share = distance / math.dist(start, goal)
    return start[0] + share * (goal[0] - start[0]), start[1] + share * (goal[1] - start[1])


def branch(axes: Axes, place: Point) -> None:
    """Mark the point where one line leaves another."""
    axes.add_patch(Circle(place, 0.035, facecolor=INK, edgecolor="none", zorder=3))


def note(axes: Axes, place: Point, text: str, *, size: float = 10.0, ha: str = "center") -> None:
    """Write a small remark."""
    write(axes, place, text, size=size, colour=SOFT, ha=ha)


def frame(axes: Axes, place: Box, text: str) -> None:
    """Draw a dashed frame around several boxes, with a note on its upper edge."""
    left, low = place.at(-1, -1)
    axes.add_patch(
        FancyBboxPatch(
            (left, low),
            place.width,
            place.height,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor="#FAFBFC",
            edgecolor=SOFT,
            linewidth=1.0,
            linestyle=(0, (4, 3)),
            zorder=1,
        )
    )
    axes.text(
        left + 0.16,
        place.at(0, 1)[1],
        text,
        fontsize=10,
        color=SOFT,
        ha="left",
        va="center",
        zorder=2,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 2.0},
    )


def legend(axes: Axes) -> None:
    """Explain the kinds of box along the lower edge."""
    x = 1.35
    for kind, step in ((DRAWN, 1.95), (COMPUTED, 1.55), (SIMULATOR, 1.5), (RECORD, 0.0)):
        sample = Box(x + 0.15, 0.32, 0.3, 0.16)
        rounded(axes, sample, kind, corner=0.08 if kind is DRAWN else 0.02, line=1.1)
        note(axes, (x + 0.4, 0.32), kind.note, ha="left")
        x += step


def network(axes: Axes, centre: Point) -> Box:
    """Draw the potential network: a small feed-forward net with one output."""
    place = Box(*centre, 1.75, 1.05)
    rounded(axes, place, NETWORK, corner=0.1, line=1.5)
    columns = [
        [
            (place.x - 0.68 + 0.34 * column, place.y + 0.19 * (row - (count - 1) / 2))
            for row in range(count)
        ]
        for column, count in enumerate((3, 5, 4, 1))
    ]
    # One path for all links and one marker for all nodes keep the file small.
    links = Outline(
        [
            end
            for left, right in zip(columns[:-1], columns[1:], strict=True)
            for a in left
            for b in right
            for end in (a, b)
        ],
        [Outline.MOVETO, Outline.LINETO] * (3 * 5 + 5 * 4 + 4 * 1),
    )
    axes.add_patch(
        PathPatch(links, facecolor="none", edgecolor="#9DC3DC", linewidth=0.5, zorder=3.5)
    )
    nodes = [node for column in columns for node in column]
    axes.plot(
        [x for x, _ in nodes],
        [y for _, y in nodes],
        linestyle="none",
        marker="o",
        markersize=7.9,
        markerfacecolor=DRAWN.face,
        markeredgecolor=NETWORK.edge,
        markeredgewidth=0.9,
        zorder=4,
    )
    write(axes, (place.x + 0.61, place.y), r"$\hat{\varphi}$", size=20)
    return place


def potential_networks() -> Figure:
    """The potential network and the score and ratio networks made from it."""
    width, height = 9.0, 7.0
    figure, axes = canvas(width, height)
    inputs, middle, last, result = 0.9, 2.75, 4.85, 7.1

    def heading(y: float, text: str) -> None:
        axes.text(0.4, y, text, fontsize=12, color=INK, ha="left", va="center", fontweight="bold")

    def entry(y: float, text: str) -> Box:
        place = Box(inputs, y, 0.75, 0.44)
        rounded(axes, place, COMPUTED, corner=0.07)
        write(axes, (inputs, y), text)
        return place

    def operation(y: float, text: str) -> Box:
        place = Box(last, y, 0.7, 0.62)
        rounded(axes, place, COMPUTED, corner=0.07)
        write(axes, (last, y), text, size=18)
        return place

    def answer(y: float, *lines: str) -> Box:
        place = Box(result, y, 3.0, 0.24 + 0.4 * len(lines))
        rounded(axes, place, RECORD, corner=0.07)
        for number, line in enumerate(lines):
            write(axes, (result, y + 0.4 * ((len(lines) - 1) / 2 - number)), line)
        return place

    def rule(y: float) -> None:
        axes.plot([0.4, width - 0.4], [y, y], color="#E3E6E9", linewidth=1.0)

    y = 5.85
    heading(y + 0.78, "Potential")
    net = network(axes, (middle, y))
    for up, text in ((0.27, "$x$"), (-0.27, r"$\theta$")):
        arrow(axes, entry(y + up, text).at(1, 0), (net.at(-1, 0)[0], y + up))
    out = answer(y, r"$\hat{\varphi}(x,\theta) \,\approx\, \ln p(x;\theta) + c(x)$")
    arrow(axes, net.at(1, 0), out.at(-1, 0))
    rule(5.1)

    y = 4.05
    heading(y + 0.78, "Score")
    net = network(axes, (middle, y))
    for up, text in ((0.27, "$x$"), (-0.27, r"$\theta$")):
        arrow(axes, entry(y + up, text).at(1, 0), (net.at(-1, 0)[0], y + up))
    gradient = operation(y, r"$\nabla_{\!\theta}$")
    out = answer(y, r"$\hat{s}(x;\theta) \,=\, \nabla_{\!\theta}\,\hat{\varphi}(x,\theta)$")
    arrow(axes, net.at(1, 0), gradient.at(-1, 0))
    arrow(axes, gradient.at(1, 0), out.at(-1, 0))
    rule(3.3)

    y, apart = 1.5, 0.68
    heading(3.04, "Log likelihood ratio")
    upper, lower = network(axes, (middle, y + apart)), network(axes, (middle, y - apart))
    edge = upper.at(-1, 0)[0]
    event = entry(y, "$x$")
    for net, side, text in ((upper, 1, r"$\theta_0$"), (lower, -1, r"$\theta_1$")):
        arrow(axes, entry(y + side * 0.82, text).at(1, 0), (edge, y + side * 0.82))
        start = event.at(1, 0)
        bend = start[0] + 0.3
        arrow(axes, start, (bend, y), (bend, y + side * 0.4), (edge, y + side * 0.4))
        arrow(axes, net.at(1, 0), (last, net.y), (last, y + side * 0.31))
    axes.plot(
        [middle, middle],
        [lower.at(0, 1)[1], upper.at(0, -1)[1]],
        color=NETWORK.edge,
        linewidth=1.3,
        linestyle=(0, (2, 1.5)),
        zorder=2,
    )
    note(axes, (middle + 0.12, y), "same weights", ha="left")
    minus = operation(y, "$-$")
    note(axes, (last + 0.1, y + 0.45), "$+$", size=11, ha="left")
    note(axes, (last + 0.1, y - 0.45), "$-$", size=11, ha="left")
    out = answer(
        y,
        r"$\ln \hat{r}(x;\theta_0,\theta_1) \,=$",
        r"$\hat{\varphi}(x,\theta_0) - \hat{\varphi}(x,\theta_1)$",
    )
    arrow(axes, minus.at(1, 0), out.at(-1, 0))
    return figure


def kernel_score_form_1() -> Figure:
    """Flowchart: kernel score estimation, simulating at the displaced parameters."""
    figure, axes = canvas(9.0, 4.0)
    top, mid, low = 3.45, 2.35, 1.2
    theta = box(axes, (1.05, top), r"$\theta \sim \pi$", DRAWN, width=1.3)
    u = box(axes, (1.05, low), r"$u \sim K$", DRAWN, width=1.3)
    step = box(axes, (2.55, mid), r"$\epsilon_i = u_i\,\lambda_i(\theta)$", COMPUTED, width=1.85)
    x = box(axes, (4.95, mid), r"$x \sim p(x;\,\theta+\epsilon)$", SIMULATOR, width=2.2)
    given = record(axes, (7.35, top), "input", r"$(x,\,\theta)$")
    target = record(
        axes, (7.35, low), "target", r"$y_i = \dfrac{u_i}{\lambda_i(\theta)\,\mu_2}$", height=0.9
    )
    arrow(axes, theta.at(1, 0), given.at(-1, 0))
    arrow(axes, theta.at(0, -1), (theta.x, mid + 0.12), step.at(-1, 0.387))
    arrow(axes, u.at(0, 1), (u.x, mid - 0.12), step.at(-1, -0.387))
    arrow(axes, step.at(1, 0), x.at(-1, 0))
    branch(axes, (x.x, top))
    arrow(axes, (x.x, top), x.at(0, 1))
    arrow(axes, x.at(1, 0), (given.x, mid), given.at(0, -1))
    arrow(axes, u.at(1, 0), (target.at(-1, 0)[0], low))
    arrow(axes, step.at(0, -1), (step.x, low + 0.25), (target.at(-1, 0)[0], low + 0.25))
    note(axes, (4.4, low + 0.42), r"$\lambda(\theta)$", size=12)
    note(axes, (4.4, low - 0.16), r"$u$", size=12)
    legend(axes)
    return figure


def kernel_score_form_2() -> Figure:
    """Flowchart: kernel score estimation from events that were simulated once."""
    figure, axes = canvas(9.0, 4.6)
    top, mid, low = 3.75, 2.5, 1.25
    stored = Box(2.37, top, 4.1, 0.98)
    frame(axes, stored, "simulated once and stored")
    origin = box(axes, (1.15, top), r"$\theta' \sim \pi$", DRAWN, width=1.3)
    x = box(axes, (3.22, top), r"$x \sim p(x;\,\theta')$", SIMULATOR, width=1.95)
    u = box(axes, (1.0, low), r"$u \sim K$", DRAWN, width=1.25)
    step = box(axes, (2.95, low), r"$\epsilon_i = u_i\,\lambda_i(x,\theta')$", COMPUTED, width=2.1)
    theta = box(axes, (4.55, mid), r"$\theta = \theta' - \epsilon$", COMPUTED, width=1.5)
    given = record(axes, (7.35, top), "input", r"$(x,\,\theta)$")
    weight = record(
        axes, (7.35, mid), "weight", r"$w = \dfrac{\pi(\theta)}{\pi(\theta')}$", height=0.9
    )
    target = record(
        axes,
        (7.35, low),
        "target",
        r"$y_i = \dfrac{\epsilon_i}{\mu_2\,\lambda_i(x,\theta')^2}$",
        height=0.9,
    )
    under = stored.at(0, -1)[1]
    arrow(axes, origin.at(1, 0), x.at(-1, 0))
    arrow(axes, (stored.at(1, 0)[0], top + 0.1), (given.at(-1, 0)[0], top + 0.1))
    note(axes, (5.4, top + 0.25), "$x$", size=12)
    arrow(axes, (2.4, under), (2.4, low + 0.31))
    note(axes, (2.31, 2.4), r"$x,\,\theta'$", size=12, ha="right")
    arrow(axes, (4.15, under), (4.15, mid + 0.31))
    note(axes, (4.07, mid + 0.54), r"$\theta'$", size=12, ha="right")
    arrow(axes, u.at(1, 0), step.at(-1, 0))
    arrow(axes, (3.3, low + 0.31), (3.3, mid), theta.at(-1, 0))
    note(axes, (3.22, 1.95), r"$\epsilon$", size=12, ha="right")
    arrow(axes, theta.at(1, 0), weight.at(-1, 0))
    branch(axes, (5.7, mid))
    arrow(axes, (5.7, mid), (5.7, top - 0.14), (given.at(-1, 0)[0], top - 0.14))
    note(axes, (5.62, 3.1), r"$\theta$", size=12, ha="right")
    arrow(axes, step.at(1, 0), target.at(-1, 0))
    note(axes, (5.0, low + 0.16), r"$\epsilon,\ \lambda(x,\theta')$", size=12)
    note(axes, (1.0, low + 0.48), "new every epoch")
    legend(axes)
    return figure


def ratio_pairs() -> Figure:
    """Flowchart: labelled pairs for likelihood ratios, KLRE and CARL."""
    figure, axes = canvas(9.0, 4.4)
    top, mid, low = 3.35, 2.35, 1.35
    pair = box(
        axes, (1.45, top), r"$(\theta_0,\theta_1) \sim \pi_{\mathrm{pair}}$", DRAWN, width=2.1
    )
    coin = box(axes, (1.45, low), r"$y \sim \{0,\,1\}$", DRAWN, width=1.6)
    chosen = box(axes, (2.85, mid), r"$\theta_y$", COMPUTED, width=0.9)
    x = box(axes, (4.75, mid), r"$x \sim p(x;\,\theta_y)$", SIMULATOR, width=1.95)
    given = record(axes, (7.35, top), "input", r"$(x,\,\theta_0,\,\theta_1)$")
    target = record(axes, (7.35, low), "label", "$y$")
    arrow(axes, pair.at(1, 0), given.at(-1, 0))
    arrow(axes, pair.at(0, -1), (pair.x, mid + 0.12), chosen.at(-1, 0.387))
    arrow(axes, coin.at(0, 1), (coin.x, mid - 0.12), chosen.at(-1, -0.387))
    arrow(axes, chosen.at(1, 0), x.at(-1, 0))
    arrow(axes, x.at(1, 0), (given.x, mid), given.at(0, -1))
    arrow(axes, coin.at(1, 0), target.at(-1, 0))
    note(axes, (coin.x, low - 0.46), "with equal probability")
    note(
        axes,
        (0.45, top + 0.6),
        r"CARL: $\theta_0$ and $\theta_1$ are independent.     "
        r"KLRE: they differ by a kernel step $\epsilon \sim K$.",
        size=11,
        ha="left",
    )
    legend(axes)
    return figure


DIAGRAMS = {
    "networks": potential_networks,
    "kse-form-1": kernel_score_form_1,
    "kse-form-2": kernel_score_form_2,
    "ratio-pairs": ratio_pairs,
}


def main() -> None:
    """Draw every diagram."""
    IMAGES.mkdir(exist_ok=True)
    look: dict[Any, Any] = {
        "mathtext.fontset": "cm",
        "svg.fonttype": "path",
        # Names inside the file come from this salt; a fixed one makes the file reproducible.
        "svg.hashsalt": "inferostatic",
    }
    blank = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with mpl.rc_context(look):
        for name, draw in DIAGRAMS.items():
            drawing = io.StringIO()
            draw().savefig(drawing, format="svg", metadata=blank)
            lines = [line.rstrip() for line in drawing.getvalue().splitlines()]
            (IMAGES / f"{name}.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
