"""The screen and the rows of `top`."""

import io
from dataclasses import replace

from rich.console import Console
from tests.admin.top.test_cluster_view import VIEW, A, B

from epochmq.admin.top.cluster_view import BrokerGroupView, ClusterView, TopTimeline
from epochmq.admin.top.screen import draw, rows


def drawn(view: ClusterView, timeline: TopTimeline) -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(draw(view, timeline))
    return console.export_text()


def test_one_screen() -> None:
    timeline = TopTimeline()
    timeline.compare_view(VIEW)
    timeline.compare_view(replace(VIEW, controller_leader="c:2"))
    text = drawn(VIEW, timeline)
    assert "controllers 2, leader c:1" in text
    assert "broker-a  epoch 3  set 2/2 (set epoch 7)" in text
    assert "controllers: leader c:1 -> c:2" in text
    assert "no controllers" in drawn(replace(VIEW, controllers=()), TopTimeline())
    assert "no name server" in drawn(replace(VIEW, problem="no name server"), TopTimeline())


def test_rows() -> None:
    first, second = rows(VIEW)
    assert (first["role"], first["lag_bytes"]) == ("master", 0)
    assert (second["role"], second["lag_bytes"], second["in_sync"]) == ("slave", 50, True)
    dead = replace(VIEW.groups[0], replicas=(replace(A, alive=False),))
    assert rows(replace(VIEW, groups=(dead,)))[0]["role"] == "dead"


def test_acting_masters_and_messages_to_hand_over_are_shown() -> None:
    acting = BrokerGroupView("broker-a", None, 0, 0, (replace(B, acting=True, backlog=12),))
    view = replace(VIEW, groups=(acting,), controllers=())
    (row,) = rows(view)
    assert (row["role"], row["backlog"]) == ("acting master", 12)
    text = drawn(view, TopTimeline())
    assert "broker-a  no master, b:1 is acting master" in text
    assert "12" in text
    assert "broker-a  no master" in drawn(
        replace(view, groups=(replace(acting, replicas=(B,)),)), TopTimeline()
    )
