"""`resetOffsetByTime`: for whole groups and for one queue, on new brokers and on old."""

from collections.abc import Iterator

import pytest
from tests.admin.world import OFFLINE, TOPIC, World

from epochmq.base.errors import Refused
from epochmq.client.aio import Admin

GROUP = ("-g", OFFLINE, "-t", TOPIC)


@pytest.fixture(autouse=True)
def _back(world: World) -> Iterator[None]:
    """Other tests expect the group at offset 1."""
    yield
    for queue in ("0", "1"):
        where = ("-b", world.broker, "-q", queue, "-o", "1")
        assert world.mqadmin("resetOffsetByTime", *GROUP, "-s", "0", *where).code == 0


def test_to_the_end(world: World) -> None:
    lines = world.mqadmin("resetOffsetByTime", *GROUP, "-s", "-1").lines
    assert lines == [
        "start reset consumer offset by specified, group[billing], topic[orders], force[true],"
        " timestamp(string)[-1], timestamp(long)[-1]",
        f"{'#brokerName':<40}  {'#queueId':<40}  {'#offset':<40}",
        f"{'broker-a':<40}  {0:<40}  {3:<40}",
        f"{'broker-a':<40}  {1:<40}  {3:<40}",
    ]


def test_to_the_beginning(world: World) -> None:
    rows = world.mqadmin("-o", "json", "resetOffsetByTime", *GROUP, "-s", "0").rows
    assert [(row["queue"], row["offset"]) for row in rows] == [(0, 0), (1, 0)]


def test_one_queue(world: World) -> None:
    where = ("-b", world.broker, "-q", "1")
    lines = world.mqadmin("resetOffsetByTime", *GROUP, "-s", "now", *where).lines
    assert lines[0].startswith(
        "start reset consumer offset by specified, group[billing], topic[orders], queueId[1],"
        f" broker[{world.broker}], timestamp(string)[now], timestamp(long)["
    )
    assert lines[1:] == ["reset consumer offset to 3"]
    lines = world.mqadmin("resetOffsetByTime", *GROUP, "-s", "0", *where).lines
    assert lines[1:] == ["reset consumer offset to 0"]


def test_on_a_broker_that_moves_no_group_nobody_is_in(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*args: object, **kwargs: object) -> None:
        raise Refused(206, "no member")

    monkeypatch.setattr(Admin, "reset_offsets", refuse)
    lines = world.mqadmin("resetOffsetByTime", *GROUP, "-s", "0").lines
    assert lines[0].startswith(
        "reset consumer offset by specified consumerGroup[billing], topic[orders], force[true],"
    )
    assert lines[1].split() == [
        "#brokerName",
        "#queueId",
        "#brokerOffset",
        "#consumerOffset",
        "#timestampOffset",
        "#resetOffset",
    ]
    assert lines[2].split() == ["broker-a", "0", "3", "1", "0", "0"]


@pytest.mark.parametrize("args", [("-s", "soon"), ("-s", "0", "-q", "1"), ("-s", "0", "-o", "1")])
def test_wrong_use(world: World, args: tuple[str, ...]) -> None:
    assert world.mqadmin("resetOffsetByTime", *GROUP, *args).code == 2


def test_unknown_names(world: World) -> None:
    assert world.mqadmin("resetOffsetByTime", "-g", OFFLINE, "-t", "nosuch", "-s", "0").code == 5
    assert world.mqadmin("resetOffsetByTime", "-g", "nosuch", "-t", TOPIC, "-s", "0").code == 5


def test_what_is_not_consumed_is_skipped(world: World) -> None:
    lines = world.mqadmin("skipAccumulatedMessage", *GROUP).lines
    assert lines == [
        f"{'#brokerName':<40}  {'#queueId':<40}  {'#offset':<40}",
        f"{'broker-a':<40}  {0:<40}  {3:<40}",
        f"{'broker-a':<40}  {1:<40}  {3:<40}",
    ]
