"""Pulling through the sink: codes and headers, holding, waking, filters, offsets."""

import dataclasses

import pytest
from sim.kernel.disk import SimFile
from tests.broker.broker_harness import BrokerHarness, Client, ext, pull, send

from epochmq.base import limits
from epochmq.broker.consume.client_tables import ClientMember, Manner
from epochmq.model.group import build
from epochmq.model.record import decode_all
from epochmq.model.topic import MessageQueue
from epochmq.store import cold_reads
from epochmq.store.read import GetStatus, ReadResult
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

HOLD = 2 | 4


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness(enable_property_filter=True)
    harness.topic("T")
    return harness


def fill(harness: BrokerHarness, *bodies: bytes, tag: str = "", queue_id: int = 0) -> None:
    client = harness.client()
    client.put(
        *(send(body, queue_id=queue_id, properties={"TAGS": tag} if tag else "") for body in bodies)
    )
    harness.turn()


def bodies(answer: Command) -> list[bytes]:
    return [message.body for message in decode_all(bytes(answer.body))]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("code", [Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE])
def test_messages_come_with_the_four_fields(
    harness: BrokerHarness, code: int, binary: bool
) -> None:
    fill(harness, b"a", b"b", b"c")
    answer = harness.client().ask(pull(offset=1, code=code, binary=binary))
    assert (answer.code, answer.remark, answer.binary) == (0, "FOUND", binary)
    assert bodies(answer) == [b"b", b"c"]
    assert ext(answer) == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "3",
        "minOffset": "0",
        "maxOffset": "3",
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }


@pytest.mark.parametrize(
    ("offset", "code", "status", "next_offset"),
    [
        (3, 19, "OFFSET_OVERFLOW_ONE", "3"),
        (9, 21, "OFFSET_OVERFLOW_BADLY", "3"),
        (-1, 21, "OFFSET_TOO_SMALL", "0"),
    ],
)
def test_offsets_outside_the_queue(
    harness: BrokerHarness, offset: int, code: int, status: str, next_offset: str
) -> None:
    fill(harness, b"a", b"b", b"c")
    answer = harness.client().ask(pull(offset=offset))
    assert (answer.code, answer.remark) == (code, status)
    assert ext(answer)["nextBeginOffset"] == next_offset
    assert (ext(answer)["minOffset"], ext(answer)["maxOffset"]) == ("0", "3")


@pytest.mark.parametrize(("offset", "code"), [(0, 19), (5, 21)])
def test_a_queue_without_messages(harness: BrokerHarness, offset: int, code: int) -> None:
    answer = harness.client().ask(pull(offset=offset, queue_id=3))
    assert answer.code == code
    assert ext(answer)["nextBeginOffset"] == "0"


def test_counts_and_sizes_are_limited() -> None:
    harness = BrokerHarness(max_transfer_bytes_on_message_in_memory=2000)
    harness.topic("T")
    fill(harness, *[b"x" * 100] * 40)
    client = harness.client()
    assert len(bodies(client.ask(pull(count=5)))) == 5
    assert len(bodies(client.ask(pull(count=0)))) == 1
    assert 1 < len(bodies(client.ask(pull(count=1000)))) < 20
    harness = BrokerHarness()
    harness.topic("T")
    fill(harness, *[b"x"] * 300)
    assert len(bodies(harness.client().ask(pull(count=1000)))) == 256


# Holding ---------------------------------------------------------------------------------------


def held(harness: BrokerHarness, client: Client, command: Command) -> None:
    client.put(command)
    harness.turn()
    assert client.take() == []
    assert len(harness.node.long_poll) == 1


def test_a_held_pull_wakes_with_the_append(harness: BrokerHarness) -> None:
    client = harness.client()
    held(harness, client, pull(sys_flag=HOLD))
    fill(harness, b"other queue", queue_id=1)
    assert client.take() == []
    fill(harness, b"a", b"b")
    (answer,) = client.take()
    assert (answer.code, answer.opaque) == (0, 1)
    assert bodies(answer) == [b"a", b"b"]
    assert len(harness.node.long_poll) == 0


def test_a_held_pull_expires(harness: BrokerHarness) -> None:
    fill(harness, b"a")
    client = harness.client()
    held(harness, client, pull(offset=1, sys_flag=HOLD, suspend_ms=3000))
    harness.clock.step(2900)
    harness.sink.pulls.expire(harness.clock.now)
    assert client.take() == []
    harness.clock.step(200)
    harness.sink.pulls.expire(harness.clock.now)
    (answer,) = client.take()
    assert (answer.code, answer.remark) == (19, "OFFSET_OVERFLOW_ONE")
    assert ext(answer)["nextBeginOffset"] == "1"


def test_without_the_suspend_bit_nothing_is_held(harness: BrokerHarness) -> None:
    assert harness.client().ask(pull(sys_flag=4)).code == 19
    assert harness.client().ask(pull(sys_flag=HOLD, suspend_ms=0)).code == 19
    assert harness.client().ask(pull(sys_flag=HOLD, offset=9)).code == 21
    assert len(harness.node.long_poll) == 0


def test_with_long_polling_off_the_wait_is_short() -> None:
    harness = BrokerHarness(long_polling_enable=False, short_polling_time_mills=500)
    harness.topic("T")
    client = harness.client()
    held(harness, client, pull(sys_flag=HOLD))
    harness.clock.step(600)
    harness.sink.pulls.expire(harness.clock.now)
    assert [answer.code for answer in client.take()] == [19]


def test_too_many_waiters_are_answered_at_once(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness.node.long_poll, "hold", lambda *args: False)
    assert harness.client().ask(pull(sys_flag=HOLD)).code == 19


def test_a_closed_connection_waits_no_more(harness: BrokerHarness) -> None:
    client = harness.client()
    held(harness, client, pull(sys_flag=HOLD))
    client.session.lost()
    harness.sink.closed(client.session)
    assert len(harness.node.long_poll) == 0
    fill(harness, b"a")


def test_unwanted_messages_do_not_wake(harness: BrokerHarness) -> None:
    client = harness.client()
    held(harness, client, pull(sys_flag=HOLD, expression="red || blue"))
    fill(harness, b"1", tag="green")
    assert client.take() == []
    fill(harness, b"2", tag="blue")
    (answer,) = client.take()
    assert bodies(answer) == [b"2"]
    assert ext(answer)["nextBeginOffset"] == "2"


def test_unwanted_messages_move_the_offset_of_a_waiting_pull(harness: BrokerHarness) -> None:
    client = harness.client()
    held(harness, client, pull(sys_flag=HOLD, expression="red"))
    fill(harness, *[b"x"] * 900, tag="green")
    (answer,) = client.take()
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert ext(answer)["nextBeginOffset"] == "800"


def test_everybody_is_answered_before_a_stop(harness: BrokerHarness) -> None:
    client = harness.client()
    held(harness, client, pull(sys_flag=HOLD))
    harness.sink.finish(harness.clock.now)
    assert [answer.code for answer in client.take()] == [19]


def test_a_wake_outside_of_a_turn_is_put_off(harness: BrokerHarness) -> None:
    client = harness.client()
    held(harness, client, pull(sys_flag=HOLD))
    harness.sink.pulls.arrived([("T", 0, 1), ("T", 1, 1)])
    assert client.take() == []
    assert len(harness.later) == 1
    harness.later.pop()()
    assert [answer.code for answer in client.take()] == [19]


# Filters ---------------------------------------------------------------------------------------


def test_tags_filter(harness: BrokerHarness) -> None:
    for number, tag in enumerate(("red", "blue", "red", "")):
        fill(harness, b"%d" % number, tag=tag)
    client = harness.client()
    assert bodies(client.ask(pull(expression="red"))) == [b"0", b"2"]
    answer = client.ask(pull(expression="pink"))
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert ext(answer)["nextBeginOffset"] == "4"


def test_sql_filters(harness: BrokerHarness) -> None:
    client = harness.client()
    for size in (1, 5, 9):
        client.put(send(b"%d" % size, properties={"size": str(size)}))
    harness.turn()
    client.take()
    answer = client.ask(pull(expression="size > 3", kind="SQL92"))
    assert bodies(answer) == [b"5", b"9"]
    assert client.ask(pull(expression="size >", kind="SQL92")).code == 23


def test_the_subscription_of_the_heartbeat(harness: BrokerHarness) -> None:
    from epochmq.broker.consume.client_tables import ClientMember, Manner

    client = harness.client()
    fill(harness, b"r", tag="red")
    fill(harness, b"b", tag="blue")
    assert client.ask(pull(sys_flag=0)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    member = ClientMember(client.session, "id", "JAVA", 401, 0)
    wanted = [build("T", "blue", version=5), build("S", "a > 1", "SQL92", 5)]
    harness.node.consumers.heartbeat("G", member, Manner(), wanted)
    assert bodies(client.ask(pull(sys_flag=0, sub_version=5))) == [b"b"]
    stale = client.ask(pull(sys_flag=0, sub_version=6))
    assert stale.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    harness.topic("U")
    harness.topic("S")
    assert client.ask(pull(sys_flag=0, topic="U")).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    unknown = client.ask(pull(sys_flag=0, topic="S", sub_version=5))
    assert unknown.code == ResponseCode.FILTER_DATA_NOT_EXIST


# Offsets ---------------------------------------------------------------------------------------


def test_the_offset_is_committed_once(harness: BrokerHarness) -> None:
    client = harness.client()
    client.put(pull(sys_flag=HOLD | 1, commit=7))
    assert harness.node.offsets.get("G", "T", 0) == 7
    harness.node.offsets.commit("G", "T", 0, 9)
    fill(harness, b"a")
    assert [answer.code for answer in client.take()] == [0]
    assert harness.node.offsets.get("G", "T", 0) == 9


@pytest.mark.parametrize("binary", [False, True])
def test_a_pull_is_served_though_its_offset_cannot_be_kept(
    harness: BrokerHarness,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    binary: bool,
) -> None:
    monkeypatch.setattr(limits, "OFFSET_ROWS_MAX", 0)
    fill(harness, b"a")
    client = harness.client()
    answer = client.ask(pull(sys_flag=4 | 1, commit=1, binary=binary))
    assert bodies(answer) == [b"a"]
    assert harness.node.offsets.get("G", "T", 0) == -1
    client.put(pull(offset=1, sys_flag=HOLD | 1, commit=1, binary=binary))
    assert client.take() == []
    fill(harness, b"b")
    (answer,) = client.take()
    assert bodies(answer) == [b"b"]
    assert caplog.text.count("the table of consumer offsets is full") == 1


def test_a_pull_without_its_lock_commits_nothing(harness: BrokerHarness) -> None:
    """INV-31; the pull itself is served."""
    node, client = harness.node, harness.client()
    node.options = dataclasses.replace(node.options, lock_in_strict_mode=True)
    fill(harness, b"a")
    member = ClientMember(client.session, "paused", "JAVA", 401, 0, 0)
    node.consumers.heartbeat("G", member, Manner(), [build("T", "*")])
    queue = MessageQueue("T", node.options.broker_name, 0)
    node.locks.lock("G", [queue], "next", harness.clock.now)
    assert bodies(client.ask(pull(sys_flag=4 | 1, commit=1))) == [b"a"]
    assert node.offsets.get("G", "T", 0) == -1
    node.locks.unlock("G", [queue], "next")
    client.ask(pull(sys_flag=4 | 1, commit=1))
    assert node.offsets.get("G", "T", 0) == 1


def test_a_negative_offset_is_not_committed(harness: BrokerHarness) -> None:
    harness.client().ask(pull(sys_flag=4 | 1, commit=-7))
    assert harness.node.offsets.get("G", "T", 0) == -1


def test_a_reset_offset_is_carried_by_the_next_pull(harness: BrokerHarness) -> None:
    fill(harness, b"a", b"b", b"c")
    harness.node.offsets.reset("G", "T", 0, 1, 0)
    client = harness.client()
    answer = client.ask(pull(offset=3))
    assert (answer.code, answer.remark) == (21, "OFFSET_RESET")
    assert ext(answer)["nextBeginOffset"] == "1"
    assert bodies(client.ask(pull(offset=1))) == [b"b", b"c"]


def test_a_late_commit_does_not_undo_a_reset(harness: BrokerHarness) -> None:
    """RocketMQ's clients commit the old offset for 10 s more, alone and with other pulls."""
    fill(harness, b"a", b"b", b"c")
    node, client = harness.node, harness.client()
    node.offsets.reset("G", "T", 0, 1, 0)
    assert client.ask(pull(offset=3)).code == 21
    late = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "3"}
    answer = client.ask(Command(Code.UPDATE_CONSUMER_OFFSET, ext=late))
    assert (answer.code, answer.remark) == (0, "Offset has been previously reset")
    client.ask(pull(offset=3, sys_flag=4 | 1, commit=3))
    assert bodies(client.ask(pull(offset=1, sys_flag=4 | 1, commit=3))) == [b"b", b"c"]
    assert node.offsets.get("G", "T", 0) == 1
    client.ask(pull(offset=3, sys_flag=4 | 1, commit=2))
    assert node.offsets.get("G", "T", 0) == 2
    client.ask(Command(Code.UPDATE_CONSUMER_OFFSET, ext=late))
    assert node.offsets.get("G", "T", 0) == 3


def test_a_frame_is_as_long_as_its_chunks(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of records that vanished while it was read must not break the framing."""
    chunk = memoryview(b"0123456789")
    result = ReadResult(GetStatus.FOUND, [chunk], 2, 2, 0, 2, 999)
    monkeypatch.setattr(harness.store, "read_queue", lambda *args, **more: result)
    assert len(harness.client().ask(pull()).body) == 10


def test_a_pull_of_messages_that_are_not_in_memory_does_not_stop_others(
    harness: BrokerHarness,
) -> None:
    fill(harness, b"a", b"b", b"c")
    harness.evict()
    client, other = harness.client(), harness.client()
    client.put(pull(offset=1, sys_flag=1 | 4, commit=1))
    assert client.take() == []
    assert harness.node.offsets.get("G", "T", 0) == 1
    assert other.ask(send(b"d")).code == 0
    harness.read_device()
    (answer,) = client.take()
    assert bodies(answer) == [b"b", b"c", b"d"]
    assert not harness.disk.evicted
    assert bodies(other.ask(pull(offset=0))) == [b"a", b"b", b"c", b"d"]


def test_what_leaves_the_memory_again_is_read_in_the_event_loop(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(harness, b"a")
    harness.evict()
    client = harness.client()
    client.put(pull())
    (read,) = harness.held_reads
    harness.held_reads.clear()
    monkeypatch.setattr(SimFile, "is_in_memory", lambda *_: False)
    read()
    harness.turn()
    assert [bodies(answer) for answer in client.take()] == [[b"a"]]
    assert not harness.held_reads


@pytest.mark.parametrize("what", ["closed", "fenced", "reset"])
def test_what_happens_while_the_device_is_read(harness: BrokerHarness, what: str) -> None:
    fill(harness, b"a", b"b")
    harness.evict()
    client = harness.client()
    client.put(pull())
    if what == "closed":
        client.session.lost()
    elif what == "fenced":
        harness.node.serving.grant_lease(harness.clock.now)
    else:
        harness.node.offsets.reset("G", "T", 0, 1, harness.clock.wall)
    harness.read_device()
    answers = {answer.code: answer for answer in client.take()}
    if what == "closed":
        assert answers == {}
    elif what == "fenced":
        assert list(answers) == [ResponseCode.SYSTEM_BUSY]
    else:
        assert list(answers) == [ResponseCode.PULL_OFFSET_MOVED]
        assert ext(answers[ResponseCode.PULL_OFFSET_MOVED])["nextBeginOffset"] == "1"


def test_only_so_many_pulls_wait_for_the_device(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold_reads, "WAITING_MAX", 2)
    fill(harness, b"a")
    harness.evict()
    clients = [harness.client() for _ in range(4)]
    for client in clients:
        client.put(pull())
    harness.turn()
    assert [len(client.take()) for client in clients] == [0, 0, 1, 1]
    harness.read_device()
    assert [len(client.take()) for client in clients] == [1, 1, 0, 0]
