"""END_TRANSACTION as a request: roles, readiness, values."""

from collections.abc import Sequence

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness
from tests.broker.transaction.around import (
    bodies,
    end,
    half,
    made,
    tick,
)

from epochmq.broker.serving.roles import Role
from epochmq.model.names import OP_HALF_TOPIC
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.wire.codes import RequestCode, ResponseCode


@pytest.fixture
def harness() -> BrokerHarness:
    return made()


def test_unknown_changes_nothing(harness: BrokerHarness) -> None:
    client = harness.client()
    answer = client.ask(half())
    assert client.ask(end(answer, 0)).code == ResponseCode.SUCCESS
    tick(harness, 4_000)
    assert bodies(harness) == []
    assert harness.stored(OP_HALF_TOPIC) == []


def test_an_end_at_a_broker_that_is_no_master(harness: BrokerHarness) -> None:
    client = harness.client()
    answer = client.ask(half())
    become(harness.node, Role.SLAVE)
    assert client.ask(end(answer)).code == ResponseCode.SLAVE_NOT_AVAILABLE
    become(harness.node, Role.MASTER)
    assert client.ask(end(answer)).code == ResponseCode.SYSTEM_BUSY
    tick(harness)
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    assert bodies(harness) == [b"hello"]


def test_an_end_does_not_cut_a_turns_sends_in_pieces(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producers send ends and new half messages in one read: one append for all of them."""
    client = harness.client()
    answers = [client.ask(half(key=f"{n:032X}")) for n in range(3)]
    appends: list[int] = []
    append = harness.store.append

    def counted(drafts: Sequence[Draft], wall: int) -> list[Appended | PutStatus]:
        appends.append(len(drafts))
        return append(drafts, wall)

    monkeypatch.setattr(harness.store, "append", counted)
    for n, answer in enumerate(answers):
        client.put(half(key=f"{n + 3:032X}"), end(answer, oneway=True))
    harness.turn()
    assert appends == [3, 3]
    assert len(bodies(harness)) == 3


@pytest.mark.parametrize("how", ["hot", "with a body", "binary", "unusual"])
def test_every_way_to_say_it_is_answered(harness: BrokerHarness, how: str) -> None:
    client = harness.client()
    answer = client.ask(half())
    refused, command = end(answer, 5), end(answer)
    for one in (refused, command):
        one.binary = how == "binary"
        one.body = b"x" if how == "with a body" else b""
        if how == "unusual":
            assert one.ext is not None
            one.ext["tranStateTableOffset"] = "+0"
    said = client.ask(refused)
    assert (said.code, said.remark) == (
        ResponseCode.SYSTEM_ERROR, "commitOrRollback field wrong"
    )  # fmt: skip
    assert client.ask(command).code == ResponseCode.SUCCESS
    assert bodies(harness) == [b"hello"]


def test_a_one_way_end_is_never_answered(harness: BrokerHarness) -> None:
    client = harness.client()
    answer = client.ask(half())
    client.put(end(answer, 5, oneway=True), end(answer, oneway=True))
    harness.turn()
    assert client.take() == []
    assert bodies(harness) == [b"hello"]


def test_every_one_way_end_is_timed(harness: BrokerHarness) -> None:
    """The native code collects those of a turn; the others come by the table or refused."""
    client = harness.client()
    answers = [client.ask(half(key=f"{n:032X}")) for n in range(4)]
    binary = end(answers[0], oneway=True)
    binary.binary = True
    client.put(binary, *(end(answer, oneway=True) for answer in answers[1:]))
    client.put(end(answers[0], 5, oneway=True))
    harness.turn()
    become(harness.node, Role.SLAVE)
    client.put(end(answers[0], oneway=True))
    harness.turn()
    assert client.take() == []
    counts = {
        kind.answer_code: sum(times.counts)
        for kind, times in harness.node.request_times.items()
        if kind.code == RequestCode.END_TRANSACTION and kind.oneway
    }
    assert counts == {
        ResponseCode.SUCCESS: 4,
        ResponseCode.SYSTEM_ERROR: 1,
        ResponseCode.SLAVE_NOT_AVAILABLE: 1,
    }
