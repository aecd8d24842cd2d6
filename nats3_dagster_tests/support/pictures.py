"""Pictures of measurements, as SVG: what a page of docs shows beside its table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# Ids that do not change from run to run, and text that stays text: a picture's diff is then its figures.
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "nats3",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram of a picture: its lines share the axes."""

    title: str
    # With the unit, "MB".
    y: str
    # Name of each line: its points (x, y), in order of x.
    lines: Mapping[str, Sequence[tuple[float, float]]]
    # Moments to mark, such as kills, on the x axis.
    marks: Sequence[float] = ()


def draw_lines(file: Path, x: str, panels: Sequence[Panel], *, columns: int = 1) -> None:
    """Writes one picture with a diagram for each panel, all with the same x axis, whose label is `x`."""
    rows = -(-len(panels) // columns)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.2 if columns == 1 else 5.0 * columns, 2.3 * rows), layout="constrained")
        axes = list(figure.subplots(rows, columns, squeeze=False, sharex=True).flat)
        for at, panel in zip(axes, panels, strict=False):
            for name, points in panel.lines.items():
                at.plot([x for x, _ in points], [y for _, y in points], label=name, linewidth=1.2)
            for mark in panel.marks:
                at.axvline(mark, color="0.8", linewidth=0.8, zorder=0)
            at.set_title(panel.title, loc="left", fontsize=9)
            at.set_ylabel(panel.y)
            at.set_ylim(bottom=0)
            if len(panel.lines) > 1:
                at.legend(fontsize=7, frameon=False)
        for at in axes[-columns:]:
            at.set_xlabel(x)
        figure.savefig(file, format="svg", metadata={"Date": None})


def draw_bars(file: Path, y: str, groups: Mapping[str, Mapping[str, float]]) -> None:
    """Writes one picture of bars: for each group (a row of labels on the axis) a bar of each name, `y` its unit."""
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    width = 0.8 / max(1, len(names))
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        at = figure.subplots()
        for number, name in enumerate(names):
            values = [bars.get(name, 0.0) for bars in groups.values()]
            places = [group + number * width for group in range(len(groups))]
            at.bar(places, values, width, label=name)
        at.set_xticks([group + width * (len(names) - 1) / 2 for group in range(len(groups))], list(groups))
        at.set_ylabel(y)
        if len(names) > 1:
            at.legend(fontsize=7, frameon=False)
        figure.savefig(file, format="svg", metadata={"Date": None})
