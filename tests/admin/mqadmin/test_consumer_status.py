"""`consumerStatus`."""

from pathlib import Path

import pytest
from tests.admin.world import ONLINE, TOPIC, World

from epochmq.admin.mqadmin.consumer_status import STARTED_MS, STUCK_MS, conclusions, report
from epochmq.model.group import SubscriptionData
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies import runtime_bodies as bodies
from epochmq.wire.bodies.body import mq_map_encode

NOW = 1_795_000_000_000


def test_one_member(world: World) -> None:
    with world.member() as client_id:
        ran = world.mqadmin("consumerStatus", "-g", ONLINE, "-i", client_id)
        stacks = world.mqadmin("consumerStatus", "-g", ONLINE, "-i", client_id, "-s")
    assert ran.lines[0] == "#Consumer Properties#"
    assert f"001 Topic: {'%RETRY%' + ONLINE:<40} ClassFilter: false    SubExpression: *" in ran.out
    for title in ("Subscription", "Offset", "MQ Detail", "Pop Detail", "RT&TPS"):
        assert f"#Consumer {title}#" in ran.lines
    details = [line for line in ran.lines if "ProcessQueueInfo [commitOffset=" in line]
    assert len([line for line in details if line.startswith(f"{TOPIC} ")]) == 2
    assert "#Consumer jstack#" not in ran.lines
    assert "#Consumer jstack#" in stacks.lines


def test_a_file_for_each_member(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with world.member() as client_id:
        lines = world.mqadmin("consumerStatus", "-g", ONLINE, "-b", world.broker).lines
    assert lines[0].split() == ["#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile"]
    number, name, version, path = lines[1].split()
    assert (number, name, version) == ("1", client_id, "V5_0_0")
    assert (tmp_path / path).read_text().startswith("#Consumer Properties#\n")
    assert "Same subscription in the same group of consumer" in lines
    assert "Rebalance OK" in lines


def test_nobody(world: World) -> None:
    assert world.mqadmin("consumerStatus", "-g", "nosuch").code == 5


def info(wanted: str = "*", ordered: bool = False, **queue: int) -> bodies.ConsumerRunningInfo:
    state = bodies.ProcessQueueInfo(**queue)
    return bodies.ConsumerRunningInfo(
        properties={
            bodies.PROP_CONSUME_TYPE: "CONSUME_PASSIVELY",
            bodies.PROP_CONSUME_ORDERLY: str(ordered).lower(),
            bodies.PROP_CONSUMER_START_TIMESTAMP: str(NOW - STARTED_MS - 1),
        },
        subscription_set=[SubscriptionData("T", wanted)],
        mq_table=mq_map_encode([(MessageQueue("T", "b", 0), state)]),
    )


def test_members_that_want_different_messages() -> None:
    said = conclusions({"a": info("x"), "b": info("y")}, NOW)
    assert said[-1] == "WARN: Different subscription in the same group of consumer!!!"
    assert conclusions({"a": info("x"), "b": info("x")}, NOW)[-1] == "Rebalance OK"
    assert conclusions({}, NOW) == []


def test_what_a_member_reports_moves_no_cursor_and_needs_no_number() -> None:
    odd = info("\x1b[2J")
    odd.properties[bodies.PROP_CONSUMER_START_TIMESTAMP] = "yesterday"
    odd.properties["\x1b"] = "\x07"
    odd.status_table["\x1b"] = bodies.ConsumeStatus()
    odd.user_consumer_info["\x1b"] = "\x1b"
    odd.jstack = "\x1b at main"
    odd.mq_table = mq_map_encode([(MessageQueue("\x1b", "\x1b", 0), bodies.ProcessQueueInfo())])
    text = "\n".join([*report(odd), *conclusions({"\x1b": odd}, NOW)])
    assert text.replace("\n", "").isprintable()


def test_a_queue_that_stands_still() -> None:
    late = NOW - STUCK_MS - 1
    (*_, said) = conclusions({"a": info(cached_msg_count=3, last_consume_timestamp=late)}, NOW)
    assert said.startswith("a MessageQueue [topic=T, brokerName=b, queueId=0] can't consume")
    calm = {"a": info(cached_msg_count=0, last_consume_timestamp=late)}
    assert conclusions(calm, NOW)[-1] == "Rebalance OK"


def test_an_ordered_queue_without_its_lock() -> None:
    (*_, said) = conclusions({"a": info(ordered=True, last_lock_timestamp=NOW - 5)}, NOW)
    assert said.endswith("can't lock for a while, 5ms")
    held = {"a": info(ordered=True, locked=True, droped=True, try_unlock_times=2)}
    assert conclusions(held, NOW)[-1].endswith("unlock 2 times, still failed")
