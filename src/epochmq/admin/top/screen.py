"""Renders a `ClusterView` and its timeline as a screen, or as rows."""

import time
from typing import TYPE_CHECKING

from epochmq.admin.top.cluster_view import (
    BrokerGroupView,
    ClusterView,
    ReplicaView,
    TimelineEvent,
    TopTimeline,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

EVENTS_SHOWN = 12
COLUMNS = (
    "group", "id", "address", "role", "epoch", "in_sync", "end", "lag_bytes", "backlog",
    "in_tps", "out_tps",
)  # fmt: skip
KEYS = "q quit   p pause or go on   h hide or show this line"


def rows(view: ClusterView) -> list[dict[str, object]]:
    """Return one row per replica."""
    return [
        {
            "group": group.name,
            "id": replica.broker_id,
            "address": replica.address,
            "role": role(replica),
            "epoch": replica.epoch,
            "in_sync": replica.in_sync,
            "end": replica.max_offset,
            "lag_bytes": group.lag_bytes(replica),
            "backlog": replica.backlog,
            "in_tps": replica.in_rate,
            "out_tps": replica.out_rate,
        }
        for group in view.groups
        for replica in group.replicas
    ]


def role(replica: ReplicaView) -> str:
    """Return the role of a replica in one or two words."""
    if not replica.alive:
        return "dead"
    if replica.acting:
        return "acting master"
    return "master" if replica.is_master else "slave"


def draw(view: ClusterView, timeline: TopTimeline, footer: str = "") -> "RenderableType":
    """Render one screen; `footer` is its last line."""
    from rich.console import Group as Lines
    from rich.text import Text

    if view.problem is not None:
        return Text(f"{_clock(view.wall_ms)}  {view.problem}", style="bold red")
    parts: list[RenderableType] = [Text(_head(view))]
    parts += [_table(group) for group in view.groups]
    parts += [Text(_line(event)) for event in list(timeline.events)[-EVENTS_SHOWN:]]
    if footer:
        parts.append(Text(footer, style="dim"))
    return Lines(*parts)


def _head(view: ClusterView) -> str:
    if not view.controllers:
        return f"{_clock(view.wall_ms)}  no controllers"
    leader = view.controller_leader or "NONE"
    return f"{_clock(view.wall_ms)}  controllers {len(view.controllers)}, leader {leader}"


def _table(group: BrokerGroupView) -> "RenderableType":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=_title(group), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in (
        "ID",
        "ADDRESS",
        "ROLE",
        "EPOCH",
        "IN SYNC",
        "END",
        "LAG",
        "BACKLOG",
        "IN/S",
        "OUT/S",
    ):
        table.add_column(column)
    for replica in group.replicas:
        table.add_row(
            str(replica.broker_id),
            replica.address,
            role(replica),
            _text(replica.epoch),
            {True: "yes", False: "no", None: "-"}[replica.in_sync],
            _text(replica.max_offset),
            _text(group.lag_bytes(replica)),
            _text(replica.backlog),
            _rate(replica.in_rate),
            _rate(replica.out_rate),
            style={"dead": "red", "master": "bold", "acting master": "yellow"}.get(role(replica)),
        )
    return table


def _title(group: BrokerGroupView) -> str:
    if group.acting is not None:
        return f"{group.name}  no master, {group.acting.address} is acting master"
    if not group.set_epoch:
        return group.name if group.master else f"{group.name}  no master"
    in_sync = sum(bool(replica.in_sync) for replica in group.replicas)
    return (
        f"{group.name}  epoch {group.master_epoch}  set {in_sync}/{len(group.replicas)}"
        f" (set epoch {group.set_epoch})"
    )


def _text(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.0f}"


def _line(event: TimelineEvent) -> str:
    return f"{_clock(event.wall_ms)}  {event.text}"


def _clock(wall_ms: int) -> str:
    seconds, millis = divmod(wall_ms, 1000)
    return f"{time.strftime('%H:%M:%S', time.localtime(seconds))}.{millis:03}"
