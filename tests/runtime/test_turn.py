import asyncio
import gc
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from epochmq.base.errors import OurBug
from epochmq.runtime import turn as module
from epochmq.runtime.turn import WAITING_NS, Rank, Turn, turn_of
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


class Waiting:
    """A connection whose waiting requests take `cost_ns`, in its time `left` more turns."""

    def __init__(self, turn: Turn, now_ns: list[int], cost_ns: int, left: int = 0) -> None:
        self.turn, self.now_ns, self.cost_ns, self.left = turn, now_ns, cost_ns, left
        self.calls: list[int] = []

    def run_waiting(self) -> None:
        self.calls.append(self.now_ns[0])
        self.now_ns[0] += self.cost_ns
        if self.left:
            self.left -= 1
            self.turn.wait(self, Rank.SERVED)


@pytest.fixture
def now_ns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time of the turns; nothing but the test moves it."""
    now = [1]
    monkeypatch.setattr(module, "steady_ns", lambda: now[0])
    return now


async def test_waiting_connections_are_called_by_rank_and_then_by_age(now_ns: list[int]) -> None:
    turn = Turn()
    order: list[tuple[Rank, int]] = []

    class Named(Waiting):
        def __init__(self, name: tuple[Rank, int]) -> None:
            super().__init__(turn, now_ns, 1)
            self.name = name

        def run_waiting(self) -> None:
            order.append(self.name)

    ranks = [Rank.SERVED, Rank.LONG, Rank.SHORT]
    for number in range(3):
        for rank in ranks:
            turn.wait(Named((rank, number)), rank)
    await a_turn()
    assert order == [(rank, number) for rank in sorted(ranks) for number in range(3)]


async def test_waiting_connections_get_a_part_of_each_turn(now_ns: list[int]) -> None:
    """The others are called in later turns, and one of each rank is called in any case."""
    turn = Turn()
    short = [Waiting(turn, now_ns, WAITING_NS // 2) for _ in range(6)]
    long = Waiting(turn, now_ns, 1, left=5)
    turn.wait(long, Rank.LONG)
    for each in short:
        turn.wait(each, Rank.SHORT)
    counts = []
    while sum(len(each.calls) for each in short) < len(short):
        await asyncio.sleep(0)
        counts.append((sum(len(each.calls) for each in short), len(long.calls)))
    assert sorted(set(counts)) == [(0, 0), (2, 1), (4, 2), (6, 3)]


async def test_one_slow_request_does_not_keep_others_of_its_rank_forever(
    now_ns: list[int],
) -> None:
    turn = Turn()
    slow = [Waiting(turn, now_ns, 100 * WAITING_NS, left=3) for _ in range(4)]
    for each in slow:
        turn.wait(each, Rank.SERVED)
    for _ in range(60):
        await asyncio.sleep(0)
    assert [len(each.calls) for each in slow] == [4] * 4
    first = [each.calls[0] for each in slow]
    assert first == sorted(first)


async def test_a_connections_part_ends_with_the_turn(now_ns: list[int]) -> None:
    turn = Turn()
    assert turn.share_end() == now_ns[0] + module.SHARE_NS
    assert not turn.is_over()
    await a_turn()
    assert not turn.is_over()
    now_ns[0] += 2 * module.TURN_NS
    assert not turn.is_over()  # there is none
    turn.begin(Sink())
    assert turn.share_end() == now_ns[0] + module.SHARE_NS
    now_ns[0] += module.TURN_NS - 1
    assert turn.share_end() == turn.ends_ns == now_ns[0] + 1
    assert not turn.is_over()
    now_ns[0] += 1
    assert turn.is_over()
