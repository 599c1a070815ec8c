"""Frames in, answers out: order, news of topics, metadata before answers, garbage."""

import json
from collections.abc import Callable

import pytest
from tests.broker.auth_harness import AuthHarness
from tests.broker.broker_harness import BrokerHarness, ext, pull, send

from epochmq.auth.credentials import Credentials
from epochmq.broker.consume.client_tables import ClientMember, Manner
from epochmq.broker.state.keeper import write_here
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import FLAG_RESPONSE, Command
from epochmq.wire.table_parts import TableParts


class News:
    """Name servers that know only when the test says so."""

    def __init__(self, harness: BrokerHarness) -> None:
        self.ticks: list[int] = []
        self.waiting: list[Callable[[], None]] = []
        self._topics = harness.node.topics

    def tick(self, now: int) -> None:
        self.ticks.append(now)
        self._topics.pop_changed(lambda name: False)

    def when_settled(self, now: int, done: Callable[[], None], within_ms: int = 0) -> None:
        self.waiting.append(done)
        self.tick(now)


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.topic("T")
    harness.node.topics.pop_changed(lambda name: False)
    return harness


def create(topic: str, queues: int = 2) -> Command:
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues),
        "writeQueueNums": str(queues), "perm": "6", "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }  # fmt: skip
    return Command(Code.UPDATE_AND_CREATE_TOPIC, ext=fields)


def test_an_unusual_header_takes_the_long_way_to_the_same_end(harness: BrokerHarness) -> None:
    client = harness.client()
    for command in (send(flag="007"), send(reconsumeTimes=""), send(batch="FALSE")):
        assert client.ask(command).code == 0
    assert len(harness.stored("T")) == 3


def test_a_hot_pull_sees_what_its_session_sent(harness: BrokerHarness) -> None:
    client = harness.client()
    client.put(send(b"mine"), pull())
    harness.turn()
    sent, pulled = client.take()
    assert (sent.opaque, pulled.opaque) == (1, 2)
    assert b"mine" in bytes(pulled.body)


def test_a_one_way_pull_is_not_answered(harness: BrokerHarness) -> None:
    client = harness.client()
    command = pull()
    command.mark_oneway()
    client.put(command)
    harness.turn()
    assert client.take() == []


def test_garbage_cuts_the_connection(harness: BrokerHarness) -> None:
    client = harness.client()
    command = send()
    command.ext = {str(n): "x" for n in range(300)}
    client.put(command)
    assert client.transport.cut_for is not None


def test_nothing_is_handled_after_a_close(harness: BrokerHarness) -> None:
    client = harness.client()
    garbage = send(oneway=True)
    garbage.ext = {str(n): "x" for n in range(300)}
    client.transport.cut = lambda reason: client.session.lost()  # type: ignore[method-assign]
    client.put(send(b"before"), garbage, send(b"after"))
    harness.turn()
    assert [message.body for message in harness.stored("T")] == [b"before"]


def test_a_response_nobody_asked_for_is_dropped(harness: BrokerHarness) -> None:
    client = harness.client()
    client.put(Command(0, opaque=77, flag=FLAG_RESPONSE))
    harness.turn()
    assert client.take() == []


def test_a_closed_connections_client_leaves_its_groups(harness: BrokerHarness) -> None:
    client = harness.client()
    harness.sink.opened(client.session)
    harness.node.consumers.heartbeat(
        "G", ClientMember(client.session, "id", "JAVA", 1, 0), Manner(), []
    )
    client.session.lost()
    harness.sink.closed(client.session)
    assert harness.node.consumers.group("G") is None


def test_a_new_topic_is_saved_and_told_before_its_answer(harness: BrokerHarness) -> None:
    news = harness.sink.registrar = News(harness)
    client = harness.client()
    writes = harness.hold_writes()
    client.put(create("New"))
    harness.turn()
    assert (client.take(), news.waiting) == ([], [])
    write_here(*writes.pop())
    saved = harness.disk.read_file("config/tables.journal")
    assert saved is not None
    assert b'"New"' in saved
    assert client.take() == []
    news.waiting.pop()()
    (answer,) = client.take()
    assert answer.code == 0


@pytest.mark.parametrize("told", [True, False])
def test_nobody_is_answered_for_a_topic_that_a_crash_could_take_away(
    harness: BrokerHarness, told: bool
) -> None:
    """Neither the client that made it, nor one that sends to it; others are."""
    news = harness.sink.registrar = News(harness) if told else None
    maker, other, elsewhere = harness.client(), harness.client(), harness.client()
    writes = harness.hold_writes()
    maker.put(send(topic="New"))
    harness.turn()
    other.put(send(topic="New"))
    elsewhere.put(send(topic="T"))
    harness.turn()
    assert (maker.take(), other.take()) == ([], [])
    assert [answer.code for answer in elsewhere.take()] == [0]
    assert len(writes) == 1
    write_here(*writes.pop())
    assert [answer.code for answer in other.take()] == [0]
    if news is not None:
        assert maker.take() == []
        news.waiting.pop()()
    assert [answer.code for answer in maker.take()] == [0]
    assert other.ask(send(topic="New")).code == 0


def test_what_changes_during_a_write_waits_for_the_next(harness: BrokerHarness) -> None:
    first, second = harness.client(), harness.client()
    writes = harness.hold_writes()
    first.put(send(topic="New"))
    harness.turn()
    second.put(send(topic="Next"))
    harness.turn()
    write_here(*writes.pop(0))
    assert [answer.code for answer in first.take()] == [0]
    assert second.take() == []
    write_here(*writes.pop(0))
    assert [answer.code for answer in second.take()] == [0]


def test_a_new_topic_is_answered_when_replicas_have_it(harness: BrokerHarness) -> None:
    news = harness.sink.registrar = News(harness)
    replica, admin = harness.client(), harness.client()

    def watch() -> Command:
        """Ask with the last stamp and wait; the answer, when there is one."""
        replica.put(Command(Code.GET_ALL_TOPIC_CONFIG, ext=TableParts(bytes, stamp).question(1500)))
        harness.turn()
        return next(iter(replica.take()), Command(0))

    stamp = ext(replica.ask(Command(Code.GET_ALL_TOPIC_CONFIG)))["stamp"]
    assert watch().body == b""
    admin.put(create("New", queues=3))
    harness.turn()
    (tell,) = news.waiting
    tell()
    (told,) = replica.take()
    assert b'"New"' in bytes(told.body)
    assert admin.take() == []
    stamp = ext(told)["stamp"]
    watch()
    assert [answer.code for answer in admin.take()] == [0]
    admin.put(create("Next"))
    harness.sink.closed(replica.session)  # there is nobody to wait for any more
    harness.turn()
    news.waiting[-1]()
    assert [answer.code for answer in admin.take()] == [0]


def test_a_refused_topic_is_answered_at_once(harness: BrokerHarness) -> None:
    harness.sink.registrar = News(harness)
    assert harness.client().ask(create("no good")).code != 0


def test_the_first_send_to_a_topic_is_answered_when_its_topic_is_told(
    harness: BrokerHarness,
) -> None:
    news = harness.sink.registrar = News(harness)
    client, other = harness.client(), harness.client()
    client.put(send(topic="Made"), send())
    other.put(send())
    harness.turn()
    assert len(harness.stored("Made")) == 1
    assert ([answer.code for answer in other.take()], client.take()) == ([0], [])
    (tell,) = news.waiting
    tell()
    assert [answer.code for answer in client.take()] == [0, 0]
    assert client.ask(send(topic="Made")).code == 0
    assert len(news.waiting) == 1


def test_a_groups_first_heartbeat_is_answered_when_its_retry_topic_is_told(
    harness: BrokerHarness,
) -> None:
    news = harness.sink.registrar = News(harness)
    client = harness.client()
    group = {"groupName": "G", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    body = json.dumps({"clientID": "id", "consumerDataSet": [group]}).encode()
    client.put(Command(Code.HEART_BEAT, body=body))
    harness.turn()
    assert "%RETRY%G" in harness.node.topics
    assert client.take() == []
    (tell,) = news.waiting
    tell()
    assert [answer.code for answer in client.take() if answer.is_response] == [0]


def test_a_topic_made_by_a_send_is_told_at_the_turns_end(harness: BrokerHarness) -> None:
    news = harness.sink.registrar = News(harness)
    harness.client().put(send(topic="New"))
    harness.turn()
    assert news.ticks == [harness.clock.now]


def test_a_disk_that_refuses_metadata_is_tried_again(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(harness.disk, "sync_fails", lambda path: "config" in path)
        assert harness.client().ask(send(topic="New")).code == 0
    assert "cannot be saved" in caplog.text
    assert harness.node.topics.dirty
    harness.turn()
    assert not harness.node.topics.dirty


def test_the_fast_port_takes_sends(harness: BrokerHarness) -> None:
    answer = harness.client(fast_port=True).ask(send())
    assert ext(answer)["queueOffset"] == "0"


def test_a_held_pull_ends_with_the_user_that_sent_it() -> None:
    """The user gets no message that arrives after its removal, however long the pull may wait."""
    harness = AuthHarness()
    alice = Credentials("alice", "alice-secret")
    harness.put_user(alice)
    harness.topic("T")
    harness.allow(alice, ("Topic:T", "Sub"), ("Group:G", "Sub"))
    consumer = harness.client()
    held = pull(sys_flag=6)
    alice.sign(held)
    consumer.put(held)
    harness.turn()
    assert consumer.take() == []
    harness.ask(Command(Code.AUTH_DELETE_USER, ext={"username": "alice"}))
    assert [answer.code for answer in consumer.take()] == [ResponseCode.PULL_NOT_FOUND]
    assert harness.ask(send()).code == 0
    assert consumer.take() == []
    again = pull(sys_flag=6)
    alice.sign(again)
    assert consumer.ask(again).code == ResponseCode.NO_PERMISSION


def test_a_consumer_is_known_until_its_connection_is_closed() -> None:
    """Its reads are offered to the native code of pulls."""
    harness = BrokerHarness()
    harness.topic("T")
    client = harness.client()
    client.ask(pull())
    assert client.session.id in harness.sink._pulling
    harness.sink.closed(client.session)
    assert not harness.sink._pulling
