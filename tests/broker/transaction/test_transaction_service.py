"""Transactions through a whole broker on a simulated disk: frames in, messages out."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import WALL, BrokerHarness, ext
from tests.broker.transaction.around import (
    COMMIT,
    KEY,
    ROLLBACK,
    Moody,
    bodies,
    end,
    half,
    made,
    restarted,
    tick,
)

from epochmq.broker.internal_writes.internal_writer import Done, Origin, WriteOutcome
from epochmq.broker.serving.roles import Role
from epochmq.broker.transaction import transaction_context as reading
from epochmq.broker.transaction.half_messages import GROUP
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from epochmq.model.sys_flag import TX_COMMIT
from epochmq.store.draft import Draft
from epochmq.wire.codes import ResponseCode


class Elsewhere:
    """Another group, which holds all it is given."""

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        done([WriteOutcome.STORED] * len(drafts))


@pytest.fixture
def harness() -> BrokerHarness:
    return made()


def test_it_is_seen_when_it_is_committed_and_not_before(harness: BrokerHarness) -> None:
    client = harness.client()
    answer = client.ask(half())
    assert answer.code == ResponseCode.SUCCESS
    assert ext(answer)["queueId"] == "1"
    assert ext(answer)["queueOffset"] == "0"
    assert ext(answer)["transactionId"] == KEY
    assert bodies(harness) == []
    (waiting,) = harness.stored(HALF_TOPIC)
    assert waiting.sys_flag & 0xC == 0
    assert waiting.properties["REAL_TOPIC"] == "T"
    assert waiting.properties["REAL_QID"] == "1"
    assert waiting.properties["__transactionId__"] == KEY
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    (message,) = harness.stored("T", 1)
    assert message.body == b"hello"
    assert message.sys_flag & 0xC == TX_COMMIT
    assert message.prepared_offset == waiting.offset
    assert message.born_wall_ms == waiting.born_wall_ms
    assert message.born_host == waiting.born_host
    assert message.tags == "a"
    assert message.properties["PGROUP"] == "PG"
    assert not {"REAL_TOPIC", "REAL_QID", "TRAN_MSG"} & message.properties.keys()


def test_one_rolled_back_is_never_seen(harness: BrokerHarness) -> None:
    client = harness.client()
    answer = client.ask(half())
    assert client.ask(end(answer, ROLLBACK)).code == ResponseCode.SUCCESS
    (op,) = harness.stored(OP_HALF_TOPIC)
    assert (op.body, op.tags) == (b"0,", "d")
    assert client.ask(end(answer, COMMIT)).code == ResponseCode.SYSTEM_ERROR
    tick(harness, 100_000)
    assert client.ask(end(answer, COMMIT)).code == ResponseCode.SYSTEM_ERROR
    assert client.ask(end(answer, ROLLBACK)).code == ResponseCode.SUCCESS
    assert bodies(harness) == []


def test_ends_are_named_together(harness: BrokerHarness) -> None:
    client = harness.client()
    answers = [client.ask(half(b"%d" % n, f"KEY{n}")) for n in range(3)]
    for answer, how in zip(answers, (COMMIT, ROLLBACK, COMMIT), strict=True):
        client.put(end(answer, how, oneway=True))
    harness.turn()
    assert bodies(harness) == [b"0", b"2"]
    assert harness.stored(OP_HALF_TOPIC) == []
    tick(harness, 3_000)
    (op,) = harness.stored(OP_HALF_TOPIC)
    assert sorted(op.body.split(b",")) == [b"", b"0", b"1", b"2"]
    tick(harness)
    assert [harness.node.offsets.get(GROUP, t, 0) for t in (HALF_TOPIC, OP_HALF_TOPIC)] == [3, 1]


def test_op_messages_that_fail_are_repeated(harness: BrokerHarness) -> None:
    client = harness.client()
    answer = client.ask(half())
    harness.node.internal_writer.route = Moody(harness, WriteOutcome.LATER)
    client.put(end(answer, ROLLBACK))
    harness.turn()
    assert client.take() == []
    tick(harness, 999)
    assert client.take() == []
    tick(harness, 1)
    assert [a.code for a in client.take()] == [ResponseCode.SUCCESS]


def test_progress_waits_for_the_device(harness: BrokerHarness) -> None:
    client = harness.client()
    client.ask(end(client.ask(half()), ROLLBACK))
    for _ in range(3):
        harness.node.transactions.tick(harness.clock.now, harness.clock.wall)
    assert harness.node.offsets.get(GROUP, HALF_TOPIC, 0) <= 0
    tick(harness)
    tick(harness)
    assert harness.node.offsets.get(GROUP, HALF_TOPIC, 0) == 1


def test_the_progress_of_a_stand_in_waits_for_no_device(harness: BrokerHarness) -> None:
    """Other masters hold what it wrote, and its log may stay unsynced until the master returns."""
    client, node = harness.client(), harness.node
    answer = client.ask(half())
    store = harness.store.pointers
    become(node, Role.ACTING_MASTER)
    node.ways_out.use(Elsewhere())
    for _ in range(3):
        node.transactions.tick(harness.clock.now, harness.clock.wall)
    client.put(end(answer))
    harness.turn()
    node.transactions.hand_over(harness.clock.now, harness.clock.wall)
    assert store.synced < store.appended
    assert node.offsets.get(GROUP, HALF_TOPIC, 0) == 1


def test_a_clean_stop_names_what_is_over(harness: BrokerHarness) -> None:
    client = harness.client()
    client.put(end(client.ask(half()), oneway=True))
    harness.turn()
    harness.sink.finish(harness.clock.now)
    assert len(harness.stored(OP_HALF_TOPIC)) == 1
    harness.store.sync()
    harness.node.transactions.keep_progress(WALL)
    assert harness.node.offsets.get(GROUP, HALF_TOPIC, 0) == 1


def test_when_to_look_again(harness: BrokerHarness) -> None:
    now = harness.clock.now
    assert harness.node.transactions.next_deadline(now) == now + 30_000
    client = harness.client()
    client.put(end(client.ask(half()), oneway=True))
    harness.turn()
    assert harness.node.transactions.next_deadline(now) == now + 3_000
    become(harness.node, Role.SLAVE)
    tick(harness)
    assert harness.node.transactions.next_deadline(now) is None
    assert not harness.node.transactions.ready
    harness.node.transactions.finish(now, WALL)


def test_a_changed_option_counts_at_once(harness: BrokerHarness) -> None:
    harness.node.adopt_options(replace(harness.options, transaction_op_batch_interval=50))
    tick(harness)
    client = harness.client()
    client.put(end(client.ask(half()), oneway=True))
    harness.turn()
    tick(harness, 50)
    assert len(harness.stored(OP_HALF_TOPIC)) == 1


def test_what_takes_long_to_read_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "HALVES", 2)
    monkeypatch.setattr(reading, "OPS", 1)
    harness = made()
    client = harness.client()
    answers = [client.ask(half(key=f"K{n}")) for n in range(9)]
    for answer in answers[:3]:
        client.ask(end(answer, ROLLBACK))
    harness.node.offsets.table.clear()
    harness = restarted(harness)
    moments = 0
    while not harness.node.transactions.ready:
        assert harness.node.transactions.next_deadline(7) == 7
        tick(harness)
        moments += 1
    assert moments
    assert harness.node.transactions.statistics()["open"] == 6
