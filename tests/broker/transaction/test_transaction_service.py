"""Transactions through a whole broker on a simulated disk: frames in, messages out."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.broker.desk import WALL, Desk, ext
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

from epochmq.broker.internal_writes.internal_writer import Done, Origin, Outcome
from epochmq.broker.roles import Role
from epochmq.broker.transaction import half_reading as reading
from epochmq.broker.transaction.half import GROUP
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from epochmq.model.sys_flag import TX_COMMIT
from epochmq.store.draft import Draft
from epochmq.wire.codes import ResponseCode


class Elsewhere:
    """Another group, which holds all it is given."""

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        done([Outcome.STORED] * len(drafts))


@pytest.fixture
def desk() -> Desk:
    return made()


def test_it_is_seen_when_it_is_committed_and_not_before(desk: Desk) -> None:
    client = desk.client()
    answer = client.ask(half())
    assert answer.code == ResponseCode.SUCCESS
    assert ext(answer)["queueId"] == "1"
    assert ext(answer)["queueOffset"] == "0"
    assert ext(answer)["transactionId"] == KEY
    assert bodies(desk) == []
    (waiting,) = desk.stored(HALF_TOPIC)
    assert waiting.sys_flag & 0xC == 0
    assert waiting.properties["REAL_TOPIC"] == "T"
    assert waiting.properties["REAL_QID"] == "1"
    assert waiting.properties["__transactionId__"] == KEY
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    (message,) = desk.stored("T", 1)
    assert message.body == b"hello"
    assert message.sys_flag & 0xC == TX_COMMIT
    assert message.prepared_offset == waiting.offset
    assert message.born_wall_ms == waiting.born_wall_ms
    assert message.born_host == waiting.born_host
    assert message.tags == "a"
    assert message.properties["PGROUP"] == "PG"
    assert not {"REAL_TOPIC", "REAL_QID", "TRAN_MSG"} & message.properties.keys()


def test_one_rolled_back_is_never_seen(desk: Desk) -> None:
    client = desk.client()
    answer = client.ask(half())
    assert client.ask(end(answer, ROLLBACK)).code == ResponseCode.SUCCESS
    (op,) = desk.stored(OP_HALF_TOPIC)
    assert (op.body, op.tags) == (b"0,", "d")
    assert client.ask(end(answer, COMMIT)).code == ResponseCode.SYSTEM_ERROR
    tick(desk, 100_000)
    assert client.ask(end(answer, COMMIT)).code == ResponseCode.SYSTEM_ERROR
    assert client.ask(end(answer, ROLLBACK)).code == ResponseCode.SUCCESS
    assert bodies(desk) == []


def test_ends_are_named_together(desk: Desk) -> None:
    client = desk.client()
    answers = [client.ask(half(b"%d" % n, f"KEY{n}")) for n in range(3)]
    for answer, how in zip(answers, (COMMIT, ROLLBACK, COMMIT), strict=True):
        client.put(end(answer, how, oneway=True))
    desk.turn()
    assert bodies(desk) == [b"0", b"2"]
    assert desk.stored(OP_HALF_TOPIC) == []
    tick(desk, 3_000)
    (op,) = desk.stored(OP_HALF_TOPIC)
    assert sorted(op.body.split(b",")) == [b"", b"0", b"1", b"2"]
    tick(desk)
    assert [desk.node.offsets.get(GROUP, t, 0) for t in (HALF_TOPIC, OP_HALF_TOPIC)] == [3, 1]


def test_op_messages_that_fail_are_repeated(desk: Desk) -> None:
    client = desk.client()
    answer = client.ask(half())
    desk.node.internal_writer.route = Moody(desk, Outcome.LATER)
    client.put(end(answer, ROLLBACK))
    desk.turn()
    assert client.take() == []
    tick(desk, 999)
    assert client.take() == []
    tick(desk, 1)
    assert [a.code for a in client.take()] == [ResponseCode.SUCCESS]


def test_progress_waits_for_the_device(desk: Desk) -> None:
    client = desk.client()
    client.ask(end(client.ask(half()), ROLLBACK))
    for _ in range(3):
        desk.node.transactions.tick(desk.clock.now, desk.clock.wall)
    assert desk.node.offsets.get(GROUP, HALF_TOPIC, 0) <= 0
    tick(desk)
    tick(desk)
    assert desk.node.offsets.get(GROUP, HALF_TOPIC, 0) == 1


def test_the_progress_of_a_stand_in_waits_for_no_device(desk: Desk) -> None:
    """Other masters hold what it wrote, and its log may stay unsynced until the master returns."""
    client, node = desk.client(), desk.node
    answer = client.ask(half())
    store = desk.store.pointers
    node.take_role(Role.ACTING_MASTER)
    node.ways_out.away = Elsewhere()
    for _ in range(3):
        node.transactions.tick(desk.clock.now, desk.clock.wall)
    client.put(end(answer))
    desk.turn()
    node.transactions.hand_over(desk.clock.now, desk.clock.wall)
    assert store.synced < store.appended
    assert node.offsets.get(GROUP, HALF_TOPIC, 0) == 1


def test_a_clean_stop_names_what_is_over(desk: Desk) -> None:
    client = desk.client()
    client.put(end(client.ask(half()), oneway=True))
    desk.turn()
    desk.sink.finish(desk.clock.now)
    assert len(desk.stored(OP_HALF_TOPIC)) == 1
    desk.store.sync()
    desk.node.transactions.keep_progress(WALL)
    assert desk.node.offsets.get(GROUP, HALF_TOPIC, 0) == 1


def test_when_to_look_again(desk: Desk) -> None:
    now = desk.clock.now
    assert desk.node.transactions.next_deadline(now) == now + 30_000
    client = desk.client()
    client.put(end(client.ask(half()), oneway=True))
    desk.turn()
    assert desk.node.transactions.next_deadline(now) == now + 3_000
    desk.node.take_role(Role.SLAVE)
    tick(desk)
    assert desk.node.transactions.next_deadline(now) is None
    assert not desk.node.transactions.ready
    desk.node.transactions.finish(now, WALL)


def test_a_changed_option_counts_at_once(desk: Desk) -> None:
    desk.node.adopt_options(replace(desk.options, transaction_op_batch_interval=50))
    tick(desk)
    client = desk.client()
    client.put(end(client.ask(half()), oneway=True))
    desk.turn()
    tick(desk, 50)
    assert len(desk.stored(OP_HALF_TOPIC)) == 1


def test_what_takes_long_to_read_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "HALVES", 2)
    monkeypatch.setattr(reading, "OPS", 1)
    desk = made()
    client = desk.client()
    answers = [client.ask(half(key=f"K{n}")) for n in range(9)]
    for answer in answers[:3]:
        client.ask(end(answer, ROLLBACK))
    desk.node.offsets.table.clear()
    desk = restarted(desk)
    moments = 0
    while not desk.node.transactions.ready:
        assert desk.node.transactions.next_deadline(7) == 7
        tick(desk)
        moments += 1
    assert moments
    assert desk.node.transactions.statistics()["open"] == 6
