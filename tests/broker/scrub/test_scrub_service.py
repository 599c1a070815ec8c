"""Groups in one process: a flipped bit is found and repaired by the others, at any of them."""

from typing import Any

import pytest
from tests.broker.group.group import InProcess, put, put_until_stored, until
from tests.store.replicas import log_bytes
from tests.store.store_internals import flip_bit

from epochmq.admin.shared.broker_figures import BrokerFigures as Figures
from epochmq.broker.requests.runtime_info import runtime_info
from epochmq.broker.scrub import scrub_service as peers
from epochmq.broker.server.broker_server import Broker

PLAIN: dict[str, Any] = {"enable_controller_mode": False, "controller_addr": ""}


@pytest.fixture(autouse=True)
def members_are_asked_for_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MEMBERS_MS", 100)


async def filled(group: InProcess, master: Broker) -> Broker:
    """`master` has some messages, which all replicas hold and checksums cover."""
    await put_until_stored(master)
    for number in range(20):
        assert await put(master, b"%04d" % number * 500) == 0
    for broker in group.brokers:
        store = broker.node.store
        end = master.node.store.pointers.appended
        await until(lambda store=store, end=end: store.pointers.confirmed == end)
        store.sync()
        store.checksums.cover(end)
    return master


def rot(broker: Broker, at: int) -> None:
    flip_bit(broker.node.store, at, 8)


@pytest.mark.parametrize("controllers", [True, False], ids=["controllers", "plain"])
async def test_master_and_follower_are_repaired_by_each_other(
    group: InProcess, controllers: bool
) -> None:
    for number in range(2):
        role = "SLAVE" if number else "ASYNC_MASTER"
        plain = {**PLAIN, "broker_role": role, "broker_id": number}
        started = await group.start_broker(number, **({} if controllers else plain))
        group.brokers.append(started)
    master = await filled(group, await group.whole() if controllers else group.brokers[0])
    right = log_bytes(master.node.store)
    for number, broker in enumerate(group.brokers):
        rot(broker, 5000 + number)
        await until(lambda broker=broker: broker.node.store.damage.repaired == 1)
        assert log_bytes(broker.node.store) == right
        figures = runtime_info(broker.node)
        assert (figures["epochmqDamageFound"], figures["epochmqDamageWaiting"]) == ("1", "0")


async def pair(group: InProcess) -> tuple[Broker, Broker]:
    """A master and a follower with the same log of one block, covered by checksums."""
    for number in range(2):
        group.brokers.append(await group.start_broker(number))
    master = await filled(group, await group.whole())
    (follower,) = (one for one in group.brokers if one is not master)
    return master, follower


@pytest.mark.parametrize("rotten", ["master", "follower"])
async def test_a_difference_finds_damage_that_no_checksum_shows(
    group: InProcess, rotten: str
) -> None:
    """As in a log of an older version: only another replica tells, and only its bytes help."""
    master, follower = await pair(group)
    right = log_bytes(master.node.store)
    broken = master if rotten == "master" else follower
    broken.node.store.checksums.forget(0, len(right))
    rot(broken, 5000)
    await until(lambda: broken.node.store.damage.repaired == 1)
    assert log_bytes(broken.node.store) == right
    assert [len(one.node.differences) for one in group.brokers] == [0, 0]
    assert sum(one.node.store.damage.found for one in group.brokers) == 1


async def test_replicas_that_are_both_sure_are_sick(group: InProcess) -> None:
    """A bit of a record's properties is another one, and the checksum says that it always was."""
    master, follower = await pair(group)
    before = log_bytes(master.node.store)
    at = before.index(b"T", 4000 + 88 + 2000) + 3  # behind a topic
    store = follower.node.store
    store.checksums.forget(0, len(before))
    rot(follower, at)
    store.checksums.renew(0, len(before))
    await until(lambda: all(len(one.node.differences) for one in group.brokers))
    for one, other in ((master, follower), (follower, master)):
        figures = runtime_info(one.node)
        assert figures["epochmqReplicaBlocksDiffer"] == "1"
        assert other.node.address in figures["epochmqReplicaFirstDiffers"]
        trouble = Figures("c", "b", 0, one.node.address, figures).trouble
        assert "a block of the log differs" in str(trouble)
        assert one.node.store.damage.found == 0
    assert log_bytes(master.node.store) == before != log_bytes(store)
    store.checksums.forget(0, len(before))
    rot(follower, at)  # as before: somebody put it right
    store.checksums.renew(0, len(before))
    await until(lambda: not any(len(one.node.differences) for one in group.brokers))


async def test_each_replica_is_asked_for_the_bytes(group: InProcess) -> None:
    """The master and one follower have the same damage: only the third replica can help both."""
    for number in range(3):
        group.brokers.append(await group.start_broker(number))
    master = await filled(group, await group.whole())
    right = log_bytes(master.node.store)
    damaged = [master, next(one for one in group.brokers if one is not master)]
    for one in damaged:
        rot(one, 5000)
        rot(one, 9000)  # more than one bit: no broker can mend it alone
    for one in damaged:
        await until(lambda one=one: one.node.store.damage.repaired == 1)
        assert log_bytes(one.node.store) == right


async def test_two_replicas_with_different_damage_in_one_block_help_each_other(
    group: InProcess,
) -> None:
    master, follower = await pair(group)
    right = log_bytes(master.node.store)
    for number, one in enumerate((master, follower)):
        for at in (5000, 5001, 5003):  # more than one bit: no broker can mend it alone
            rot(one, at + 7000 * number)
    for one in (master, follower):
        await until(lambda one=one: one.node.store.damage.repaired >= 1)
        await until(lambda one=one: not one.node.store.damage.ranges)
        assert log_bytes(one.node.store) == right


async def test_a_rotten_master_and_a_new_replica(group: InProcess) -> None:
    """Nobody has to help: the master is repaired by its old replica, and the new one copies."""
    for number in range(2):
        group.brokers.append(await group.start_broker(number))
    master = await filled(group, await group.whole())
    right = log_bytes(master.node.store)
    rot(master, 5000)
    new = await group.start_broker(2)
    group.brokers.append(new)
    await until(lambda: new.node.store.pointers.confirmed == len(right))
    assert log_bytes(new.node.store) == log_bytes(master.node.store) == right
    assert master.node.store.damage.repaired == 1


async def test_a_broker_alone_mends_one_bit(group: InProcess) -> None:
    group.brokers.append(await group.start_broker(0, **PLAIN))
    master = await filled(group, group.brokers[0])
    right = log_bytes(master.node.store)
    rot(master, 5000)
    await until(lambda: master.node.store.damage.repaired == 1)
    assert log_bytes(master.node.store) == right
