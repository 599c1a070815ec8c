"""The demo's picture: the rate curve with the failovers, and the delays that Spark found."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from epochmq.admin.demo.delays import Delay, worst


class CurveMark(NamedTuple):
    """What happened from when to when, in seconds on the curve."""

    begin_s: float
    end_s: float
    text: str


def draw(
    path: Path,
    points: Sequence[tuple[float, float]],
    marks: Sequence[CurveMark],
    delays: Sequence[Delay],
) -> bool:
    """Write the PNG; False when matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure: Any = Figure(figsize=(11, 8), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1)
    _rates(upper, points, marks)
    _delays(figure, lower, delays)
    figure.savefig(path, dpi=110)
    return True


def _rates(axes: Any, points: Sequence[tuple[float, float]], marks: Sequence[CurveMark]) -> None:
    axes.plot([at for at, _ in points], [rate for _, rate in points], color="#2a6f97")
    axes.set(title="Acknowledged sends", xlabel="seconds", ylabel="messages a second")
    axes.set_ylim(bottom=0)
    top = axes.get_ylim()[1]
    for mark in marks:
        axes.axvspan(mark.begin_s, mark.end_s, color="#c1121f", alpha=0.25)
        axes.axvline(mark.begin_s, color="#c1121f", linestyle="--", linewidth=1)
        axes.text(mark.begin_s, top * 0.97, f" {mark.text}", va="top", fontsize=8, color="#c1121f")


def _delays(figure: Any, axes: Any, delays: Sequence[Delay]) -> None:
    """A field for each carrier and hour, coloured by the mean delay in minutes."""
    carriers = [carrier for carrier, _ in worst(delays)]
    hours = sorted({delay.hour for delay in delays})
    means = {(d.carrier, d.hour): d.minutes / d.departed for d in delays if d.departed}
    rows = [[means.get((carrier, hour), float("nan")) for hour in hours] for carrier in carriers]
    axes.set(
        title="Mean departure delay, minutes: Spark SQL over the archive",
        xlabel="scheduled hour",
        ylabel="carrier",
    )
    if not rows:
        return
    shown = axes.imshow(rows, aspect="auto", cmap="YlOrRd", vmin=0, vmax=40)
    axes.set_xticks(range(len(hours)), [str(hour) for hour in hours])
    axes.set_yticks(range(len(carriers)), carriers)
    figure.colorbar(shown, ax=axes)
