"""Questions passed on to clients."""

import msgspec
import pytest
from tests.broker.fake_node import HOST, WALL, FakeNode
from tests.broker.fake_session import FakeSession
from tests.broker.requests.helpers import answer, call, json_of

from epochmq.broker.consume.client_tables import ClientMember, Manner
from epochmq.model.message_id import offset_id
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import HELD, Command, decode
from epochmq.wire.frame import FrameReader

INFO = RequestCode.GET_CONSUMER_RUNNING_INFO
CONSUME = RequestCode.CONSUME_MESSAGE_DIRECTLY
STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
ASK = {"consumerGroup": "g", "clientId": "1"}


def join(node: FakeNode, number: int, version: int = 401) -> FakeSession:
    session = FakeSession(number)
    member = ClientMember(session, str(number), "JAVA", version, 0)
    node.consumers.heartbeat("g", member, Manner(), [], notify=False)
    return session


def answered(asker: FakeSession) -> Command:
    """The one response that left for the asker."""
    (frame,) = FrameReader().feed(memoryview(b"".join(map(bytes, asker.pop_outbox()))))
    return decode(frame.header, frame.binary, bytes(frame.body))


def test_running_info_goes_through() -> None:
    node, asker = FakeNode(), FakeSession(9)
    client = join(node, 1)
    header = {**ASK, "jstackEnable": "true"}
    assert call(node, INFO, header, session=asker) is HELD
    ((question, timeout, on_answer),) = client.asked
    assert (question.code, question.ext, timeout) == (307, header, 10_000)
    assert asker.outbox == []
    on_answer(Command(0, remark="fine", ext={"x": "1"}, body=b"{}"))
    response = answered(asker)
    assert (response.code, response.remark, response.ext, response.body) == (
        0,
        "fine",
        {"x": "1"},
        b"{}",
    )


def test_clients_that_do_not_answer() -> None:
    node, asker = FakeNode(), FakeSession(9)
    client = join(node, 1)
    call(node, INFO, ASK, session=asker)
    client.asked[0][2](None)
    assert answered(asker).code == 207
    call(node, INFO, ASK, session=asker)
    client.lost()
    client.asked[1][2](None)
    assert answered(asker).code == 1


def test_clients_that_cannot_be_asked() -> None:
    node = FakeNode()
    assert answer(node, INFO, ASK).remark == "The Consumer <g> <1> not online"
    join(node, 1, version=61)
    assert "too low" in (answer(node, INFO, ASK).remark or "")
    assert answer(node, INFO, {"consumerGroup": "g"}).code == 1


def test_consume_directly() -> None:
    node = FakeNode()
    client = join(node, 1)
    node.fake.put("T", 0, b"hello")
    node.topics.ensure("T", 1, 6, WALL, sys_flag=2)
    node.groups.find("g", WALL)
    header = {**ASK, "msgId": offset_id(HOST, 0), "topic": "T"}
    assert call(node, CONSUME, header) is HELD
    ((question, _, _),) = client.asked
    assert question.ext == {
        **header,
        "brokerName": "b",
        "topicSysFlag": "2",
        "groupSysFlag": "0",
    }
    assert question.body == node.fake.queues["T", 0][0]
    del header["topic"]
    call(node, CONSUME, header)
    assert client.asked[1][0].ext == {**header, "brokerName": "b", "groupSysFlag": "0"}


@pytest.mark.parametrize("message_id", [offset_id(HOST, 999), "not an id", ""])
def test_consume_what_is_not_there(message_id: str) -> None:
    node = FakeNode()
    join(node, 1)
    assert answer(node, CONSUME, {**ASK, "msgId": message_id}).code == 1


def test_consume_by_an_unknown_group_has_no_flag() -> None:
    node = FakeNode()
    client = join(node, 1)
    node.fake.put("T", 0, b"hello")
    call(node, CONSUME, {**ASK, "msgId": offset_id(HOST, 0)})
    ext = client.asked[0][0].ext
    assert ext is not None
    assert "groupSysFlag" not in ext


def test_status_of_all_clients() -> None:
    node, asker = FakeNode(), FakeSession(9)
    clients = [join(node, number) for number in range(1, 5)]
    assert call(node, STATUS, {"group": "g", "topic": "T"}, session=asker) is HELD
    table = {'{"brokerName":"b","queueId":0,"topic":"T"}': 5}
    good = msgspec.json.encode({"messageQueueTable": table})
    # As fastjson writes it: the queue itself is the key.
    java = b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}'
    for client, response in zip(
        clients,
        (Command(0, body=good), Command(0, body=java), Command(0, body=b"{"), None),
        strict=True,
    ):
        ((question, timeout, on_answer),) = client.asked
        assert (question.code, question.ext) == (221, {"group": "g", "topic": "T"})
        assert timeout == 5_000
        assert asker.outbox == []
        on_answer(response)
    body = msgspec.json.decode(answered(asker).body)
    assert body["consumerTable"] == {"1": table, "2": table}


def test_status_of_one_client() -> None:
    node = FakeNode()
    one, two = join(node, 1), join(node, 2)
    header = {"group": "g", "topic": "T", "clientAddr": "2"}
    assert call(node, STATUS, header) is HELD
    assert (len(one.asked), len(two.asked)) == (0, 1)
    assert json_of(answer(node, STATUS, {**header, "clientAddr": "3"}))["consumerTable"] == {}


def test_status_of_nobody() -> None:
    node = FakeNode()
    assert answer(node, STATUS, {"group": "g", "topic": "T"}).code == 1
    join(node, 1, version=27)
    assert answer(node, STATUS, {"group": "g", "topic": "T"}).code == 1
