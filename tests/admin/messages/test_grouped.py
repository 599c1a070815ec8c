"""Reading as a member of a group."""

from functools import partial

import pytest
from tests.admin.messages.test_following import Taker, send

from epochmq.admin.messages.grouped import QueueEnds, consume, start_of
from epochmq.admin.messages.position import FIRST, LAST, PositionKind, StartPosition
from epochmq.base.errors import UsageError
from epochmq.client.aio import PushConsumer
from epochmq.model.message import StoredMessage


def test_starts() -> None:
    assert [
        start_of(position) for position in (FIRST, LAST, StartPosition(PositionKind.TIME, 5))
    ] == [
        "first",
        "last",
        5,
    ]
    with pytest.raises(UsageError, match="with --group"):
        start_of(StartPosition(PositionKind.OFFSET, 5))


def member(namesrv: str, topic: str) -> PushConsumer:
    return PushConsumer(namesrv, f"g_{topic}", start="first", concurrency=1)


async def test_each_message_once_over_several_visits(namesrv: str, topic: str) -> None:
    bodies = [b"%d" % number for number in range(20)]
    await send(namesrv, topic, *bodies)
    some, rest, none = Taker(7), Taker(), Taker()
    async with member(namesrv, topic) as consumer:
        await consume(consumer, topic, "*", some, None)
    assert len(some.bodies) == 7
    for taker in (rest, none):
        async with member(namesrv, topic) as consumer:
            ends = await QueueEnds.of(namesrv, topic)
            await consume(consumer, topic, "*", taker, partial(ends.reached, consumer))
    assert sorted(some.bodies + rest.bodies) == sorted(bodies)
    assert none.bodies == []


async def test_what_could_not_be_shown_comes_again(namesrv: str, topic: str) -> None:
    await send(namesrv, topic, b"a")

    def fail(messages: list[StoredMessage]) -> bool:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        async with member(namesrv, topic) as consumer:
            await consume(consumer, topic, "*", fail, None)
    again = Taker(1)
    async with member(namesrv, topic) as consumer:
        await consume(consumer, topic, "*", again, None)
    assert again.bodies == [b"a"]
