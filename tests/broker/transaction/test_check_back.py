"""Silent transactions: asked about, given up, left alone."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.broker_harness import BrokerHarness, ext
from tests.broker.transaction.around import (
    COMMIT,
    KEY,
    ROLLBACK,
    Moody,
    answered,
    bodies,
    check_of,
    end,
    half,
    made,
    producer,
    restarted,
    tick,
)

from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.broker.transaction import open_transactions as core
from epochmq.broker.transaction.half_messages import GROUP
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def harness() -> BrokerHarness:
    return made()


def test_a_silent_one_is_asked_about(harness: BrokerHarness) -> None:
    first = harness.client().ask(half())
    asked = producer(harness)
    tick(harness, 29_000)
    assert asked.session.pop_outbox() == []
    tick(harness, 2_000)
    check, message = check_of(asked)
    assert (message.topic, message.queue_id, message.body) == ("T", 1, b"hello")
    assert message.properties["PGROUP"] == "PG"
    assert ext(check)["tranStateTableOffset"] == "1"
    assert [m.properties.get("TRANSACTION_CHECK_TIMES") for m in harness.stored(HALF_TOPIC)] == [
        None, "1",
    ]  # fmt: skip
    asked.put(answered(check, COMMIT))
    harness.turn()
    assert bodies(harness) == [b"hello"]
    # The late end of its own sender, which names the first half message, is the same transaction.
    assert harness.client().ask(end(first)).code == ResponseCode.SUCCESS
    tick(harness, 3_000)
    tick(harness)
    assert bodies(harness) == [b"hello"]
    assert harness.node.offsets.get(GROUP, HALF_TOPIC, 0) == 2
    assert harness.client().ask(end(first)).code == ResponseCode.SUCCESS


def test_a_late_end_ends_the_copy(harness: BrokerHarness) -> None:
    first = harness.client().ask(half())
    asked = producer(harness)
    tick(harness, 31_000)
    check, _ = check_of(asked)
    assert harness.client().ask(end(first)).code == ResponseCode.SUCCESS
    asked.put(answered(check, COMMIT))
    harness.turn()
    assert bodies(harness) == [b"hello"]


def test_it_is_given_up_after_so_many_checks() -> None:
    harness = made(transaction_check_max=2)
    answer = harness.client().ask(half())
    asked = producer(harness)
    for _ in range(2):
        tick(harness, 31_000)
        check_of(asked)
    tick(harness, 31_000)
    assert asked.session.pop_outbox() == []
    assert bodies(harness, TRANS_CHECK_MAX_TIME_TOPIC, 0) == [b"hello"]
    assert harness.client().ask(end(answer)).code == ResponseCode.SYSTEM_ERROR
    tick(harness, 3_000)
    tick(harness)
    assert harness.node.offsets.get(GROUP, HALF_TOPIC, 0) == 3
    assert harness.node.transactions.statistics()["given_up"] == 1


def test_without_a_producer_it_waits_uncounted(harness: BrokerHarness) -> None:
    harness.client().ask(half())
    for _ in range(40):
        tick(harness, 31_000)
    assert len(harness.stored(HALF_TOPIC)) == 1
    asked = producer(harness)
    tick(harness, 31_000)
    check, _ = check_of(asked)
    asked.put(answered(check, ROLLBACK))
    harness.turn()
    tick(harness, 3_000)
    assert harness.stored(OP_HALF_TOPIC)[0].body == b"1,"
    assert bodies(harness) == []


def test_its_own_immunity(harness: BrokerHarness) -> None:
    harness.client().ask(half(properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "70"}))
    asked = producer(harness)
    for _ in range(2):
        tick(harness, 31_000)
        assert asked.session.pop_outbox() == []
    tick(harness, 31_000)
    check_of(asked)


def test_a_check_after_a_crash_finds_what_was_committed(harness: BrokerHarness) -> None:
    answer = harness.client().ask(half())
    harness.client().put(end(answer, oneway=True))
    harness.turn()
    harness = restarted(harness)
    asked = producer(harness)
    tick(harness, 31_000)
    assert asked.session.pop_outbox() == []
    tick(harness, 3_000)
    assert bodies(harness) == [b"hello"]
    assert len(harness.stored(OP_HALF_TOPIC)) == 1


@pytest.mark.parametrize("outcome", [WriteOutcome.LATER, WriteOutcome.ILLEGAL])
def test_a_copy_that_fails_is_tried_at_the_next_round(
    harness: BrokerHarness, outcome: WriteOutcome
) -> None:
    harness.client().ask(half())
    asked = producer(harness)
    harness.node.internal_writer.route = Moody(harness, outcome)
    tick(harness, 31_000)
    assert asked.session.pop_outbox() == []
    tick(harness, 31_000)
    check_of(asked)


def test_one_that_is_gone_is_left_behind(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.client().ask(half())
    producer(harness)
    tick(harness)
    monkeypatch.setattr(harness.store.pointers, "start", 1)
    tick(harness, 31_000)
    assert harness.node.transactions.statistics()["gone"] == 1
    tick(harness)
    assert harness.node.offsets.get(GROUP, HALF_TOPIC, 0) == 1


def unreadable(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The first half message is damaged, and the store knows of it or not yet; a call mends it."""
    context = monkeypatch.context()
    patched = context.__enter__()
    patched.setattr(harness.store, "message_at", lambda offset, size=None: None)
    return lambda: context.__exit__(None, None, None)


def reported(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    first = [message for message in harness.stored(HALF_TOPIC) if message.uniq_key == KEY][-1]
    harness.store.damage.report(first.offset, first.offset + first.size, "rot")
    return lambda: harness.store.damage.mark_repaired(0, 1 << 60, "by a replica") or None


@pytest.mark.parametrize("why", ["ask", "give up", "renew"])
@pytest.mark.parametrize("damage", [unreadable, reported])
def test_one_that_is_damaged_waits_for_its_repair(
    damage: Callable[[BrokerHarness, pytest.MonkeyPatch], Callable[[], None]],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It counted as gone: no producer was asked any more, and its transaction never ended."""
    harness = made(transaction_check_max=1 if why == "give up" else 15)
    client = harness.client()
    answer, other = client.ask(half()), client.ask(half(key="K1"))
    client.ask(end(other, ROLLBACK))
    asked = producer(harness)
    if why == "give up":
        tick(harness, 31_000)
        check_of(asked)
    if why == "renew":
        monkeypatch.setattr(core, "SPAN_MAX", 1)
    mend = damage(harness, monkeypatch)
    for _ in range(3):
        tick(harness, 31_000)
    figures = harness.node.transactions.statistics()
    assert (figures["gone"], figures["damaged"], figures["open"]) == (0, 1, 1)
    assert sum("waits for its repair" in line.getMessage() for line in caplog.records) == 1
    assert "is damaged" in (client.ask(end(answer)).remark or "")
    mend()
    tick(harness, 31_000)
    if why == "renew":
        tick(harness, 31_000)
    if why == "give up":
        assert bodies(harness, TRANS_CHECK_MAX_TIME_TOPIC, 0) == [b"hello"]
        return
    check, _ = check_of(asked)
    asked.put(answered(check, COMMIT))
    harness.turn()
    assert bodies(harness) == [b"hello"]


def test_one_far_behind_is_written_again(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "SPAN_MAX", 2)
    client = harness.client()
    first = client.ask(half())
    for n in range(3):
        client.ask(end(client.ask(half(key=f"K{n}")), ROLLBACK))
    tick(harness)
    tick(harness)
    assert [m.properties.get("TRANSACTION_CHECK_TIMES") for m in harness.stored(HALF_TOPIC)] == [
        None, None, None, None, "0",
    ]  # fmt: skip
    assert harness.node.offsets.get(GROUP, HALF_TOPIC, 0) == 4
    assert client.ask(end(first)).code == ResponseCode.SUCCESS
    assert bodies(harness) == [b"hello"]


def test_a_producer_that_left_meanwhile_is_not_asked(harness: BrokerHarness) -> None:
    harness.client().ask(half())
    asked = producer(harness)
    kept: list[Any] = []
    inner = harness.node.internal_writer.route

    class Slow:
        def put(self, drafts: Any, origin: Any, wall: int, done: Any) -> None:
            inner.put(drafts, origin, wall, kept.append)
            kept.append(done)

    harness.node.internal_writer.route = Slow()
    tick(harness, 31_000)
    asked.session.lost()
    kept[1](kept[0])
    assert harness.node.transactions.statistics()["asked"] == 0
