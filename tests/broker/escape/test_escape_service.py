"""An acting master hands over to a living master of another group, over real sockets."""

import asyncio

import pytest
from tests.broker.become import become
from tests.broker.escape.groups import PLAIN, Groups, ask, bodies, found, give
from tests.broker.group.group import log_of, until
from tests.broker.transaction.around import COMMIT, ROLLBACK, end, half

from epochmq.broker.server.broker_server import Broker
from epochmq.broker.serving.roles import Role
from epochmq.model import property_names as prop
from epochmq.model.names import HALF_TOPIC, TIMER_TOPIC
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command


def young(broker: Broker) -> Command:
    """A half message of now: older ones are given up."""
    return half(b"tx", bornTimestamp=broker.node.clock.wall_ms())


def figure(broker: Broker, name: str) -> int:
    return int(broker.escape.figures(broker.node.clock.now_ms())[f"epochmqEscape{name}"])


async def test_delayed_messages_are_handed_over_and_the_own_log_does_not_grow(
    groups: Groups,
) -> None:
    other = await groups.master_of("z")
    # Long enough for 40 sends on a slow machine: the master must not deliver one itself.
    master, slave = await groups.pair(message_delay_level="4s")
    for n in range(40):
        await give(master, b"%02d" % n, properties={"UNIQ_KEY": f"k{n}", prop.DELAY: "1"})
    log = await groups.stand_in(master, slave)
    await until(lambda: len(bodies(other)) == 40)
    assert bodies(other) == [b"%02d" % n for n in range(40)]
    properties = found(other)[0].properties
    assert prop.DELAY not in properties
    assert "__ESCAPE_ID" not in properties
    assert properties[prop.WAIT] == "true"
    await until(lambda: slave.node.schedule.progress()[1] == 40)
    assert log_of(slave) == log
    assert figure(slave, "Stored") == 40
    assert figure(slave, "Waiting") == figure(slave, "InFlight") == figure(slave, "OldestMs") == 0


async def test_with_nobody_alive_they_wait(groups: Groups) -> None:
    master, slave = await groups.pair()
    await give(master, b"one", properties={prop.DELAY: "1"})
    log = await groups.stand_in(master, slave)
    await until(lambda: figure(slave, "Waiting") == 1)
    assert figure(slave, "Masters") == 0
    assert slave.node.schedule.progress()[1] == 0
    other = await groups.master_of("z")
    await until(lambda: bodies(other) == [b"one"])
    await until(lambda: slave.node.schedule.progress()[1] == 1)
    assert log_of(slave) == log


async def test_timed_messages_are_handed_over(groups: Groups) -> None:
    other = await groups.master_of("z")
    master, slave = await groups.pair()
    at = master.node.clock.wall_ms() + 1_500
    await give(master, b"timed", properties={prop.TIMER_DELIVER_MS: str(at)})
    log = await groups.stand_in(master, slave)
    await until(lambda: bodies(other) == [b"timed"])
    assert other.node.clock.wall_ms() >= at
    assert log_of(slave) == log


async def test_a_timed_message_that_is_far_away_goes_on_waiting_elsewhere(groups: Groups) -> None:
    near = {"timer_roll_window_slot": 4}
    other = await groups.master_of("z")
    master, slave = await groups.pair(**near)
    at = master.node.clock.wall_ms() + 8_000
    await give(master, b"far", properties={prop.TIMER_DELIVER_MS: str(at)})
    await groups.stand_in(master, slave)
    await until(lambda: bodies(other, TIMER_TOPIC) == [b"far"])
    (rolled,) = found(other, TIMER_TOPIC)
    assert rolled.queue_id == 0
    assert rolled.properties[prop.TIMER_ROLL_TIMES] == "1"
    assert bodies(other) == []


async def test_a_commit_writes_its_message_at_another_master(groups: Groups) -> None:
    other = await groups.master_of("z")
    master, slave = await groups.pair(transaction_time_out=60_000)
    sent = await ask(master, young(master))
    assert sent.code == ResponseCode.SUCCESS
    log = await groups.stand_in(master, slave)
    await until(lambda: slave.node.transactions.ready)
    answer = await ask(slave, end(sent, COMMIT))
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, answer.remark)
    assert bodies(other) == [b"tx"]
    again = await ask(slave, end(sent, COMMIT))
    assert again.code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR)
    assert bodies(other) == [b"tx"]
    offsets = slave.node.offsets
    await until(lambda: offsets.get("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) == 1)
    assert log_of(slave) == log


async def test_a_silent_half_message_goes_on_at_another_master(groups: Groups) -> None:
    other = await groups.master_of("z")
    master, slave = await groups.pair()
    await ask(master, young(master))
    log = await groups.stand_in(master, slave)
    await until(lambda: bodies(other, HALF_TOPIC) == [b"tx"])
    (kept,) = found(other, HALF_TOPIC)
    assert kept.properties[prop.REAL_TOPIC] == "T"
    assert kept.properties[prop.PGROUP] == "PG"
    offsets = slave.node.offsets
    await until(lambda: offsets.get("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) == 1)
    assert slave.node.transactions.statistics()["handed_over"] == 1
    assert log_of(slave) == log
    assert bodies(other) == []


@pytest.mark.parametrize(("how", "left"), [(COMMIT, [b"tx"]), (ROLLBACK, [])])
async def test_an_end_follows_a_half_message_that_was_handed_over(
    groups: Groups, how: int, left: list[bytes]
) -> None:
    other = await groups.master_of("z")
    master, slave = await groups.pair()
    sent = await ask(master, young(master))
    await groups.stand_in(master, slave)
    await until(lambda: slave.node.transactions.statistics()["handed_over"] == 1)
    await until(lambda: other.node.transactions.statistics()["open"] == 1)
    answer = await ask(slave, end(sent, how))
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, answer.remark)
    assert bodies(other) == left
    await until(lambda: other.node.transactions.statistics()["open"] == 0)
    await other.stop(grace_ms=0)
    gone = await ask(slave, end(sent, how))
    assert gone.code == ResponseCode.SYSTEM_ERROR
    assert gone.remark is not None
    assert "handed over" in gone.remark


async def test_what_a_consumer_sends_back_waits_at_another_master(groups: Groups) -> None:
    other = await groups.master_of("z")
    master, slave = await groups.pair()
    await give(master, b"one")
    log = await groups.stand_in(master, slave)
    (message,) = found(slave)
    fields = {"offset": str(message.offset), "group": "G", "delayLevel": "1"}
    answer = await ask(slave, Command(RequestCode.CONSUMER_SEND_MSG_BACK, ext=fields))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    await until(lambda: bodies(other, "%RETRY%G") == [b"one"])
    (copy,) = found(other, "%RETRY%G")
    assert (copy.reconsume_times, copy.properties["RETRY_TOPIC"]) == (1, "T")
    assert copy.properties["REAL_TOPIC"] == "%RETRY%G"  # it has waited there
    assert log_of(slave) == log


async def test_what_is_handed_over_again_is_not_stored_again(groups: Groups) -> None:
    """The acting master died before its progress was saved."""
    others = [await groups.master_of(name) for name in "yz"]
    master, slave = await groups.pair()
    for n in range(20):
        await give(master, b"%02d" % n, properties={"UNIQ_KEY": f"k{n}", prop.DELAY: "1"})
    await groups.stand_in(master, slave)
    await until(lambda: slave.node.schedule.progress()[1] == 20)
    slave.node.schedule.restore({})
    slave.node.schedule.look_again()
    await until(lambda: figure(slave, "Stored") == 40)
    assert sorted(bodies(others[0]) + bodies(others[1])) == [b"%02d" % n for n in range(20)]
    assert all(bodies(other) for other in others)


async def test_what_the_target_cannot_replicate_is_not_held(groups: Groups) -> None:
    """H14; and what is sent again meanwhile is stored once."""
    waits = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "slave_timeout": 100}
    other = await groups.master_of("z", **waits)
    master, slave = await groups.pair()
    await give(master, b"one", properties={"UNIQ_KEY": "k", prop.DELAY: "1"})
    await groups.stand_in(master, slave)
    await until(lambda: figure(slave, "Again") > 0)
    assert figure(slave, "Stored") == 0
    assert slave.node.schedule.progress()[1] == 0
    await groups.slave_of("z")
    await until(lambda: slave.node.schedule.progress()[1] == 1)
    assert bodies(other) == [b"one"]


async def test_the_target_dies_and_another_takes_the_rest(groups: Groups) -> None:
    first = await groups.master_of("y")
    second = await groups.master_of("z")
    master, slave = await groups.pair()
    sent = [b"%03d" % n for n in range(60)]
    for body in sent:
        await give(master, body, properties={"UNIQ_KEY": body.decode(), prop.DELAY: "1"})
    log = await groups.stand_in(master, slave)
    await until(lambda: figure(slave, "Stored") > 0)
    await first.stop(grace_ms=0)
    await until(lambda: slave.node.schedule.progress()[1] == 60)
    groups.brokers[0] = first = await groups.start_broker(0, **PLAIN, broker_name="y")
    held = bodies(first) + bodies(second) + bodies(slave)  # what was due before its master died
    assert sorted(set(held)) == sent
    assert len(held) <= 60 + 32  # what was under way
    assert log_of(slave) == log


async def test_a_former_acting_master_hands_nothing_over(groups: Groups) -> None:
    master, slave = await groups.pair()
    await give(master, b"one", properties={prop.DELAY: "1"})
    await groups.stand_in(master, slave)
    await until(lambda: figure(slave, "Waiting") == 1)
    become(slave.node, Role.SLAVE)
    await until(lambda: figure(slave, "Waiting") == 0)
    other = await groups.master_of("z")
    await asyncio.sleep(0.5)
    assert bodies(other) == []
    assert slave.node.schedule.progress()[1] == 0


async def test_without_the_switch_nothing_escapes_and_nothing_is_skipped(groups: Groups) -> None:
    await groups.master_of("z")
    master, slave = await groups.pair(enable_remote_escape=False)
    await give(master, b"one", properties={prop.DELAY: "1"})
    await groups.stand_in(master, slave)
    await until(lambda: slave.node.schedule.statistics()["failures"] > 0)
    assert slave.node.schedule.progress()[1] == 0
