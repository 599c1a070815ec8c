"""How far topics and groups are."""

import msgspec
import pytest
from tests.broker.broker_harness import BrokerHarness, pull, send
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.fake_session import FakeSession
from tests.broker.requests.helpers import answer, json_of

from epochmq.base import limits
from epochmq.broker.consume.client_tables import ClientMember, Manner
from epochmq.broker.requests.consume_handlers import AllConsumeStats, GroupConsumeStats
from epochmq.model.group import build
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.wire import json_tolerant
from epochmq.wire.bodies.body import queue_key
from epochmq.wire.bodies.group_bodies import ConsumeStats, ConsumeStatsList
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command


def key(queue_id: int, topic: str = "T") -> str:
    return queue_key(MessageQueue(topic, "b", queue_id))


def with_messages() -> FakeNode:
    node = FakeNode()
    node.topics.ensure("T", 2, 6, WALL)
    node.groups.find("g", WALL)
    node.fake.put("T", 0, b"a", b"b", b"c")
    node.offsets.commit("g", "T", 0, 2)
    return node


def join(node: FakeNode, group: str, *topics: str) -> None:
    member = ClientMember(FakeSession(), "c", "JAVA", 401, 0)
    node.consumers.heartbeat(group, member, Manner(), [build(topic, "*") for topic in topics])


def test_topic_stats() -> None:
    node = with_messages()
    config = node.topics.table["T"]
    node.topics.put(msgspec.structs.replace(config, write_queue_nums=3), WALL)
    body = json_of(answer(node, RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"}))
    nothing = {"minOffset": 0, "maxOffset": 0, "lastUpdateTimestamp": 0}
    assert body["offsetTable"] == {
        key(0): {"minOffset": 0, "maxOffset": 3, "lastUpdateTimestamp": WALL + 2000},
        key(1): nothing,
        key(2): nothing,
    }
    assert body["topicPutTps"] == 0.0
    assert answer(node, RequestCode.GET_TOPIC_STATS_INFO, {"topic": "U"}).code == 17


def test_topic_rates_come_from_the_counters() -> None:
    node = with_messages()
    item = node.stats.item("TOPIC_PUT_NUMS", "T")
    item.sample(0)
    item.value = 50
    item.sample(10_000)
    body = json_of(answer(node, RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"}))
    assert body["topicPutTps"] == 5.0


def test_consume_stats() -> None:
    node = with_messages()
    body = json_of(answer(node, RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}))
    assert body["offsetTable"] == {
        key(0): {
            "brokerOffset": 3,
            "consumerOffset": 2,
            "pullOffset": 2,
            "lastTimestamp": WALL + 1000,
            "oldestTimestamp": WALL + 2000,
        },
        key(1): {"brokerOffset": 0, "consumerOffset": 0, "pullOffset": 0, "lastTimestamp": 0},
    }
    assert body["consumeTps"] == 0.0
    node.offsets.commit("g", "T", 0, 3)
    body = json_of(answer(node, RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}))
    assert "oldestTimestamp" not in body["offsetTable"][key(0)]


def test_the_stats_of_a_group_are_the_same_in_any_steps() -> None:
    node = with_messages()
    topics = [f"T{number}" for number in range(20)]
    for topic in topics:
        node.topics.ensure(topic, 3, 6, WALL)
        node.fake.put(topic, 1, b"a", b"b")
        node.offsets.commit("g", topic, 1, 1)
    whole = GroupConsumeStats(node, "g", [*topics, "gone"])
    assert whole.step(10_000)
    for items in (1, 7, 50):
        stepwise, steps = GroupConsumeStats(node, "g", [*topics, "gone"]), 1
        while not stepwise.step(items):
            steps += 1
        assert stepwise.result == whole.result
        assert steps >= 20 * 3 // (items + 4)
    assert isinstance(whole.result, ConsumeStats)
    assert len(whole.result.offset_table) == 60


def test_statistics_that_do_not_fit_into_an_answer_are_refused_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "FRAME_BYTES_MAX", 4_000)
    node = with_messages()
    for number in range(100):
        node.topics.ensure(f"T{number}", 3, 6, WALL)
        node.offsets.commit("g", f"T{number}", 1, 1)
    for code, ext in (
        (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}),
        (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
    ):
        refused = answer(node, code, ext)
        assert refused.code == 1
        assert "does not fit into an answer" in (refused.remark or "")
    search = GroupConsumeStats(node, "g", sorted(node.offsets.topics_of("g")))
    steps = 1
    while not search.step(9):
        steps += 1
    assert steps < 10


def test_which_topics_consume_stats_are_of() -> None:
    node = with_messages()
    node.topics.ensure("U", 1, 6, WALL)
    node.offsets.commit("g", "U", 0, 0)
    node.offsets.commit("g", "GONE", 0, 0)

    def topics(**header: str) -> set[str]:
        asked = {"consumerGroup": "g", **header}
        body = json_of(answer(node, RequestCode.GET_CONSUME_STATS, asked))
        return {msgspec.json.decode(name)["topic"] for name in body["offsetTable"]}

    assert topics() == {"T", "U"}
    assert topics(topic="U") == {"U"}
    join(node, "g", "T")
    # An online group is asked only about what it subscribes to, unless topics are named.
    assert topics() == {"T"}
    assert topics(topic="U") == set()
    assert topics(topicList="U;T;") == {"T", "U"}


def test_stats_of_all_groups() -> None:
    node = with_messages()
    node.topics.put(TopicConfig(topic_name="O", write_queue_nums=1, order=True), WALL)
    node.offsets.commit("g", "O", 0, 0)
    node.offsets.commit("unknown", "T", 0, 0)

    def rows(ordered: str) -> tuple[int, int]:
        header = {"isOrder": ordered}
        body = json_of(answer(node, RequestCode.GET_BROKER_CONSUME_STATS, header))
        assert body["brokerAddr"] == "127.0.0.1:10911"
        (mine,) = [row["g"] for row in body["consumeStatsList"] if "g" in row]
        return len(mine), body["totalDiff"]

    assert rows("false") == (2, 1)
    assert rows("true") == (1, 0)


def test_stats_of_many_groups_are_computed_in_steps() -> None:
    node = with_messages()
    for group in range(20):
        node.groups.find(f"g{group}", WALL)
        for topic in range(group % 4):
            name = f"T{topic}"
            node.topics.put(TopicConfig(topic_name=name, write_queue_nums=3), WALL)
            node.offsets.commit(f"g{group}", name, 0, 0)
    at_once = AllConsumeStats(node, ordered_only=False)
    assert at_once.step(10_000)
    assert isinstance(at_once.result, ConsumeStatsList)
    rows = [row for groups in at_once.result.consume_stats_list for row in groups.values()]
    assert sum(map(len, rows)) == 1 + 5 * (1 + 2 + 3)
    for items in (1, 4, 10):
        stepwise = AllConsumeStats(node, ordered_only=False)
        steps, before = 0, 0
        is_over = False
        while not is_over:
            is_over = stepwise.step(items)
            assert isinstance(stepwise.result, ConsumeStatsList)
            found = stepwise.result.consume_stats_list
            queues = sum(
                len(stats.offset_table) for row in found for one in row.values() for stats in one
            )
            assert queues - before <= items + 3
            steps, before = steps + 1, queues
        assert steps > 60 // (items + 3)
        assert stepwise.result == at_once.result


def test_stats_of_all_groups_while_groups_and_topics_are_deleted() -> None:
    node = with_messages()
    for topic in ("U", "V"):
        node.topics.put(TopicConfig(topic_name=topic, write_queue_nums=1), WALL)
        node.offsets.commit("g", topic, 0, 0)
    search = AllConsumeStats(node, ordered_only=False)
    assert not search.step(1)
    node.topics.delete("V", WALL)
    node.groups.delete("g", WALL)
    while not search.step(1):
        pass
    assert isinstance(search.result, ConsumeStatsList)
    (mine,) = [row["g"] for row in search.result.consume_stats_list if "g" in row]
    assert len(mine) == 2


def test_time_spans() -> None:
    node = with_messages()
    node.fake_clock.wall = WALL + 10_000
    header = {"topic": "T", "group": "g"}
    body = json_of(answer(node, RequestCode.QUERY_CONSUME_TIME_SPAN, header))
    first, second = body["consumeTimeSpanSet"]
    assert first == {
        "messageQueue": {"topic": "T", "brokerName": "b", "queueId": 0},
        "minTimeStamp": WALL,
        "maxTimeStamp": WALL + 2000,
        "consumeTimeStamp": WALL + 1000,
        "delayTime": 8000,
    }
    assert (second["minTimeStamp"], second["maxTimeStamp"], second["delayTime"]) == (-1, -1, 0)
    unknown = {"topic": "U", "group": "g"}
    assert answer(node, RequestCode.QUERY_CONSUME_TIME_SPAN, unknown).code == 17


def test_what_is_pulled_and_not_consumed_is_in_flight() -> None:
    """`#Inflight` of consumerProgress: what was handed out less what was committed."""
    harness = BrokerHarness()
    harness.topic("T", queues=1)
    client = harness.client()
    client.put(*(send(b"x") for _ in range(5)))
    client.put(pull(count=3))
    harness.turn()

    def row() -> tuple[int, int, int]:
        ask = Command(RequestCode.GET_CONSUME_STATS, ext={"consumerGroup": "G", "topic": "T"})
        table = json_tolerant.loads(bytes(client.ask(ask).body))["offsetTable"]
        (found,) = table.values()
        return found["brokerOffset"], found["consumerOffset"], found["pullOffset"]

    client.take()
    assert row() == (5, 0, 3)
    client.put(pull(offset=3, commit=3, sys_flag=1 | 4))
    harness.turn()
    client.take()
    assert row() == (5, 3, 5)
    harness.node.stats.forget_pulled("T", "G")
    assert row() == (5, 3, 3)
