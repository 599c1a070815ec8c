"""The end of the demo: a report as one JSON object, the same for people, and a picture."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from epochmq.admin.shared.output import rate, size
from examples.demo import lake
from examples.demo.failovers import KillTimeline
from examples.demo.flights import Delay, Flight, of_flights, worst
from examples.demo.lake import Facts, Lake
from examples.demo.run import TOPIC, DemoOutcome

Report = Mapping[str, Any]


def build(
    outcome: DemoOutcome, seconds: float, archive: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Everything that was found; latencies in ms, rates in messages a second.

    `archive`: what Spark found, or {"left_out": why}; None when it was not asked for.
    """
    verdict = outcome.verdict
    return {
        "verdict": "passed" if verdict.is_good else "failed",
        "problems": verdict.problems,
        "sent": verdict.sent,
        "received": verdict.received,
        "sent_bytes": outcome.sent_bytes,
        "keys": verdict.keys,
        "out_of_order": verdict.out_of_order,
        "duplicates": verdict.duplicates,
        "duplicates_by_kill": verdict.duplicates_by_kill,
        "replicas_identical_bytes": verdict.compared_bytes,
        "failovers": [_failover(timeline) for timeline in outcome.timelines],
        "archive": archive,
        "seconds": round(seconds, 1),
        "flood": {
            "messages": outcome.flood_count,
            "seconds": round(outcome.flood_s, 2),
            "rate": round(outcome.flood_count / max(outcome.flood_s, 0.001)),
            "member_away_s": round(outcome.down_s, 2),
            "send": outcome.flood_sends.as_dict(),
        },
        "steady": {
            "messages": outcome.steady_count,
            "rate": round(outcome.steady_rate),
            "send": outcome.steady_sends.as_dict(),
            "end_to_end": outcome.steady_end_to_end.as_dict(),
        },
    }


def _failover(timeline: KillTimeline) -> dict[str, Any]:
    stages = {
        name: None if at is None else round(at, 1)
        for name, at in (
            ("detected_ms", timeline.detected_ms),
            ("elected_ms", timeline.elected_ms),
            ("role_applied_ms", timeline.applied_ms),
            ("first_ack_ms", timeline.first_ack_ms),
            ("set_whole_ms", timeline.whole_ms),
        )
    }
    return {
        "killed": timeline.master,
        "old_epoch": timeline.old_epoch,
        "new_master": timeline.new_master,
        "new_epoch": timeline.new_epoch,
        **stages,
    }


def as_text(report: Report) -> str:
    """A screen for people."""
    flood, steady = report["flood"], report["steady"]
    same = report["sent"] == report["received"]
    ordered = report["out_of_order"] == 0
    lines = [
        f"sent        {report['sent']:,} messages, {size(report['sent_bytes'])}",
        f"received    {report['received']:,} different ones: {'all' if same else 'NOT ALL'}",
        f"order       {'kept' if ordered else 'BROKEN'} for each of {report['keys']} keys",
        f"repeats     {_repeats(report)}",
        *_failovers(report["failovers"]),
        f"replicas    {size(report['replicas_identical_bytes'])} byte for byte the same",
        f"flood       {rate(flood['messages'], flood['seconds'])} end to end,"
        f" one of three members away for {flood['member_away_s']} s",
        f"steady      {steady['rate']:,}/s",
        f"  send      {_latency(steady['send'])}",
        f"  end-to-end {_latency(steady['end_to_end'])}",
        *_archive(report["archive"]),
        f"verdict     {report['verdict'].upper()} in {report['seconds']} s",
    ]
    return "\n".join([*lines, *(f"            {problem}" for problem in report["problems"])])


def _archive(archive: Mapping[str, Any] | None) -> list[str]:
    if archive is None:
        return []
    if "left_out" in archive:
        return [f"spark       left out: {archive['left_out']}"]
    twice, gaps = archive["duplicates"], archive["gaps"]
    again = archive["sent_again"]
    lines = [
        f"archive     {archive['rows']:,} rows in a Delta table, {twice:,} twice, {gaps:,} missing"
        + (f"; {again:,} sends were tried again" if again else ""),
        f"  report    {archive['report_rows']} rows by Spark SQL, compared with the data set",
    ]
    if archive.get("picture"):
        lines.append(f"  picture   {archive['picture']}")
    return lines


def _failovers(failovers: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line a killed master; times in ms since the kill."""
    lines = []
    for number, each in enumerate(failovers):
        stages = (
            f"{title} {'-' if each[key] is None else round(each[key])}"
            for title, key in (
                ("detected", "detected_ms"),
                ("elected", "elected_ms"),
                ("role applied", "role_applied_ms"),
                ("first ack", "first_ack_ms"),
                ("set whole", "set_whole_ms"),
            )
        )
        title = "failovers" if not number else ""
        who = f"{each['killed']} -> {each['new_master']}, epoch {each['new_epoch']}"
        lines.append(f"{title:<12}{who}: {', '.join(stages)} ms after kill -9")
    return lines


def _repeats(report: Report) -> str:
    count, by_kill = report["duplicates"], report["duplicates_by_kill"]
    if not count:
        return "none"
    text = f"{count:,}: {by_kill:,} were in the killed member's hands, not yet committed"
    others = count - by_kill
    return text + (f"; {others:,} by failovers and from member to member" if others else "")


def _latency(figures: Mapping[str, float]) -> str:
    return f"p50 {figures['p50_ms']} ms, p99 {figures['p99_ms']} ms, max {figures['max_ms']} ms"


# Picture --------------------------------------------------------------------------------------
# The demo's picture: the rate curve with the failovers, and the delays that Spark found.


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


# Ending ---------------------------------------------------------------------------------------
# How the demo ends: with Spark's archive, its report, and the picture. Left out without Spark.


class DemoEnding:
    """`begin` once the topic is there, `finish` when all has arrived, `judge` last."""

    def __init__(
        self, directory: Path, namesrv: str, say: Callable[[str], None], *, spark: bool
    ) -> None:
        self._namesrv = namesrv
        self._say = say
        self._wanted = spark
        self._missing = lake.missing() if spark else None
        self._lake = Lake(directory, TOPIC, say)
        self._facts: Facts | None = None
        self._seconds = 0.0

    @property
    def _on(self) -> bool:
        return self._wanted and self._missing is None

    def begin(self) -> None:
        if self._on:
            self._lake.start(self._namesrv)
        elif self._wanted:
            self._say(f"without Spark: {self._missing}")

    def finish(self) -> None:
        """Archive the rest and ask for the report; errors: `EnvironmentFault`."""
        if not self._on:
            return
        began = time.monotonic()
        self._lake.finish(self._namesrv)
        self._say("all is archived; Spark SQL reports")
        self._facts = self._lake.query()
        self._seconds = time.monotonic() - began

    def stop(self) -> None:
        self._lake.stop()

    def judge(
        self, outcome: DemoOutcome, source: Iterable[Flight], picture: Path
    ) -> dict[str, Any] | None:
        """Put what is wrong with the table into the verdict; what was found, for the report."""
        facts = self._facts
        if facts is not None:
            sent = outcome.verdict.sent
            outcome.verdict.problems += lake.judge(facts, sent, of_flights(source))
        drawn = draw(picture, outcome.curve.points(), marks(outcome), _delays_of(facts))
        if facts is None:
            return {"left_out": self._missing} if self._wanted else None
        found = lake.as_report(facts, self._seconds)
        return {**found, "picture": str(picture) if drawn else None}


def _delays_of(facts: Facts | None) -> list[Delay]:
    return [] if facts is None else facts.delays


def marks(outcome: DemoOutcome) -> list[CurveMark]:
    """Each kill, until the first acknowledgement after it, on the curve's time."""
    found: list[CurveMark] = []
    for each in outcome.timelines:
        at = outcome.curve.since_start(each.killed_s)
        text, pause_ms = f"{each.master} killed", each.first_ack_ms or 0.0
        if each.first_ack_ms is not None:
            text += f": epoch {each.new_epoch} after {pause_ms:.0f} ms"
        found.append(CurveMark(at, at + pause_ms / 1_000, text))
    return found
