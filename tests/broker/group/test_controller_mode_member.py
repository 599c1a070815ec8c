"""Whole groups in one process: elections, replication, failover, leases, metadata."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.broker_harness import pull, send
from tests.broker.client import RawClient
from tests.broker.group.group import (
    HOST,
    InProcess,
    bodies,
    log_of,
    put,
    put_under_lease,
    put_until_stored,
    until,
)

from epochmq.base.ports import Clock
from epochmq.broker.context.broker_problem import any_problem_of
from epochmq.broker.group import controller_mode_member as service
from epochmq.broker.group.broker_identity import UNCLEAN
from epochmq.broker.group.controller_mode_member import ControllerModeMember
from epochmq.broker.server.broker_server import Broker
from epochmq.broker.serving.roles import HELD_MASTER, Role
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.record import decode_all
from epochmq.runtime.own_host import boot_id
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.controller_bodies import EpochEntryCache, HARuntimeInfo
from epochmq.wire.bodies.namesrv_bodies import KVTable
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command

ALL_ACK = {"all_ack_in_sync_state_set": True}


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[InProcess]:
    made = InProcess(tmp_path)
    try:
        yield made
    finally:
        await made.stop()


async def ask(broker: Broker, code: int, **ext: Any) -> Command:
    client = await RawClient.connect(broker.port)
    try:
        return await client.ask(Command(code, ext={k: str(v) for k, v in ext.items()}))
    finally:
        await client.close()


async def test_three_brokers_become_a_group(group: InProcess) -> None:
    await group.start(**ALL_ACK)
    master = await group.whole()
    slaves = [one for one in group.brokers if one is not master]
    assert {one.node.serving.role for one in slaves} == {Role.SLAVE}
    await until(lambda: len(group.route()) == 3)
    route = group.route()
    assert route[0] == master.node.address
    for slave in slaves:
        assert route[slave.node.group_position.own_id] == slave.node.address
    await put_until_stored(master, b"one")
    for slave in slaves:
        await until(lambda slave=slave: bodies(slave) == [b"one"])
        assert log_of(slave) == log_of(master)
    cache = decode_body(
        EpochEntryCache, (await ask(master, RequestCode.GET_BROKER_EPOCH_CACHE)).body
    )
    assert [entry.epoch for entry in cache.epoch_list] == [1]
    assert cache.broker_id == master.node.group_position.own_id
    info = decode_body(HARuntimeInfo, (await ask(master, RequestCode.GET_BROKER_HA_STATUS)).body)
    assert (info.master, info.in_sync_slave_nums) == (True, 2)
    table = decode_body(KVTable, (await ask(slaves[0], RequestCode.GET_BROKER_RUNTIME_INFO)).body)
    assert table.table["epochmqRole"] == "SLAVE"
    assert table.table["epochmqMasterEpoch"] == "1"


async def test_a_replica_whose_log_does_not_fit_says_so(group: InProcess) -> None:
    await group.start(**ALL_ACK)
    master = await group.whole()
    slave = next(one for one in group.brokers if one is not master)
    # A replica hears from a controller that it is in the set, after its master.
    await until(lambda: not any_problem_of(master.node) and not any_problem_of(slave.node))
    assert isinstance(slave.member, ControllerModeMember)
    follower = slave.member.replication.node.follower
    assert follower is not None
    follower.suspend("the logs differ from offset 7 on", [])
    assert any_problem_of(slave.node) == "nothing is copied: the logs differ from offset 7 on"


async def test_the_master_leaves_and_comes_back_as_a_replica(group: InProcess) -> None:
    await group.start(**ALL_ACK)
    first = await group.whole()
    await put_until_stored(first, b"one")
    number = group.brokers.index(first)
    await first.stop(grace_ms=0)
    group.brokers.remove(first)
    second = await group.master()
    await until(lambda: group.route().get(0) == second.node.address)
    await put_until_stored(second, b"two")
    assert bodies(second) == [b"one", b"two"]
    assert second.node.group_position.epoch == 2
    back = await group.start_broker(number, **ALL_ACK)
    group.brokers.append(back)
    await group.whole()
    assert back.node.serving.role is Role.SLAVE
    assert back.node.group_position.own_id == first.node.group_position.own_id
    await put_until_stored(second, b"three")
    await until(lambda: bodies(back) == [b"one", b"two", b"three"])
    assert log_of(back) == log_of(second)


async def test_a_lone_broker_gets_a_fresh_epoch_at_each_start(group: InProcess) -> None:
    await group.start(brokers=1)
    for epoch in (1, 2, 3):
        (broker,) = group.brokers
        await group.master()
        assert broker.node.group_position.epoch == epoch
        await put_until_stored(broker, b"%d" % epoch)
        assert bodies(broker) == [b"%d" % number for number in range(1, epoch + 1)]
        await broker.stop(grace_ms=0)
        group.brokers = [await group.start_broker(0)]


async def test_an_unclean_start_is_remembered_until_the_controllers_know(
    group: InProcess, tmp_path: Path
) -> None:
    """S50: a process that ends before may be followed by one that finds nothing missing."""
    kept = tmp_path / "store-0" / "brokerIdentity-boot"
    await group.start(brokers=1)
    await group.master()
    await group.brokers.pop().stop(grace_ms=0)
    kept.write_text(UNCLEAN)
    there, group.controller_addr = group.controller_addr, f"{HOST}:1"
    alone = await group.start_broker(0)
    await alone.stop(grace_ms=0)
    assert kept.read_text() == UNCLEAN
    group.controller_addr = there
    group.brokers.append(await group.start_broker(0))
    await group.master()
    await until(lambda: kept.read_text() == boot_id())


async def test_without_controllers_it_is_fenced_and_invisible(group: InProcess) -> None:
    """rocketmq#6508: the port is open, and nothing is served."""
    await group.start(brokers=0)
    group.controller_addr = f"{HOST}:1"
    broker = await group.start_broker(0)
    group.brokers.append(broker)
    assert broker.node.serving.role is Role.FENCED
    assert await put(broker) == ResponseCode.SERVICE_NOT_AVAILABLE
    client = await RawClient.connect(broker.port)
    answer = await client.ask(pull(topic="T"))
    assert answer.code == ResponseCode.SYSTEM_BUSY
    await client.close()
    assert group.route() == {}
    table = decode_body(KVTable, (await ask(broker, RequestCode.GET_BROKER_RUNTIME_INFO)).body)
    assert table.table["epochmqRole"] == "FENCED"


async def test_a_master_that_lost_the_controllers_stops_and_goes_on_with_them(
    group: InProcess,
) -> None:
    """Rocketmq#7017: not one acknowledgement after the lease."""
    await group.start(brokers=1)
    master = await group.master()
    await put_until_stored(master, b"one")
    await group.cut_off(0)
    await until(lambda: not group.masters())
    assert await put(master) == ResponseCode.SERVICE_NOT_AVAILABLE
    assert master.node.serving.role is Role.MASTER
    assert master.node.store.pointers.appended == master.node.store.pointers.confirmed
    await group.let_in(0)
    await until(group.masters)
    await put_until_stored(master, b"two")
    assert bodies(master) == [b"one", b"two"]


async def test_without_controllers_messages_go_on_while_the_set_is_whole(
    group: InProcess,
) -> None:
    """ADR 0044: by the word of all members; what one broker alone decides waits for a lease."""
    await group.start(**ALL_ACK, min_in_sync_replicas=2)
    master = await group.whole()
    await put_until_stored(master, b"one")
    await group.cut_off(0)
    await until(lambda: master.node.serving.rights is HELD_MASTER)
    await put_until_stored(master, b"two")
    await put_until_stored(master, b"three", properties={"WAIT": "false"})
    commit = {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 1}
    answer = await ask(master, RequestCode.UPDATE_CONSUMER_OFFSET, **commit)
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    table = decode_body(KVTable, (await ask(master, RequestCode.GET_BROKER_RUNTIME_INFO)).body)
    assert table.table["epochmqHeldByWholeSet"] == "true"
    for slave in group.brokers:
        await until(lambda slave=slave: bodies(slave) == [b"one", b"two", b"three"])
    gone = next(one for one in group.brokers if one is not master)
    group.brokers.remove(gone)
    await gone.stop(grace_ms=0)
    await until(lambda: not group.masters())
    assert await put(master, b"four") == ResponseCode.SERVICE_NOT_AVAILABLE
    await group.let_in(0)
    await group.whole(2)
    # The controllers had heard of nobody for a lease; another may be elected when they do again.
    await put_until_stored(group, b"five")


async def test_metadata_is_there_before_the_log(group: InProcess) -> None:
    """S15: what clients were told of outlives the master."""
    await group.start(brokers=1, **ALL_ACK)
    first = await group.master()
    await put_until_stored(first, b"one")
    node = first.node
    node.groups.put(SubscriptionGroupConfig("G", retry_max_times=3), 1)
    node.offsets.commit("G", "T", 0, 1)
    second = await group.start_broker(1, **ALL_ACK)
    group.brokers.append(second)
    await group.whole()
    assert second.node.topics.get("T") == node.topics.get("T")
    assert second.node.groups.get("G") == node.groups.get("G")
    assert second.node.offsets.get("G", "T", 0) == 1
    node.offsets.commit("G", "T", 1, 9)
    await until(lambda: second.node.offsets.get("G", "T", 1) == 9)


async def test_a_replica_changes_nothing_by_itself(group: InProcess) -> None:
    """INV-32."""
    await group.start(brokers=2, slave_read_enable=True)
    master = await group.whole()
    await put_until_stored(master, b"one")
    (slave,) = [one for one in group.brokers if one is not master]
    await until(lambda: bodies(slave) == [b"one"])
    end = slave.node.store.pointers.appended
    assert await put(slave) == ResponseCode.SERVICE_NOT_AVAILABLE
    refused = await ask(slave, RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "T" in slave.node.topics
    client = await RawClient.connect(slave.port)
    answer = await client.ask(pull(topic="T"))
    assert [m.body for m in decode_all(bytes(answer.body))] == [b"one"]
    await client.close()
    assert slave.node.store.pointers.appended == end


async def test_too_few_replicas_refuse_sends(group: InProcess) -> None:
    await group.start(brokers=1, min_in_sync_replicas=2, **ALL_ACK)
    await group.master()
    (master,) = group.brokers
    assert await put_under_lease(master) == ResponseCode.SYSTEM_ERROR
    assert master.node.store.pointers.appended == 0
    group.brokers.append(await group.start_broker(1, min_in_sync_replicas=2, **ALL_ACK))
    await group.whole()
    await put_until_stored(master, b"one")


async def test_a_lower_minimum_is_recorded_before_it_is_used(group: InProcess) -> None:
    """Else a replica that was there until now is elected, and lacks what is acknowledged alone."""
    await group.start(brokers=2, min_in_sync_replicas=2, **ALL_ACK)
    first = await group.whole()
    group.brokers.remove(first)
    await first.stop(grace_ms=0)
    (second,) = group.brokers
    await until(lambda: second.node.serving.rights.writable)
    state = group.guests[0].controller.node.machine.groups["c", "b"]
    own_id = second.node.group_position.own_id
    assert state.candidates == [first.node.group_position.own_id]
    assert await put_under_lease(second, b"alone") == ResponseCode.SYSTEM_ERROR
    client = await RawClient.connect(second.port)
    change = Command(RequestCode.UPDATE_BROKER_CONFIG, body=b"minInSyncReplicas=1")
    assert (await client.ask(change)).code == 0
    await client.close()
    await put_until_stored(second, b"alone")
    assert state.replicas[own_id].floor == 1
    assert state.candidates == []


async def test_a_replica_with_more_rejoins_after_an_unclean_election(group: InProcess) -> None:
    await group.start(brokers=2, **ALL_ACK)
    first = await group.whole()
    await put_until_stored(first, b"kept")
    (second,) = (one for one in group.brokers if one is not first)
    await until(lambda: bodies(second) == [b"kept"])
    folders = group.brokers.index(first), group.brokers.index(second)
    await second.stop(grace_ms=0)
    group.brokers.remove(second)
    await until(lambda: len(first.node.group_position.members) == 1)
    await put_until_stored(first, b"lost")
    await first.stop(grace_ms=0)
    group.brokers.remove(first)
    second = await group.start_broker(folders[1], **ALL_ACK)
    group.brokers.append(second)
    controller = group.guests[0].controller
    await until(lambda: controller.node.core.context.electable(("c", "b")))
    elect = {
        "clusterName": "c",
        "brokerName": "b",
        "brokerId": str(second.node.group_position.own_id),
        "designateElect": "true",
        "uncleanElect": "true",
        "invokeTime": "1",
    }
    client = await RawClient.connect(int(group.controller_addr.rpartition(":")[2]))
    answer = await client.ask(Command(RequestCode.CONTROLLER_ELECT_MASTER, ext=elect))
    assert answer.code == 0, answer
    await client.close()
    await put_until_stored(second, b"new")
    first = await group.start_broker(folders[0], **ALL_ACK)
    group.brokers.append(first)
    await group.whole()
    assert bodies(first) == [b"kept", b"new"]
    kept = (group.folder / f"store-{folders[0]}" / "cut").glob("*.log")
    assert b"lost" in b"".join(file.read_bytes() for file in kept)
    assert first.node.replica is not None
    assert int(first.node.replica.figures()["epochmqCutConfirmedBytes"]) > 0


class Slept:
    """A machine that was stopped, monotonic clock and all; its wall clock came right."""

    def __init__(self, clock: Clock, ms: int) -> None:
        self._clock = clock
        self._ms = ms

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def wall_ms(self) -> int:
        return self._clock.wall_ms() + self._ms


async def test_no_lease_outlives_a_machine_that_stood_still(group: InProcess) -> None:
    await group.start(brokers=1)
    master = await group.master()
    await put_until_stored(master, b"before")
    member = master.node.replica
    assert isinstance(member, service.ControllerModeMember)
    assert member._may_acknowledge(member._clock.now_ms())
    member._clock = Slept(member._clock, 5_000)
    assert not member._may_acknowledge(member._clock.now_ms())
    assert not master.node.serving.rights.writable
    await put_until_stored(group, b"after")
    assert bodies(master) == [b"before", b"after"]
    assert member.core.jumps.count == 1


async def test_a_learner_copies_and_is_never_counted(group: InProcess) -> None:
    """rocketmq#10013."""
    await group.start(brokers=1, **ALL_ACK)
    master = await group.master()
    learner = await group.start_broker(1, async_learner=True, **ALL_ACK)
    group.brokers.append(learner)
    await put_until_stored(master, b"one")
    await until(lambda: bodies(learner) == [b"one"])
    assert learner.node.serving.role is Role.LEARNER
    assert master.node.group_position.members == {master.node.group_position.own_id}
    await master.stop(grace_ms=0)
    group.brokers.remove(master)
    assert learner.node.serving.role is not Role.MASTER


async def test_a_broker_with_data_joins_controllers_in_place(group: InProcess) -> None:
    """RIP-44's compatibility table: a master-slave deployment is upgraded."""
    await group.start(brokers=0)
    plain = await group.start_broker(0, enable_controller_mode=False)
    client = await RawClient.connect(plain.port)
    assert (await client.ask(send(b"old", topic="T"))).code == 0
    await client.close()
    await plain.stop(grace_ms=0)
    first = await group.start_broker(0)
    group.brokers.append(first)
    await group.master()
    await put_until_stored(first, b"new")
    assert bodies(first) == [b"old", b"new"]
    second = await group.start_broker(1)
    group.brokers.append(second)
    await group.whole()
    await until(lambda: bodies(second) == [b"old", b"new"])
    assert log_of(second) == log_of(first)


async def test_a_group_of_controllers_goes_on_when_one_leaves(group: InProcess) -> None:
    await group.start(brokers=2, controllers=3, **ALL_ACK)
    master = await group.whole()
    active = group.brokers[0].member
    assert active is not None
    address = active.core.finder.active
    leader = group.controller_addr.split(";").index(str(address))
    await group.guests.pop(leader).stop()
    await until(lambda: active.core.finder.active not in (None, address))
    await put_until_stored(master, b"one")
    assert (await group.master()) is master
    assert master.node.group_position.epoch == 1


async def test_a_master_whose_disk_failed_makes_way(group: InProcess) -> None:
    """Better another master than one that can only refuse."""
    await group.start(**ALL_ACK)
    first = await group.whole()
    await put_until_stored(first, b"one")
    first.node.store.fence("fsync failed: EIO")
    await until(lambda: group.masters() and group.masters() != [first])
    assert first.node.serving.role is Role.FENCED
    second = await group.master()
    await put_until_stored(second, b"two")
    assert bodies(second) == [b"one", b"two"]


async def test_replicas_hear_of_topics_at_once(group: InProcess) -> None:
    """A topic's kind of queues must be known before its messages come."""
    await group.start(brokers=2, slave_metadata_period=60_000)
    master = await group.whole()
    (slave,) = [one for one in group.brokers if one is not master]
    await until(lambda: master.node.watchers._held)
    await put_until_stored(master, b"one")
    await until(lambda: slave.node.topics.get("T") == master.node.topics.get("T"))


async def test_an_operator_names_another_master(group: InProcess) -> None:
    """electMaster of a living group: the old master makes way before the new one begins."""
    await group.start(**ALL_ACK)
    first = await group.whole()
    await put_until_stored(first, b"one")
    other = next(one for one in group.brokers if one is not first)
    client = await RawClient.connect(int(group.controller_addr.rpartition(":")[2]))
    wanted = {
        "clusterName": "c",
        "brokerName": "b",
        "brokerId": str(other.node.group_position.own_id),
        "designateElect": "true",
    }
    answer = await client.ask(Command(RequestCode.CONTROLLER_ELECT_MASTER, ext=wanted))
    await client.close()
    assert answer.code == 0
    await until(lambda: group.masters() == [other])
    assert first.node.serving.role is Role.SLAVE
    assert other.node.group_position.epoch == 2
    await put_until_stored(other, b"two")
    await until(lambda: bodies(first) == [b"one", b"two"])


async def test_controllers_may_be_one_name(group: InProcess) -> None:
    await group.start(brokers=0)
    group.controller_addr = group.controller_addr.replace(HOST, "localhost")
    group.brokers.append(await group.start_broker(0, fetch_controller_addr_by_dns_lookup=True))
    master = await group.master()
    assert master.member is not None
    await put_until_stored(master, b"one")


async def test_a_name_nobody_knows_is_looked_up_again(
    group: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rocketmq#6873, #8180: a hiccup of the name service is no reason to fail."""
    monkeypatch.setattr(service, "DNS_RETRY_MS", 50)
    loop = asyncio.get_running_loop()
    real, failures = loop.getaddrinfo, [OSError("try again"), OSError("try again")]

    async def look_up(host: Any, *more: Any, **others: Any) -> Any:
        if host == "localhost" and failures:
            raise failures.pop()
        return await real(host, *more, **others)

    await group.start(brokers=0)
    monkeypatch.setattr(loop, "getaddrinfo", look_up)
    group.controller_addr = group.controller_addr.replace(HOST, "localhost")
    group.brokers.append(await group.start_broker(0, fetch_controller_addr_by_dns_lookup=True))
    await group.master()
    assert not failures
