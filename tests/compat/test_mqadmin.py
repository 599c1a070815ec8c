"""Upstream's own ``mqadmin`` (rocketmq-tools 5.3) administers our cluster."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .conftest import had
from .drivers.mqadmin import MqAdmin
from .peers import admin
from .peers.cluster import Cluster
from .peers.process import wait_until
from .peers.records import Record, read_topic

TOPIC, GROUP, MESSAGES = "AdminTopic", "AdminGroup", 6
UNIQUE = "7F0000011678000000006C65DA18%04d"


@dataclass(frozen=True)
class Stage:
    """A cluster with a topic of six messages that a group has read in part."""

    cluster: Cluster
    tool: MqAdmin
    records: dict[str, Record]

    @property
    def at(self) -> str:
        """The options that name the name server and the broker."""
        return f"-n {self.cluster.namesrv_addr} -b {self.cluster.broker_addr}"

    @property
    def names(self) -> str:
        """The option that names the name server."""
        return f"-n {self.cluster.namesrv_addr}"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    broker = cluster.broker_addr
    admin.create_topic(broker, TOPIC)
    admin.set_group(broker, GROUP)
    for i in range(MESSAGES):
        properties = f"KEYS\x01k{i} all\x02UNIQ_KEY\x01{UNIQUE % i}\x02TAGS\x01A"
        admin.send(broker, TOPIC, f"message {i}".encode(), queue=i % 4, properties=properties)
    for queue in range(4):
        admin.commit(broker, TOPIC, GROUP, queue, 1)
    records = {record.text: record for record in read_topic(broker, TOPIC)}
    with had(lambda: MqAdmin(cluster.namesrv_addr)) as tool:
        yield Stage(cluster, tool, records)


def route(stage: Stage, topic: str) -> dict[str, object]:
    """What topicRoute prints: fastjson, with an unquoted integer key."""
    output = stage.tool.run(f"topicRoute {stage.names} -t {topic}")
    text = output[output.index("{\n") :]
    found = json.loads(re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', text))
    assert isinstance(found, dict)
    return found


def test_cluster_list(stage: Stage) -> None:
    (row,) = stage.tool.table(f"clusterList {stage.names}")
    assert row[:4] == ["DefaultCluster", "broker-a", "0", stage.cluster.broker_addr]
    assert re.fullmatch(r"V5_\d_\d", row[4])
    assert re.fullmatch(r"[\d.]+\(\d+,\d+ms\)", row[5])
    assert row[-1] == "true"


def test_cluster_list_totals(stage: Stage) -> None:
    (row,) = stage.tool.table(f"clusterList {stage.names} -m")
    assert row[:2] == ["DefaultCluster", "broker-a"]
    assert int(row[4]) >= MESSAGES


def test_topic_list(stage: Stage) -> None:
    topics = stage.tool.run(f"topicList {stage.names}").split()
    assert {TOPIC, f"%RETRY%{GROUP}", "TBW102", "SCHEDULE_TOPIC_XXXX"} <= set(topics)


def test_topic_route(stage: Stage) -> None:
    assert route(stage, TOPIC) == {
        "brokerDatas": [
            {
                "brokerAddrs": {"0": stage.cluster.broker_addr},
                "brokerName": "broker-a",
                "cluster": "DefaultCluster",
                "enableActingMaster": False,
            }
        ],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": "broker-a",
                "perm": 6,
                "readQueueNums": 4,
                "topicSysFlag": 0,
                "writeQueueNums": 4,
            }
        ],
    }


def test_topic_status(stage: Stage) -> None:
    rows = stage.tool.table(f"topicStatus {stage.names} -t {TOPIC}")
    bounds = [row[:4] for row in rows if row[0] == "broker-a"]
    assert bounds == [["broker-a", str(queue), "0", str(2 - queue // 2)] for queue in range(4)]
    assert all(row[4].startswith(time.strftime("20%y")) for row in rows[:4])


def test_consumer_progress(stage: Stage) -> None:
    output = stage.tool.run(f"consumerProgress {stage.names} -g {GROUP}")
    rows = [line.split() for line in output.splitlines() if line.startswith(TOPIC)]
    assert [row[2:6] for row in rows] == [
        [str(queue), str(2 - queue // 2), "1", str(1 - queue // 2)] for queue in range(4)
    ]
    assert re.search(r"Consume Diff Total: 2\b", output)


def test_query_by_key(stage: Stage) -> None:
    command = f"queryMsgByKey {stage.names} -t {TOPIC} -k "
    wait_until(lambda: UNIQUE % 5 in stage.tool.run(command + "k5"), 10, "the last one indexed")
    assert stage.tool.table(command + "k3") == [[UNIQUE % 3, "3", "0"]]
    # Upstream answers in the order of the log.
    rows = stage.tool.table(command + "all")
    assert [row[0] for row in rows] == [UNIQUE % i for i in range(MESSAGES)]
    assert "query message by key finished, but no message" in stage.tool.run(command + "nobody")


def test_query_by_id(stage: Stage) -> None:
    record = stage.records["message 2"]
    message_id = f"7F000001{stage.cluster.broker_port:08X}{record.offset:016X}"
    output = stage.tool.run(f"queryMsgById {stage.names} -t {TOPIC} -i {message_id}")
    assert re.search(rf"OffsetID:\s+{message_id}", output)
    assert re.search(rf"CommitLog Offset:\s+{record.offset}\b", output)
    assert re.search(r"Queue ID:\s+2\b", output)


def test_query_by_unique_key(stage: Stage) -> None:
    output = stage.tool.run(f"queryMsgByUniqueKey {stage.names} -t {TOPIC} -i {UNIQUE % 4}")
    assert re.search(r"Keys:\s+\[k4 all\]", output)


@pytest.mark.parametrize("target", ["broker", "cluster"])
def test_update_topic(stage: Stage, target: str) -> None:
    name = f"Made_{target}"
    where = stage.at if target == "broker" else f"{stage.names} -c DefaultCluster"
    output = stage.tool.run(f"updateTopic {where} -t {name} -r 3 -w 2")
    assert f"create topic to {stage.cluster.broker_addr} success." in output
    output = stage.tool.run(f"updateTopic {where} -t {name} -r 6 -w 5 -p 4")
    assert "perm=R--" in output
    assert route(stage, name)["queueDatas"] == [
        {
            "brokerName": "broker-a",
            "perm": 4,
            "readQueueNums": 6,
            "topicSysFlag": 0,
            "writeQueueNums": 5,
        }
    ]


def test_delete_topic(stage: Stage) -> None:
    admin.create_topic(stage.cluster.broker_addr, "Doomed")
    output = stage.tool.run(f"deleteTopic {stage.names} -c DefaultCluster -t Doomed")
    assert "delete topic [Doomed] from cluster [DefaultCluster] success." in output
    assert "Doomed" not in stage.tool.run(f"topicList {stage.names}").split()


def test_update_group(stage: Stage) -> None:
    output = stage.tool.run(f"updateSubGroup {stage.at} -g MadeGroup -r 3")
    assert f"create subscription group to {stage.cluster.broker_addr} success." in output
    output = stage.tool.run(f"getConsumerConfig {stage.names} -g MadeGroup")
    assert re.search(r"retryMaxTimes\s+=\s+3\b", output)


def test_reset_offset(stage: Stage) -> None:
    """The group is offline: the tool falls back on the broker's own table."""
    group = admin.set_group(stage.cluster.broker_addr, "Back")
    for queue in range(4):
        admin.commit(stage.cluster.broker_addr, TOPIC, group, queue, 1)
    stage.tool.run(f"resetOffsetByTime {stage.names} -g {group} -t {TOPIC} -s 0")
    offsets = [
        admin.committed(stage.cluster.broker_addr, TOPIC, group, queue) for queue in range(4)
    ]
    assert offsets == [0, 0, 0, 0]


def test_send_and_consume(stage: Stage) -> None:
    admin.create_topic(stage.cluster.broker_addr, "ToolTopic")
    queue = f"{stage.names} -t ToolTopic -b broker-a -i 2"
    (row,) = stage.tool.table(f"sendMessage {queue} -p hello -k key -c TagA")
    assert row[:3] == ["broker-a", "2", "SEND_OK"]
    output = stage.tool.run(f"consumeMessage {queue} -g ToolGroup")
    assert row[3] in output
    assert "KEYS=key" in output


def test_write_permission(stage: Stage) -> None:
    def perms() -> object:
        queues = route(stage, TOPIC)["queueDatas"]
        assert isinstance(queues, list)
        return queues[0]["perm"]

    assert "OK" in stage.tool.run(f"wipeWritePerm {stage.names} -b broker-a")
    assert perms() == 4
    assert "OK" in stage.tool.run(f"addWritePerm {stage.names} -b broker-a")
    assert perms() == 6


def test_broker_status_and_config(stage: Stage) -> None:
    status = stage.tool.run(f"brokerStatus {stage.at}")
    for name in ("bootTimestamp", "brokerVersionDesc", "commitLogMaxOffset", "putTps", "runtime"):
        assert re.search(rf"^{name}\s+:", status, re.MULTILINE), name
    config = stage.tool.run(f"getBrokerConfig {stage.at}")
    assert re.search(r"brokerName\s+=\s+broker-a\b", config)
    assert re.search(rf"listenPort\s+=\s+{stage.cluster.broker_port}\b", config)
