"""Popped messages of an acting master: check points at another master, bodies from here."""

import asyncio
from typing import Any

from tests.broker.escape.groups import PLAIN, Groups, ask, bodies, give
from tests.broker.group.group import log_of, until
from tests.broker.pop_harness import Popped, ack, hide, pop, popped

from epochmq.broker.pop.pop_records import REVIVE_GROUP
from epochmq.broker.pop.receipt_handle import parse_handle
from epochmq.broker.server.broker_server import Broker
from epochmq.broker.serving.roles import Role
from epochmq.model.revive_routing import PIN_STEP, place_of
from epochmq.wire.codes import ResponseCode

RETRY = "%RETRY%G_T"
REVIVE = "rmq_sys_REVIVE_LOG_c"


async def take(broker: Broker, **more: Any) -> list[Popped]:
    """Pop until something is given out: at first nobody knows the living masters."""
    found: list[Popped] = []

    async with asyncio.timeout(10):
        while not found:
            found += popped(await ask(broker, pop(**more)))
            await asyncio.sleep(0.02)
    return found


async def three(groups: Groups, *sent: bytes) -> tuple[Broker, Broker, Broker]:
    """(another group's master that has the topic, the master with messages, its slave)."""
    other = await groups.master_of("z")
    await give(other, b"made", topic="T")
    master, slave = await groups.pair("b")
    for body in sent:
        await give(master, body, queue_id=0)
    return other, master, slave


async def test_what_nobody_acknowledges_comes_back_at_the_other_group(groups: Groups) -> None:
    other, master, slave = await three(groups, b"one", b"two")
    log = await groups.stand_in(master, slave)
    first, second = await take(slave, invisible_ms=1_500)
    handle = parse_handle(first.handle)
    assert handle.revive_queue_id // PIN_STEP == place_of("z")
    answer = await ask(slave, ack(first))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    await until(lambda: bodies(other, RETRY) == [second.body])
    assert slave.node.offsets.get("G", "T", 0) == 2
    assert log_of(slave) == log
    assert other.node.pop.driver.statistics()["open"] == 0


async def test_it_is_hidden_longer(groups: Groups) -> None:
    other, master, slave = await three(groups, b"one")
    await groups.stand_in(master, slave)
    (one,) = await take(slave, invisible_ms=1_000)
    answer = await ask(slave, hide(one, 3_000))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert answer.ext is not None
    assert int(answer.ext["reviveQid"]) // PIN_STEP == place_of("z")
    at = other.node.clock.now_ms()
    await until(lambda: bodies(other, RETRY) == [b"one"])
    assert other.node.clock.now_ms() - at > 2_000


async def test_an_acknowledgement_after_the_masters_return_finds_its_check_point(
    groups: Groups,
) -> None:
    other, master, slave = await three(groups, b"one")
    await groups.stand_in(master, slave)
    (one,) = await take(slave, invisible_ms=2_500)
    await slave.stop(grace_ms=0)
    again = await groups.start_broker(1, **PLAIN, broker_name="b")
    groups.brokers.append(again)
    answer = await ask(again, ack(one))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    await until(lambda: other.node.pop.driver.statistics()["progress"] > 0)
    await until(lambda: other.node.pop.driver.statistics()["open"] == 0)
    assert bodies(other, RETRY) == []


async def test_older_check_points_are_served_by_the_acting_master(groups: Groups) -> None:
    other, master, slave = await three(groups, b"one", b"two")
    first, second = await take(master, invisible_ms=2_000)
    log = await groups.stand_in(master, slave)
    await until(lambda: slave.node.pop.driver.statistics().get("open") == 1)
    answer = await ask(slave, ack(first))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    await until(lambda: bodies(other, RETRY) == [second.body])
    offsets = slave.node.offsets
    await until(lambda: any(offsets.get(REVIVE_GROUP, REVIVE, n) >= 0 for n in range(8)))
    assert log_of(slave) == log


async def test_with_nobody_to_keep_check_points_a_pop_is_refused(groups: Groups) -> None:
    master, slave = await groups.pair("b")
    await give(master, b"one", queue_id=0)
    log = await groups.stand_in(master, slave)
    answer = await ask(slave, pop())
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert answer.remark is not None
    assert "no living master" in answer.remark
    assert slave.node.serving.role is Role.ACTING_MASTER
    assert log_of(slave) == log
    other = await groups.master_of("z")
    (one,) = await take(slave, invisible_ms=1_000)
    assert one.body == b"one"
    assert "T" in other.node.topics  # so that what comes back is popped there (H17)
    await until(lambda: bodies(other, RETRY) == [b"one"])
