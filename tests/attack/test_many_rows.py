"""A broker with thousands of topics and offsets: requests about them do not hold the event loop."""

import json
from pathlib import Path

import pytest
from tests.attack.server import Server, frame, running_broker

from epochmq.wire.codes import RequestCode as Code

pytestmark = pytest.mark.process

TOPICS = 3_000
GROUPS = 20
QUEUES = 16
REQUESTS = [
    (Code.GET_CONSUME_STATS, {"consumerGroup": "g0"}),
    (Code.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "t1"}),
    (Code.QUERY_TOPICS_BY_CONSUMER, {"group": "g1"}),
    (Code.QUERY_CORRECTION_OFFSET, {"topic": "t1", "filterGroups": "", "compareGroup": "g1"}),
    (Code.CLONE_GROUP_OFFSET, {"srcGroup": "g1", "destGroup": "copied", "offline": "true"}),
    (Code.DELETE_TOPIC_IN_BROKER, {"topic": "t5"}),
    (Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g3", "cleanOffset": "true"}),
    (Code.GET_ALL_CONSUMER_OFFSET, {"inParts": "true"}),
    (Code.GET_ALL_TOPIC_CONFIG, {"inParts": "true"}),
]


def fill(broker: Server) -> None:
    with broker.line() as line:
        for start in range(0, TOPICS, 1_000):
            configs = [
                {
                    "topicName": f"t{n}",
                    "readQueueNums": QUEUES,
                    "writeQueueNums": QUEUES,
                    "perm": 6,
                }
                for n in range(start, start + 1_000)
            ]
            body = json.dumps({"topicConfigList": configs}).encode()
            assert line.call(Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, body).code == 0
        offsets = [
            {"consumerGroup": f"g{group}", "topic": f"t{topic}", "queueId": 0, "commitOffset": 1}
            for topic in range(TOPICS)
            for group in range(GROUPS)
        ]
        one_way = [frame(Code.UPDATE_CONSUMER_OFFSET, offset, flag=2) for offset in offsets]
        line.sock.sendall(b"".join(one_way))
        while line.call(Code.QUERY_CONSUMER_OFFSET, {**offsets[-1]}).code != 0:
            pass


def test_requests_about_all_of_them(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        fill(broker)
        with broker.line() as line, broker.check_turns(100):
            for code, ext in REQUESTS:
                answer = line.call(code, ext)
                assert answer.code == 0, (code, answer.remark)
                if code == Code.GET_CONSUME_STATS:
                    assert len(json.loads(answer.body)["offsetTable"]) == TOPICS * QUEUES
