"""Looking messages up."""

import pytest
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.fake_session import FakeSession
from tests.broker.requests.helpers import answer, bytes_of, ext_of, json_of

from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.consume.client_tables import ClientMember, Manner
from epochmq.broker.requests import query_handlers
from epochmq.model import record
from epochmq.model.group import build
from epochmq.wire.codes import RequestCode

QUERY = RequestCode.QUERY_MESSAGE
VIEW = RequestCode.VIEW_MESSAGE_BY_ID
UNITS = RequestCode.QUERY_CONSUME_QUEUE
BY_KEY = {"topic": "T", "key": "k", "maxNum": "3", "beginTimestamp": "1", "endTimestamp": "9"}


def with_messages() -> FakeNode:
    node = FakeNode()
    node.topics.ensure("T", 2, 6, WALL)
    node.fake.put("T", 0, *[b"x" * n for n in range(1, 6)], keys=("k",))
    return node


def test_by_key() -> None:
    node = with_messages()
    reply = answer(node, QUERY, BY_KEY)
    assert ext_of(reply) == {
        "indexLastUpdateTimestamp": str(WALL),
        "indexLastUpdatePhyoffset": "77",
    }
    bodies = [message.body for message in record.decode_all(bytes_of(reply))]
    assert bodies == [b"x", b"xx", b"xxx"]
    assert node.fake.asked == [("query", "T", "k", 3, 1, 9)]


@pytest.mark.parametrize(
    ("wanted", "unique", "count"), [("1000", None, 64), ("0", None, 1), ("1", "true", 32)]
)
def test_number_of_messages_is_bounded(wanted: str, unique: str | None, count: int) -> None:
    node = with_messages()
    header = {**BY_KEY, "maxNum": wanted}
    if unique:
        header["_UNIQUE_KEY_QUERY"] = unique
    answer(node, QUERY, header)
    assert node.fake.asked[0][3] == count


def test_no_such_key() -> None:
    reply = answer(with_messages(), QUERY, {**BY_KEY, "key": "other"})
    assert reply.code == 22


def test_an_answer_fits_into_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    node = with_messages()
    size = sum(map(len, node.fake.indexed["T", "k"][:2]))
    monkeypatch.setattr(query_handlers, "_ANSWER_BYTES_MAX", size)
    assert len(bytes_of(answer(node, QUERY, BY_KEY))) == size


def test_view_by_place() -> None:
    node = with_messages()
    second = node.fake.queues["T", 0][1]
    offset = record.offset_at(second, 0)
    assert bytes_of(answer(node, VIEW, {"offset": str(offset)})) == second
    for bad in ("1", "-1", str(2**62), "x"):
        assert answer(node, VIEW, {"offset": bad}).code == 1


def units(node: FakeNode, **more: str) -> dict[str, object]:
    header = {"topic": "T", "queueId": "0", "index": "0", "count": "10", **more}
    body: dict[str, object] = json_of(answer(node, UNITS, header))
    return body


def test_units_of_a_queue() -> None:
    node = with_messages()
    body = units(node, index="1", count="3")
    assert (body["minQueueIndex"], body["maxQueueIndex"]) == (0, 5)
    rows = node.fake.queues["T", 0]
    assert body["queueData"] == [
        {
            "physicOffset": record.offset_at(rows[n], 0),
            "physicSize": len(rows[n]),
            "tagsCode": n + 1,
            "eval": False,
        }
        for n in (1, 2, 3)
    ]
    assert len(units(node)["queueData"]) == 5  # type: ignore[arg-type]
    assert units(node, index="5")["queueData"] == []
    assert units(node, index="-3")["queueData"] == []
    assert units(node, count="-1")["queueData"] == []


def test_neighbours_in_one_view() -> None:
    rows = with_messages().fake.queues["T", 0]
    places = query_handlers._places(memoryview(rows[0] + rows[1]))
    assert places == [(0, len(rows[0])), (len(rows[0]), len(rows[1]))]


def test_no_such_queue() -> None:
    node = FakeNode()
    header = {"topic": "T", "queueId": "0", "index": "0", "count": "10"}
    assert answer(node, UNITS, header).code == 1


def test_what_a_group_would_filter() -> None:
    node = with_messages()
    node.adopt_options(BrokerOptions(enable_property_filter=True))
    assert units(node, consumerGroup="g")["filterData"] == "g@T is not online!"
    wanted = build("T", "a > 1", "SQL92", 5)
    member = ClientMember(FakeSession(), "c", "JAVA", 401, 0)
    node.consumers.heartbeat("g", member, Manner(), [wanted])
    body = units(node, consumerGroup="g")
    assert "filterData" not in body
    assert body["subscriptionData"]["subString"] == "a > 1"  # type: ignore[index]
    node.filters.register("g", [wanted], WALL)
    assert units(node, consumerGroup="g")["filterData"] == "a > 1"
