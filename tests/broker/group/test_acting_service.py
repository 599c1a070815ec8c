"""A master and its slave in one process: when the slave acts, what it serves, when it stops."""

import dataclasses
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.broker_harness import ext, pull, send
from tests.broker.client import RawClient
from tests.broker.group.group import InProcess, log_of, put, put_many, put_until_stored, until

from epochmq.base.errors import EnvironmentFault
from epochmq.broker.group.acting_master import CONFIRMATIONS, Act
from epochmq.broker.group.acting_service import DEBT_FILE
from epochmq.broker.group.name_servers_view import NameServersVerdict
from epochmq.broker.group.plain_member import PlainMember
from epochmq.broker.server.broker_server import Broker
from epochmq.broker.serving.roles import Role
from epochmq.model.topic import is_readable, is_writable
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

ACTING: dict[str, Any] = {
    "enable_controller_mode": False,
    "controller_addr": "",
    "enable_slave_acting_master": True,
    "total_replicas": 2,
    "slave_read_enable": True,
    "sync_broker_member_group_period": 100,
    "broker_not_active_timeout_millis": 1_500,
}
SLAVE: dict[str, Any] = {**ACTING, "broker_role": "SLAVE", "broker_id": 1}
QUEUES = {"topic": "T", "queueId": 0}


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[InProcess]:
    made = InProcess(tmp_path)
    await made.start(brokers=0)
    options = made.namesrv.node.options
    made.namesrv.node.options = dataclasses.replace(options, support_acting_master=True)
    try:
        yield made
    finally:
        await made.stop()


async def pair(group: InProcess, **more: Any) -> tuple[Broker, Broker]:
    """A master with one message, and a slave that has it, and the tables."""
    master = await group.start_broker(0, **{**ACTING, **more})
    group.brokers.append(master)
    slave = await group.start_broker(1, **{**SLAVE, **more})
    group.brokers.append(slave)
    await put_until_stored(master, b"one")
    await until(lambda: member(slave).acting.core.ready)
    await until(lambda: log_of(slave) == log_of(master) and slave.node.topics.get("T"))
    for broker in (master, slave):
        await until(lambda broker=broker: len(member(broker).acting.core.view.members()) == 2)
    return master, slave


def member(broker: Broker) -> Any:
    found = broker.member
    assert isinstance(found, PlainMember)
    assert found.acting is not None
    return found


def stands_in(broker: Broker) -> bool:
    return broker.node.serving.role is Role.ACTING_MASTER


async def looks(broker: Broker, times: int) -> None:
    """The broker asked its name server so often, and was answered."""
    core = member(broker).acting.core
    for _ in range(times):
        due = dict(core._poll_at)
        await until(lambda due=due: core._poll_at != due)


async def acting(group: InProcess, **more: Any) -> Broker:
    master, slave = await pair(group, **more)
    await master.stop(grace_ms=0)
    await until(lambda: stands_in(slave))
    return slave


async def ask(broker: Broker, command: Command) -> Command:
    client = await RawClient.connect(broker.port)
    try:
        return await client.ask(command)
    finally:
        await client.close()


async def call(broker: Broker, code: Code, body: object = None, **fields: object) -> Command:
    data = b"" if body is None else json.dumps(body).encode()
    told = {name: str(value) for name, value in fields.items()}
    return await ask(broker, Command(code, ext=told, body=data, language="JAVA", version=453))


@pytest.mark.parametrize("compat", [True, False])
async def test_a_slave_stands_in_and_makes_way(group: InProcess, compat: bool) -> None:
    """Both dialects (RIP-32); clients see a master to read from."""
    master, slave = await pair(group, compatible_with_old_name_srv=compat)
    assert slave.node.serving.role is Role.SLAVE
    assert member(master).acting.core.view.verdict(0) is NameServersVerdict.OTHERS
    began = time.monotonic()
    await master.stop(grace_ms=0)
    await until(lambda: stands_in(slave))
    assert time.monotonic() - began < 3
    route = group.namesrv.node.table.route("T")
    assert route is not None
    assert [data.broker_addrs for data in route.broker_datas] == [{0: slave.node.address}]
    assert is_readable(route.queue_datas[0].perm)
    assert not is_writable(route.queue_datas[0].perm)

    group.brokers[0] = again = await group.start_broker(
        0, **ACTING, compatible_with_old_name_srv=compat, listen_port=master.port
    )
    await until(lambda: slave.node.serving.role is Role.SLAVE)
    await until(lambda: slave.node.group_position.master_address == again.node.address)
    await put_until_stored(again, b"two")
    await until(lambda: log_of(slave) == log_of(again))
    route = group.namesrv.node.table.route("T")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: again.node.address, 1: slave.node.address}
    assert is_writable(route.queue_datas[0].perm)


async def test_a_slave_that_starts_alone_stands_in_with_what_it_had(group: InProcess) -> None:
    slave = await acting(group)
    await slave.stop(grace_ms=0)
    group.brokers[1] = again = await group.start_broker(1, **SLAVE)
    assert again.node.serving.role is Role.PRE_ONLINE
    await until(lambda: stands_in(again))


async def test_a_lost_registration_heals_in_one_heartbeat(group: InProcess) -> None:
    """H2: upstream waits for the next registration, up to 30 s."""
    master, slave = await pair(group)
    whole = {0: master.node.address, 1: slave.node.address}
    await until(lambda: group.route() == whole)
    for broker in (slave, master):
        group.namesrv.node.table.unregister("c", "b", broker.node.address)
    await until(lambda: group.route() == whole)
    await looks(slave, 2 * CONFIRMATIONS)
    assert slave.node.serving.role is Role.SLAVE, (
        "the master answers: it was the name server that forgot"
    )


@pytest.mark.parametrize("compat", [True, False])
async def test_heartbeats_keep_both_registered(group: InProcess, compat: bool) -> None:
    more = {"compatible_with_old_name_srv": compat, "broker_not_active_timeout_millis": 700}
    await pair(group, **more)
    live = group.namesrv.node.table.brokers.live
    assert [one.timeout_ms for one in live.values()] == [700, 700]
    began = {key: one.last_ms for key, one in live.items()}
    await until(lambda: all(live[key].last_ms > ms + 800 for key, ms in began.items()))
    assert len(group.route()) == 2


async def test_a_notice_of_the_name_server_makes_it_ask(group: InProcess) -> None:
    """notifyMinBrokerIdChanged: 905; polls alone would take a minute here."""
    options = group.namesrv.node.options
    group.namesrv.node.options = dataclasses.replace(options, notify_min_broker_id_changed=True)
    master, slave = await pair(group)
    core, now = member(slave).acting.core, slave.node.clock.now_ms()
    view = core.view
    core._options = dataclasses.replace(core._options, poll_ms=60_000)
    await until(lambda: min(core._poll_at.values()) > now + 50_000)
    member(master).acting._stopped = True  # else it may be registered again before we look
    group.namesrv.node.table.unregister("c", "b", master.node.address)
    group.namesrv.send_notices()
    await until(lambda: view.members() == {1: slave.node.address})
    assert slave.node.serving.role is Role.SLAVE


async def test_a_hand_over_ends_it_at_once(group: InProcess) -> None:
    """H4: before the master is told that it may go on."""
    slave = await acting(group)
    member(slave).step_down("the master returns")
    assert slave.node.serving.role is Role.SLAVE
    began = slave.node.clock.now_ms()
    await until(lambda: stands_in(slave))
    assert slave.node.clock.now_ms() - began >= ACTING["broker_not_active_timeout_millis"] - 10


async def test_a_master_that_noticed_nothing_takes_back_what_was_done_for_it(
    group: InProcess,
) -> None:
    """The master was silent so briefly that it did not notice, and a slave acted (INV-29)."""
    master, slave = await pair(group)
    await put_many(master, 8)
    await until(lambda: log_of(slave) == log_of(master))
    master.node.groups.find("G", 0)
    commit = {**QUEUES, "consumerGroup": "G"}
    await call(master, Code.UPDATE_CONSUMER_OFFSET, **commit, commitOffset=1)
    await until(lambda: slave.node.offsets.get("G", "T", 0) == 1)
    stand_in(slave)
    slave.node.offsets.commit("G", "T", 0, 9)
    await until(lambda: master.node.serving.role is Role.PRE_ONLINE)
    await until(lambda: master.node.serving.role is Role.MASTER)
    assert master.node.offsets.get("G", "T", 0) == 9
    await until(lambda: slave.node.group_position.master_address == master.node.address)
    await call(master, Code.UPDATE_CONSUMER_OFFSET, **commit, commitOffset=10)
    await until(lambda: slave.node.offsets.get("G", "T", 0) == 10)


async def test_a_master_that_skips_its_way_back_takes_offsets_back_while_it_serves(
    group: InProcess,
) -> None:
    """skipPreOnline: its old offsets count for a moment, and no longer."""
    master, slave = await pair(group, skip_pre_online=True)
    await put_many(master, 8)
    await until(lambda: log_of(slave) == log_of(master))
    commit_one(master)
    await until(lambda: slave.node.offsets.get("G", "T", 0) == 1)
    stand_in(slave)
    slave.node.offsets.commit("G", "T", 0, 9)
    await until(lambda: master.node.offsets.get("G", "T", 0) == 9)
    assert master.node.serving.role is Role.MASTER
    await until(lambda: slave.node.group_position.master_address == master.node.address)
    assert not member(slave).owes_progress
    await until(lambda: not slave.node.disk.exists(DEBT_FILE))
    master.node.offsets.commit("G", "T", 0, 10)
    await until(lambda: slave.node.offsets.get("G", "T", 0) == 10)


async def test_the_tables_of_a_master_that_takes_nothing_back_set_nothing_back(
    group: InProcess,
) -> None:
    """RocketMQ's after its timeout: it is followed, and what is further here stays (H6)."""
    master, slave = await pair(group, skip_pre_online=True)
    member(master)._offsets_after_online.begin = lambda address: None
    commit_one(master)
    await until(lambda: slave.node.offsets.get("G", "T", 0) == 1)
    version = master.node.offsets.version
    stand_in(slave)
    assert slave.node.offsets.version.counter >= version.counter + 1_000, "Java's ask only that"
    assert slave.node.may_not_save()  # before the file is written
    slave.node.offsets.commit("G", "T", 0, 9)
    await until(lambda: slave.node.disk.exists(DEBT_FILE))
    await until(lambda: slave.node.serving.role is Role.SLAVE)
    assert slave.node.group_position.master_address == ""
    assert member(slave).owes_progress
    assert member(slave).figures()["epochmqOwesProgress"] == "true"
    await until(lambda: slave.node.group_position.master_address == master.node.address)
    assert not member(slave).owes_progress
    master.node.offsets.commit("G", "T", 0, 2)
    master.node.offsets.commit("G", "T", 1, 7)
    await until(lambda: slave.node.offsets.get("G", "T", 1) == 7)
    assert slave.node.offsets.get("G", "T", 0) == 9
    assert slave.node.disk.exists(DEBT_FILE)
    master.node.offsets.commit("G", "T", 0, 11)
    await until(lambda: slave.node.offsets.get("G", "T", 0) == 11)
    await until(lambda: not slave.node.disk.exists(DEBT_FILE))
    assert member(slave).figures()["epochmqOwesProgress"] == "false"


async def test_owed_progress_survives_a_restart(group: InProcess) -> None:
    """The master came back alone and delivers from old offsets; the acting master died."""
    master, slave = await pair(group)
    await put_many(master, 8)
    await until(lambda: log_of(slave) == log_of(master))
    commit_one(master)
    await until(lambda: slave.node.offsets.get("G", "T", 0) == 1)
    await master.stop(grace_ms=0)
    await until(lambda: stands_in(slave))
    slave.node.offsets.commit("G", "T", 0, 9)
    await slave.stop(grace_ms=0)
    group.brokers[0] = again = await group.start_broker(0, **ACTING)
    await until(lambda: again.node.serving.role is Role.MASTER)
    assert again.node.offsets.get("G", "T", 0) == 1, "nobody was there to tell it more"
    group.brokers[1] = slave = await group.start_broker(1, **SLAVE)
    assert member(slave).owes_progress
    await until(lambda: again.node.offsets.get("G", "T", 0) == 9)
    await until(lambda: again.node.serving.role is Role.MASTER)
    await until(lambda: slave.node.group_position.master_address == again.node.address)
    await until(lambda: not slave.node.disk.exists(DEBT_FILE))
    assert (slave.node.serving.role, slave.node.offsets.get("G", "T", 0)) == (Role.SLAVE, 9)


async def test_a_debt_in_a_topic_that_was_created_again_meanwhile_is_none(group: InProcess) -> None:
    """The acting master was away when an operator deleted the topic."""
    master, slave = await pair(group)
    await put_many(master, 8)
    commit_one(master)
    await until(lambda: slave.node.offsets.get("G", "T", 0) == 1)
    await until(lambda: log_of(slave) == log_of(master))
    await master.stop(grace_ms=0)
    await until(lambda: stands_in(slave))
    slave.node.offsets.commit("G", "T", 0, 9)
    await slave.stop(grace_ms=0)
    group.brokers[0] = again = await group.start_broker(0, **ACTING)
    await until(lambda: again.node.serving.role is Role.MASTER)
    await call(again, Code.DELETE_TOPIC_IN_BROKER, topic="T")
    await put_many(again, 12)
    again.node.offsets.commit("G", "T", 0, 2)
    group.brokers[1] = slave = await group.start_broker(1, **SLAVE)
    assert member(slave).owes_progress
    await until(lambda: slave.node.group_position.master_address == again.node.address)
    await until(lambda: not slave.node.disk.exists(DEBT_FILE))
    for broker in (again, slave):
        assert broker.node.offsets.get("G", "T", 0) == 2


async def test_a_deletion_is_saved_at_once(group: InProcess) -> None:
    master, _ = await pair(group)
    commit_one(master)
    await call(master, Code.DELETE_TOPIC_IN_BROKER, topic="T")
    path = "config/consumerOffset.json"
    await until(lambda: b'"T@":' in (master.node.disk.read_file(path) or b""))


async def test_nothing_done_for_the_master_is_saved_before_the_debt_is(group: InProcess) -> None:
    """A full disk: consumers go on; what a restart finds is of before, or known to be owed."""
    master, slave = await pair(group, flush_consumer_offset_interval=10)
    await put_many(master, 8)
    await until(lambda: log_of(slave) == log_of(master))
    commit_one(master)
    await until(lambda: saved_offset(slave) == 1)
    disk: Any = slave.node.disk
    write = disk.write_file
    disk.write_file = unless(DEBT_FILE, write)
    await master.stop(grace_ms=0)
    await until(lambda: stands_in(slave))
    commit = {**QUEUES, "consumerGroup": "G", "commitOffset": 9}
    assert (await call(slave, Code.UPDATE_CONSUMER_OFFSET, **commit)).code == 0
    taken = await call(slave, Code.LOCK_BATCH_MQ, lock_body())
    assert taken.code == 0
    assert b"queueId" in taken.body
    slave._save_offsets()
    slave.node.store.sync()
    await slave._table_writer.drain()
    slave._save_everything()
    assert (saved_offset(slave), slave.node.disk.exists(DEBT_FILE)) == (1, False)
    assert member(slave).figures()["epochmqOwesProgress"] == "false", "it acts as master"
    disk.write_file = write
    await until(lambda: saved_offset(slave) == 9)
    assert slave.node.disk.exists(DEBT_FILE)


def unless(refused: str, write: Any) -> Any:
    """A disk that has no room for this one file."""

    def written(path: str, data: bytes, *, backup: bool = False) -> None:
        if path == refused:
            raise EnvironmentFault("the disk is full")
        write(path, data, backup=backup)

    return written


def saved_offset(broker: Broker) -> int:
    """Of one queue, in the file."""
    content = json.loads(broker.node.disk.read_file("config/consumerOffset.json") or b"{}")
    return int(content.get("offsetTable", {}).get("T@G", {}).get("0", -1))


def lock_body() -> dict[str, Any]:
    queue = {"topic": "T", "brokerName": "b", "queueId": 0}
    return {"consumerGroup": "G", "clientId": "c", "mqSet": [queue]}


def commit_one(master: Broker) -> None:
    """One queue of one group is at 1."""
    master.node.groups.find("G", 0)
    master.node.offsets.commit("G", "T", 0, 1)


def stand_in(slave: Broker) -> None:
    """As if the name servers had known no master, and that had been silent."""
    core = member(slave).acting.core
    core.acting, core._confirmed_at = True, slave.node.clock.now_ms()
    member(slave)._change(Act("test"))


async def test_a_master_that_nobody_hears_says_that_a_slave_may_stand_in(
    group: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/OPERATING.md, "Both at once"."""
    master = await group.start_broker(0, **ACTING)
    group.brokers.append(master)
    await until(lambda: master.node.serving.role is Role.MASTER)
    await group.namesrv.stop()
    await until(lambda: "a slave becomes acting master, and both deliver" in caplog.text)
    assert member(master).figures()["epochmqNameServersSaid"] == "failed=1"
    assert master.node.serving.delivers


async def test_a_master_that_is_not_online_is_not_copied_from(group: InProcess) -> None:
    """Its tables are old until it has taken ours back: 906 tells where its log is, no more."""
    slave = await acting(group)
    member(slave).step_down("the master returns")
    member(slave).master_announced("127.0.0.1:9", "127.0.0.1:8", online=False)
    assert member(slave).sync.core.master is None
    member(slave).master_announced("127.0.0.1:9", "127.0.0.1:8", online=True)
    assert member(slave).sync.core.master == "127.0.0.1:9"


# What clients can do --------------------------------------------------------------------------


async def test_the_seeds_requests_work_on_an_acting_slave(group: InProcess) -> None:
    """searchOffset, maxOffset, minOffset, earliestMsgStoreTime; offsets; reading."""
    slave = await acting(group)
    offsets = {
        Code.GET_MAX_OFFSET: "1",
        Code.GET_MIN_OFFSET: "0",
    }
    for code, offset in offsets.items():
        assert ext(await call(slave, code, **QUEUES))["offset"] == offset
    found = await call(slave, Code.SEARCH_OFFSET_BY_TIMESTAMP, **QUEUES, timestamp=0)
    assert ext(found)["offset"] == "0"
    earliest = await call(slave, Code.GET_EARLIEST_MSG_STORETIME, **QUEUES)
    assert int(ext(earliest)["timestamp"]) > 0
    answer = await ask(slave, pull(group="CID_ONS-HTTP-PROXY"))
    assert answer.code in (ResponseCode.SUCCESS, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    slave.node.groups.frozen = False
    slave.node.groups.find("G", 0)
    slave.node.groups.frozen = True
    answer = await ask(slave, pull(commit=1, sys_flag=5))
    assert (answer.code, b"one" in bytes(answer.body)) == (ResponseCode.SUCCESS, True)
    committed = await call(
        slave, Code.UPDATE_CONSUMER_OFFSET, **QUEUES, consumerGroup="G", commitOffset=1
    )
    assert committed.code == ResponseCode.SUCCESS
    asked = await call(slave, Code.QUERY_CONSUMER_OFFSET, **QUEUES, consumerGroup="G")
    assert ext(asked)["offset"] == "1"


async def test_queues_are_locked_on_an_acting_slave(group: InProcess) -> None:
    slave = await acting(group)
    queue = {"topic": "T", "brokerName": "b", "queueId": 0}
    body = {"consumerGroup": "G", "clientId": "me", "mqSet": [queue]}
    locked = await call(slave, Code.LOCK_BATCH_MQ, body)
    assert json.loads(bytes(locked.body))["lockOKMQSet"] == [queue]
    other = await call(slave, Code.LOCK_BATCH_MQ, {**body, "clientId": "you"})
    assert json.loads(bytes(other.body))["lockOKMQSet"] == []
    assert (await call(slave, Code.UNLOCK_BATCH_MQ, body)).code == ResponseCode.SUCCESS
    other = await call(slave, Code.LOCK_BATCH_MQ, {**body, "clientId": "you"})
    assert json.loads(bytes(other.body))["lockOKMQSet"] == [queue]


async def test_what_would_write_the_log_or_the_tables_is_refused(group: InProcess) -> None:
    """INV-32: a slave's log is its master's."""
    slave = await acting(group)
    before = log_of(slave)
    assert await put(slave) == ResponseCode.SERVICE_NOT_AVAILABLE
    made = await call(
        slave, Code.UPDATE_AND_CREATE_TOPIC, topic="New", readQueueNums=4, writeQueueNums=4,
        perm=6, defaultTopic="TBW102", topicFilterType="SINGLE_TAG", topicSysFlag=0, order="false",
    )  # fmt: skip
    assert made.code == ResponseCode.SYSTEM_ERROR
    assert log_of(slave) == before


async def test_special_services_run_while_it_stands_in_and_no_longer(group: InProcess) -> None:
    """Delay levels, timer, transactions, revive: by the row alone; nothing is lost meanwhile."""
    master, slave = await pair(group)
    properties = {"DELAY": "1", "WAIT": "true"}
    client = await RawClient.connect(master.port)
    await client.ask(send(b"late", properties=properties))
    await client.close()
    await until(lambda: log_of(slave) == log_of(master))
    progress = dict(slave.node.schedule.progress())

    def running() -> list[bool]:
        node = slave.node
        timer = node.timer
        assert timer is not None
        served = node.transactions.serves(node.clock.now_ms())
        return [node.serving.delivers, timer.driver.delivers, served, node.pop._running]

    assert running() == [False] * 4
    await master.stop(grace_ms=0)
    await until(lambda: stands_in(slave) and running() == [True] * 4)
    await until(lambda: slave.node.schedule.statistics()["failures"] > 0)
    before = log_of(slave)
    assert slave.node.schedule.progress() == progress, "what nobody took is not passed over"
    member(slave).step_down("enough")
    await until(lambda: running() == [False] * 4)
    assert log_of(slave) == before
