"""Line by line beside RocketMQ's own `mqadmin`, both on RocketMQ's own cluster.

What differs by nature is evened out: figures that move, paths of files, Java's stack traces, the
order of Java's hash maps.
"""

import re
from pathlib import Path

import pytest
from tests.admin.mqadmin.upstream import Command, run_upstream
from tests.admin.world import OFFLINE, ONLINE, TOPIC, World, world_on
from tests.compat.peers.cache import UnavailableError
from tests.compat.peers.java import JavaCluster

pytestmark = [pytest.mark.compat, pytest.mark.slow]

_MOVING = (
    (re.compile(r"(TPS: )\S+"), r"\1#"),
    (re.compile(r"(Message Body Path: ).*"), r"\1#"),
    (re.compile(r"(trackType=UNKNOWN, exceptionDesc=).*"), r"\1#]"),
    (re.compile(r"^See https://.*\n", re.MULTILINE), ""),
    (re.compile(r"(timestamp\(\w+\)\[)\d+"), r"\1#"),
    (re.compile(r"\d+ +\d+\.\d\d +0\.\d{4}(?= +true$)", re.MULTILINE), "# # #"),
    (re.compile(r" +\d+\.\d\d(?=\(0,0ms)"), " #"),
    (re.compile(r"\d+-\d+(?=\(0\.0w)"), "#-#"),
    (re.compile(r"MIN_OFFSET=\d+, |, MAX_OFFSET=\d+"), ""),
    (re.compile(r"spentTimeMills=\d+"), "spentTimeMills=#"),
    (re.compile(r"rt=\d+ms, SendResult=SendResult \[(sendStatus=\w+).*"), r"SendResult \1"),
    (re.compile(r"((?:true|false) +)\d+$", re.MULTILINE), r"\1#"),
    (re.compile(r"Avg RT: .*"), "Avg RT: #"),
    # statsAll: the broker counts in samples of ten seconds, and forgets after a minute.
    (re.compile(r"( \d+ +)\d+\.\d\d +\d+\.\d\d +\d+ +\d+$", re.MULTILINE), r"\1# # # #"),
    (re.compile(r"^producer group \((?:\d+|epochmq-mqadmin|PID_SMSC|CLIENT\w*)\).*\n", re.M), ""),
    (re.compile(r"lastUpdateTimestamp=\d+"), "lastUpdateTimestamp=#"),
    (re.compile(r"PROP_NAMESERVER_ADDR +: .*"), "PROP_NAMESERVER_ADDR: #"),
)


def commands(world: World, client_id: str, files: Path) -> list[Command]:
    """Reading first; none changes what another one prints."""
    (files / "topics.json").write_text('[{"topicName":"l1","readQueueNums":2}]')
    (files / "groups.json").write_text('[{"groupName":"l2","retryMaxTimes":3}]')
    broker, sent = world.broker, world.sent
    return [
        ("clusterList",),
        ("topicRoute", "-t", TOPIC),
        ("topicRoute", "-t", TOPIC, "-l"),
        ("topicStatus", "-t", TOPIC),
        ("consumerProgress", "-g", ONLINE, "-t", TOPIC, "-s", "true"),
        ("consumerConnection", "-g", ONLINE),
        ("queryMsgById", "-t", TOPIC, "-i", sent[0].offset_msg_id),
        ("queryMsgByKey", "-t", TOPIC, "-k", "all"),
        ("queryMsgByOffset", "-t", TOPIC, "-b", "broker-a", "-i", "1", "-o", "1", "-f", "UTF-8"),
        ("queryMsgById", "-t", TOPIC, "-i", sent[1].msg_id, "-g", ONLINE, "-d", client_id),
        ("getBrokerConfig", "-b", broker),
        ("updateTopic", "-c", "DefaultCluster", "-t", "t1", "-o", "true", "-r", "3"),
        ("updateSubGroup", "-b", broker, "-g", "g1"),
        ("setConsumeMode", "-b", broker, "-t", TOPIC, "-g", "g1", "-m", "POP", "-q", "1"),
        ("setConsumeMode", "-c", "DefaultCluster", "-t", TOPIC, "-g", "g1", "-m", "PULL"),
        ("resetOffsetByTime", "-g", OFFLINE, "-t", TOPIC, "-s", "-1"),
        ("skipAccumulatedMessage", "-g", OFFLINE, "-t", TOPIC),
        ("cloneGroupOffset", "-s", ONLINE, "-d", ONLINE, "-t", TOPIC),
        ("getConsumerConfig", "-g", "g1"),
        ("updateOrderConf", "-t", "o1", "-m", "put", "-v", "broker-a:4"),
        ("updateOrderConf", "-t", "o1", "-m", "get"),
        ("updateOrderConf", "-t", "o1", "-m", "delete"),
        ("updateTopicList", "-b", broker, "-f", str(files / "topics.json")),
        ("updateSubGroupList", "-b", broker, "-f", str(files / "groups.json")),
        ("updateNamesrvConfig", "-k", "scanNotActiveBrokerInterval", "-v", "6000"),
        ("updateTopicPerm", "-b", broker, "-t", TOPIC, "-p", "6"),
        ("printMsg", "-t", TOPIC),
        ("printMsg", "-t", TOPIC, "-s", "odd", "-d", "false"),
        ("printMsgByQueue", "-t", TOPIC, "-a", "broker-a", "-i", "1", "-p", "true", "-f", "true"),
        ("statsAll", "-t", TOPIC),
        ("brokerConsumeStats", "-b", broker),
        ("queryCq", "-t", TOPIC, "-q", "1", "-i", "1"),
        ("queryCq", "-t", TOPIC, "-q", "0", "-i", "0", "-c", "1", "-b", broker, "-g", OFFLINE),
        ("producer", "-b", broker),
        ("consumerStatus", "-g", ONLINE, "-i", client_id),
        ("sendMsgStatus", "-b", "broker-a", "-c", "2"),
        ("checkMsgSendRT", "-t", "t1", "-a", "4"),
    ]


def test_the_same_lines(tmp_path: Path) -> None:
    try:
        cluster = JavaCluster()
    except UnavailableError as missing:
        pytest.skip(f"RocketMQ's mqadmin cannot be had: {missing}")
    with world_on(cluster) as world, world.member() as client_id:
        world.wait_consumed(ONLINE)
        asked = commands(world, client_id, tmp_path)
        theirs = run_upstream(asked, cluster.namesrv_addr, tmp_path)
        ours = {command: world.mqadmin(*command) for command in asked}
    wrong = {
        command: (evened(theirs[command]), evened(ran.out))
        for command, ran in ours.items()
        if ran.code or evened(theirs[command]) != evened(ran.out)
    }
    assert not wrong, "\n".join(f"{k}\n{a}\n{b}" for k, (a, b) in wrong.items())


def evened(text: str) -> list[str]:
    """The lines, sorted, without what differs by nature."""
    for pattern, replacement in _MOVING:
        text = pattern.sub(replacement, text)
    return sorted(filter(None, map(_sorted_properties, text.splitlines())))


def _sorted_properties(line: str) -> str:
    if not line.startswith("Properties:"):
        return line.rstrip()
    return ", ".join(sorted(line.partition("{")[2].rstrip("}").split(", ")))
