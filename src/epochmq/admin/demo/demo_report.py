"""The end of the demo: a report as one JSON object, and the same for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from epochmq.admin.demo.failovers import KillTimeline
from epochmq.admin.demo.run import DemoOutcome
from epochmq.admin.shared.output import rate, size

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
