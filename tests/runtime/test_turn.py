import asyncio
import gc
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from epochmq.base.errors import OurBug
from epochmq.runtime.turn import Turn, turn_of
from epochmq.wire.frame import RawFrame
from epochmq.wire.session import Session


class Sink:
    def __init__(self, error: Exception | None = None) -> None:
        self.ends: list[int] = []
        self.error = error

    def opened(self, session: Session) -> None: ...

    def closed(self, session: Session) -> None: ...

    def receive(self, session: Session, frames: Sequence[RawFrame], now: int) -> None: ...

    def end_of_turn(self, now: int) -> None:
        self.ends.append(now)
        if self.error is not None:
            raise self.error


class Written:
    def __init__(self, error: Exception | None = None) -> None:
        self.flushes = 0
        self.error = error

    def flush(self) -> None:
        self.flushes += 1
        if self.error is not None:
            raise self.error


async def a_turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_each_sink_hears_the_end_once_however_many_reads_there_were() -> None:
    turn, one, two = Turn(), Sink(), Sink()
    now = turn.begin(one)
    assert [turn.begin(sink) for sink in (one, two, one)] == [now] * 3
    await a_turn()
    assert one.ends == two.ends == [now]
    turn.begin(one)
    await a_turn()
    assert (len(one.ends), len(two.ends)) == (2, 1)


async def test_what_a_sink_sends_at_the_end_leaves_in_the_same_turn() -> None:
    turn, connection = Turn(), Written()

    class Late(Sink):
        def end_of_turn(self, now: int) -> None:
            turn.dirty(connection)

    turn.begin(Late())
    await asyncio.sleep(0)
    assert connection.flushes == 1


async def test_something_to_write_outside_of_reads_makes_a_turn() -> None:
    turn, connection = Turn(), Written()
    turn.dirty(connection)
    await a_turn()
    assert connection.flushes == 1


async def test_a_failing_sink_or_connection_does_not_hurt_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turn, good = Turn(), Sink()
    bad, written = Written(RuntimeError("view is gone")), Written()
    turn.begin(Sink(ValueError("bad sink")))
    turn.begin(good)
    turn.dirty(bad)
    turn.dirty(written)
    await a_turn()
    assert (len(good.ends), written.flushes) == (1, 1)
    assert "bad sink" in caplog.text
    assert "view is gone" in caplog.text


async def test_a_broken_rule_goes_to_the_loops_handler() -> None:
    loop = asyncio.get_running_loop()
    seen: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda loop, context: seen.append(context))
    turn = Turn()
    turn.begin(Sink(OurBug("INV-11")))
    await a_turn()
    loop.set_exception_handler(None)
    assert [type(context["exception"]) for context in seen] == [OurBug]


def test_a_loop_has_one_turn_and_takes_it_along_when_it_goes() -> None:
    loop = asyncio.new_event_loop()
    turn = turn_of(loop)
    assert turn_of(loop) is turn
    other = asyncio.new_event_loop()
    assert turn_of(other) is not turn
    other.close()
    loop.close()
    gone = weakref.ref(loop)
    del turn, loop
    gc.collect()
    assert gone() is None
