"""Bulk reads on a real store: what they give, what they refuse, where they end."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim.kernel.disk import SimFile
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness, Client, ext, send
from tests.tiers import examples

from epochmq.base import limits
from epochmq.broker.requests import bulk_read
from epochmq.broker.serving.roles import Role
from epochmq.model import batch
from epochmq.model.message import Message, StoredMessage
from epochmq.model.record import decode_all, size_at
from epochmq.native import library
from epochmq.store import read
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

COLLIDING = ("Aa", "BB")
"""Java hashes them alike."""


def ask(**fields: object) -> Command:
    values = {"topic": "T", "queueId": 0, "offset": 0, **fields}
    return Command(Code.BULK_READ, ext={name: str(value) for name, value in values.items()})


def bodies(answer: Command) -> list[bytes]:
    assert answer.code == ResponseCode.SUCCESS, answer
    found = decode_all(answer.body)
    assert int(ext(answer)["count"]) == len(found)
    return [message.body for message in found]


def bounds(answer: Command) -> tuple[int, ...]:
    return tuple(int(ext(answer)[name]) for name in ("nextOffset", "minOffset", "maxOffset"))


def filled(
    count: int = 10, queues: int = 1, tags: tuple[str, ...] = ("",)
) -> tuple[BrokerHarness, Client]:
    """Messages 0..count in each queue, side by side in the log; tags take turns."""
    harness = BrokerHarness()
    harness.topic("T", queues)
    client = harness.client()
    for n, queue_id in product(range(count), range(queues)):
        tag = tags[n % len(tags)]
        properties = {"UNIQ_KEY": f"K{n}", **({"TAGS": tag} if tag else {})}
        client.put(send(b"%d" % n, queue_id=queue_id, properties=properties))
    harness.turn()
    client.take()
    return harness, client


def test_all_of_a_queue_in_one_answer() -> None:
    _, client = filled(queues=2)
    for queue_id in (0, 1):
        answer = client.ask(ask(queueId=queue_id))
        assert bodies(answer) == [b"%d" % n for n in range(10)]
        assert bounds(answer) == (10, 0, 10)
        assert "brokerEpoch" not in ext(answer)


def test_the_bytes_are_those_of_a_pull() -> None:
    harness, client = filled(queues=3)
    found = harness.store.read_queue("T", 1, 0, 100, 1 << 20)
    assert client.ask(ask(queueId=1)).body == b"".join(found.chunks)


@pytest.mark.skipif(library.library() is None, reason=library.which())
def test_bodies_may_be_left_out() -> None:
    _, client = filled(queues=2)
    whole = client.ask(ask(queueId=1))
    bare = client.ask(ask(queueId=1, withoutBodies="true"))
    assert (bare.code, bounds(bare)) == (whole.code, bounds(whole))
    assert bodies(bare) == [b""] * 10
    assert [m.properties for m in decode_all(bare.body)] == [
        m.properties for m in decode_all(whole.body)
    ]
    assert len(bare.body) == len(whole.body) - 10
    assert client.ask(ask(queueId=1, withoutBodies="false")).body == whole.body


def test_without_native_code_bodies_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_read, "_bare", lambda: None)
    _, client = filled()
    assert client.ask(ask(withoutBodies="true")).body == client.ask(ask()).body


def test_nothing_there_yet_and_offsets_out_of_range() -> None:
    harness, client = filled()
    answer = client.ask(ask(offset=10))
    assert (answer.code, bounds(answer)) == (ResponseCode.PULL_NOT_FOUND, (10, 0, 10))
    answer = client.ask(ask(offset=11))
    assert (answer.code, bounds(answer)) == (ResponseCode.PULL_OFFSET_MOVED, (10, 0, 10))
    answer = client.ask(ask(offset=-1))
    assert (answer.code, bounds(answer)) == (ResponseCode.PULL_OFFSET_MOVED, (0, 0, 10))
    harness.topic("E")
    assert client.ask(ask(topic="E")).code == ResponseCode.PULL_NOT_FOUND
    assert client.ask(ask(topic="E", offset=3)).code == ResponseCode.PULL_OFFSET_MOVED


def test_an_end_is_not_read_beyond() -> None:
    _, client = filled(tags=("a", "b"))
    answer = client.ask(ask(offset=2, endOffset=5))
    assert bodies(answer) == [b"2", b"3", b"4"]
    assert bounds(answer) == (5, 0, 10)
    answer = client.ask(ask(offset=1, endOffset=8, tags="a"))
    assert bodies(answer) == [b"2", b"4", b"6"]
    assert bounds(answer) == (8, 0, 10)
    answer = client.ask(ask(offset=5, endOffset=5))
    assert (bodies(answer), bounds(answer)) == ([], (5, 0, 10))
    assert bodies(client.ask(ask(offset=8, endOffset=100))) == [b"8", b"9"]


def test_bytes_are_bounded_but_one_record_always_comes() -> None:
    harness, client = filled()
    size = size_at(harness.store.read_queue("T", 0, 0, 1, 1).chunks[0], 0)
    assert bodies(client.ask(ask(maxBytes=1))) == [b"0"]
    assert bodies(client.ask(ask(maxBytes=3 * size))) == [b"0", b"1", b"2"]
    assert bodies(client.ask(ask(maxBytes=4 * size - 1))) == [b"0", b"1", b"2"]
    refused = client.ask(ask(maxBytes=0))
    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert "maxBytes 0" in (refused.remark or "")


def test_more_records_than_one_look_at_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_read, "STEP_UNITS", 3)
    _, client = filled(20, tags=("a", "b", "b", "b", "b"))
    assert bodies(client.ask(ask())) == [b"%d" % n for n in range(20)]
    assert bodies(client.ask(ask(tags="a"))) == [b"0", b"5", b"10", b"15"]


def test_a_large_record_behind_small_ones_begins_the_next_answer() -> None:
    harness = BrokerHarness()
    harness.topic("T", 1)
    client = harness.client()
    client.put(send(b"s"), send(b"L" * 5000), send(b"t"))
    harness.turn()
    client.take()
    answer = client.ask(ask(maxBytes=1000))
    assert (bodies(answer), bounds(answer)[0]) == ([b"s"], 1)
    answer = client.ask(ask(offset=1, maxBytes=1000))
    assert (bodies(answer), bounds(answer)[0]) == ([b"L" * 5000], 2)


def test_one_request_looks_at_a_bounded_number_of_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BULK_READ_RECORDS_MAX", 6)
    monkeypatch.setattr(bulk_read, "STEP_UNITS", 2)
    monkeypatch.setattr("epochmq.store.read.SCAN_UNITS_MIN", 1)
    _, client = filled(20, tags=("a",))
    assert bounds(client.ask(ask()))[0] == 6
    answer = client.ask(ask(tags="z"))
    assert (bodies(answer), bounds(answer)[0]) == ([], 6)
    answer = client.ask(ask(tags="z", offset=18))
    assert (bodies(answer), bounds(answer)) == ([], (20, 0, 20))


def test_tags_are_compared_since_hashes_collide() -> None:
    _, client = filled(6, tags=COLLIDING)
    assert bodies(client.ask(ask(tags="Aa"))) == [b"0", b"2", b"4"]
    assert bodies(client.ask(ask(tags="BB || Zz"))) == [b"1", b"3", b"5"]
    assert bodies(client.ask(ask(tags="*"))) == [b"%d" % n for n in range(6)]
    assert client.ask(ask(tags=" || ")).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_records_that_hold_many_messages() -> None:
    harness = BrokerHarness()
    harness.topic("T", 1, attributes={"queue.type": "BatchCQ"})
    client = harness.client()
    for first in (0, 3, 6):
        body = batch.encode(Message("T", b"%d" % (first + n)) for n in range(3))
        client.ask(send(body, code=Code.SEND_BATCH_MESSAGE))
    answer = client.ask(ask(offset=4, endOffset=7))
    found: list[StoredMessage] = decode_all(answer.body)
    assert [message.queue_offset for message in found] == [3, 6]
    assert bounds(answer) == (9, 0, 9)


def test_nothing_beyond_what_is_readable() -> None:
    harness = BrokerHarness(flush_disk_type="SYNC_FLUSH")
    harness.topic("T", 1)
    client = harness.client()
    client.put(send(b"x"))
    harness.turn()
    answer = client.ask(ask())
    assert (answer.code, bounds(answer)) == (ResponseCode.PULL_NOT_FOUND, (0, 0, 0))
    harness.store.sync()
    client.take()
    assert bodies(client.ask(ask())) == [b"x"]


@pytest.mark.parametrize(
    ("role", "slave_read", "code"),
    [
        (Role.FENCED, True, 2),
        (Role.PRE_ONLINE, True, 2),
        (Role.LEARNER, True, 2),
        (Role.SLAVE, False, 2),
        (Role.SLAVE, True, 0),
        (Role.MASTER, False, 0),
    ],
)
def test_which_roles_may_be_read(role: Role, slave_read: bool, code: int) -> None:
    harness = BrokerHarness(slave_read_enable=slave_read)
    harness.topic("T", 1)
    client = harness.client()
    client.ask(send(b"x"))
    become(harness.node, role)
    assert client.ask(ask()).code == code


def test_refusals() -> None:
    harness, client = filled()
    harness.topic("W", perm=2)
    assert client.ask(ask(topic="Nope")).code == ResponseCode.TOPIC_NOT_EXIST
    assert client.ask(ask(topic="W")).code == ResponseCode.NO_PERMISSION
    for queue_id in (-1, 1):
        assert client.ask(ask(queueId=queue_id)).code == ResponseCode.INVALID_PARAMETER
    missing = client.ask(Command(Code.BULK_READ, ext={"topic": "T"}))
    assert missing.code == ResponseCode.SYSTEM_ERROR
    assert harness.client(fast_port=True).ask(ask()).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_a_client_that_reads_no_answers_gets_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    harness, client = filled()
    whole = len(client.ask(ask()).body)
    monkeypatch.setattr(limits, "BULK_UNSENT_BYTES_MAX", 4 * whole)
    client.put(*(ask(maxBytes=whole) for _ in range(10)))
    harness.turn()
    assert client.session.outbox_bytes < 5 * whole
    codes = [answer.code for answer in client.take()]
    assert codes == [0] * 3 + [ResponseCode.FLOW_CONTROL] * 7
    assert bodies(client.ask(ask(maxBytes=whole)))


def test_it_is_counted() -> None:
    harness, client = filled()
    client.ask(ask())
    assert harness.node.stats.get_found.total == 10


@settings(max_examples=examples(60))
@given(
    tags=st.lists(st.sampled_from(["", "a", "b", *COLLIDING]), min_size=1, max_size=40),
    wanted=st.sampled_from(["*", "a", "a || BB", "Aa"]),
    size=st.integers(1, 2000),
    step=st.integers(1, 7),
    end=st.none() | st.integers(0, 45),
)
def test_reading_on_gives_each_record_once(
    tags: list[str], wanted: str, size: int, step: int, end: int | None
) -> None:
    _, client = filled(len(tags), tags=tuple(tags))
    names = set(wanted.replace("||", " ").split())
    stop = len(tags) if end is None else min(end, len(tags))
    expected = [b"%d" % n for n in range(stop) if "*" in names or tags[n] in names]
    found, at = [], 0
    bound = {} if end is None else {"endOffset": end}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_read, "STEP_UNITS", step)
        patch.setattr("epochmq.store.read.SCAN_UNITS_MIN", 1)
        while at < stop:
            answer = client.ask(ask(offset=at, maxBytes=size, tags=wanted, **bound))
            found += bodies(answer)
            assert bounds(answer)[0] > at
            at = bounds(answer)[0]
    assert found == expected
    assert at == stop or not stop


# Records that are not in memory --------------------------------------------------------------


def test_records_that_are_not_in_memory_are_read_by_another_thread() -> None:
    harness, client = filled()
    harness.evict()
    client.put(ask(offset=2))
    harness.turn()
    assert client.take() == []
    harness.read_device()
    (answer,) = client.take()
    assert bodies(answer) == [b"%d" % n for n in range(2, 10)]
    assert bounds(answer) == (10, 0, 10)


def test_an_answer_ends_before_records_that_are_not_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness, client = filled()
    monkeypatch.setattr(bulk_read, "STEP_UNITS", 3)
    second_step = len(client.ask(ask(endOffset=3)).body)
    monkeypatch.setattr(
        SimFile, "is_in_memory", lambda _file, offset, _size: offset in (0, second_step)
    )
    answer = client.ask(ask())
    assert bodies(answer) == [b"%d" % n for n in range(6)]
    assert bounds(answer) == (6, 0, 10)
    assert not harness.held_reads


def test_a_filter_that_matched_nothing_before_cold_records_moves_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness, client = filled(tags=COLLIDING[:1])
    monkeypatch.setattr(bulk_read, "STEP_UNITS", 3)
    monkeypatch.setattr(read, "SCAN_UNITS_MIN", 3)
    monkeypatch.setattr(SimFile, "is_in_memory", lambda _file, offset, _size: offset == 0)
    answer = client.ask(ask(tags=COLLIDING[1]))
    assert (answer.code, bounds(answer)[0]) == (ResponseCode.SUCCESS, 3)
    assert not harness.held_reads


@pytest.mark.parametrize("what", ["closed", "fenced", "deleted"])
def test_what_happens_while_the_device_is_read(what: str) -> None:
    harness, client = filled()
    harness.evict()
    client.put(ask())
    harness.turn()
    if what == "closed":
        client.session.lost()
    elif what == "fenced":
        become(harness.node, Role.FENCED)
    else:
        harness.node.topics.delete("T", harness.clock.wall)
    harness.read_device()
    codes = [answer.code for answer in client.take()]
    expected = {
        "closed": [],
        "fenced": [ResponseCode.SYSTEM_BUSY],
        "deleted": [ResponseCode.TOPIC_NOT_EXIST],
    }
    assert codes == expected[what]
