"""RocketMQ's brokers, of 5.3.3 and of 5.0.0, in controller mode against our controllers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from .conftest import had
from .peers import wire
from .peers.cache import maven_jars
from .peers.cluster import Config
from .peers.group import JAVA, OURS, Group, Server
from .peers.java import (
    BROKER_MAIN,
    STORE_VERSION,
    TEST_FLAGS,
    TEST_HEAP,
    run_mqadmin,
    server_argv,
)
from .peers.process import Process, wait_until

FAILOVER_S = 20
BROKER = "broker-a"


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    made = had(lambda: Group(OURS, JAVA, replicas=2))
    with made as running:
        yield running


def other_than(group: Group, server: Server) -> Server:
    return next(broker for broker in group.brokers if broker is not server)


def mqadmin(group: Group, *args: str) -> str:
    code, said = run_mqadmin(*args, namesrv=group.namesrv_addr)
    assert code == 0, said
    return said


def test_java_brokers_register_elect_and_join_the_set(group: Group) -> None:
    state = group.sync_state()
    assert state is not None
    assert state.master_epoch == 1
    assert len(state.in_sync) == 2
    wait_until(
        lambda: all(wire.is_registered(group.namesrv_addr, b.address) for b in group.brokers),
        60,
        "both in the route",
    )


def test_javas_mqadmin_reads_our_controllers(group: Group) -> None:
    at = ("-a", group.controllers[0].address)
    leader = group.controller_leader()
    assert leader is not None
    assert f"#ControllerLeaderAddress\t{leader.address}" in mqadmin(
        group, "getControllerMetaData", *at
    )
    said = mqadmin(group, "getSyncStateSet", *at, "-b", BROKER)
    assert "#SyncStateSetNums\t2" in said
    assert said.count("alive=true") == 2
    assert "notifyBrokerRoleChanged" in mqadmin(group, "getControllerConfig", *at)
    change = ("-k", "scanInactiveMasterInterval", "-v", "900")
    assert "success" in mqadmin(group, "updateControllerConfig", *at, *change)


def test_the_controller_leader_dies_and_the_group_does_not_notice(group: Group) -> None:
    before = group.sync_state()
    leader = group.controller_leader()
    assert leader is not None
    leader.process.kill9()
    wait_until(lambda: group.controller_leader() is not None, 10, "another controller leads")
    time.sleep(12)  # longer than any of the brokers' periods: nothing may have happened
    assert group.sync_state() == before
    leader.start()
    group.wait_listening(leader)


def test_a_killed_master_is_replaced_and_returns_as_a_slave(group: Group) -> None:
    master = group.master()
    assert master is not None
    before = group.sync_state()
    assert before is not None
    other = other_than(group, master)
    killed = time.monotonic()
    master.process.kill9()
    wait_until(lambda: group.master() is other, FAILOVER_S, "the other is elected")
    elected = time.monotonic() - killed
    state = group.sync_state()
    assert state is not None
    assert state.master_epoch == before.master_epoch + 1
    wait_until(
        lambda: wire.is_registered(group.namesrv_addr, other.address), FAILOVER_S, "new route"
    )
    assert elected < 3, f"elected after {elected:.1f} s: the closed port tells at once"
    master.start()
    group.wait_ready()
    assert group.master() is other


def test_an_operator_moves_the_master_by_javas_mqadmin(group: Group) -> None:
    master = group.master()
    assert master is not None
    other = other_than(group, master)
    leader = group.controller_leader()
    assert leader is not None
    table = wire.sync_state(leader.address, BROKER)
    wanted = next(
        r["brokerId"] for r in table["inSyncReplicas"] if r["brokerAddress"] == other.address
    )
    args = ("-a", leader.address, "-b", str(wanted), "-bn", BROKER, "-c", "DefaultCluster")
    said = mqadmin(group, "electMaster", *args)
    assert f"#BrokerMasterAddr\t{other.address}" in said
    wait_until(lambda: group.master() is other, FAILOVER_S, "moved")
    group.wait_ready()


def test_an_unclean_clean_is_refused_and_a_listed_one_goes(group: Group) -> None:
    master = group.master()
    assert master is not None
    other = other_than(group, master)
    leader = group.controller_leader()
    assert leader is not None
    table = wire.sync_state(leader.address, BROKER)
    listed = next(
        r["brokerId"] for r in table["inSyncReplicas"] if r["brokerAddress"] == other.address
    )
    args = ("-a", leader.address, "-b", str(listed), "-bn", BROKER, "-c", "DefaultCluster")
    run_mqadmin("cleanBrokerMetadata", *args, namesrv=group.namesrv_addr)
    assert len(wire.sync_state(leader.address, BROKER)["inSyncReplicas"]) == 2, "it is alive"
    mqadmin(group, "cleanBrokerMetadata", *args, "-l")
    left = wire.sync_state(leader.address, BROKER)
    assert [r["brokerAddress"] for r in left["inSyncReplicas"]] == [master.address]
    assert not left["notInSyncReplicas"]
    # Started again it brings the number it has, and is taken back.
    other.process.kill9()
    other.start()
    group.wait_ready()
    assert group.master() is master


class OldGroup(Group):
    """Brokers of 5.0.0, which knows replicas by their addresses; name server of 5.3.3."""

    def _make_broker(self, kind: str, number: int, more: Config) -> Server:
        server = super()._make_broker(kind, number, more)
        argv = server_argv(
            server.root, maven_jars("server", STORE_VERSION), TEST_HEAP, TEST_FLAGS, BROKER_MAIN
        )
        env = {"HOME": str(server.root), "ROCKETMQ_HOME": str(server.root), "NAMESRV_ADDR": ""}
        log = server.root / "server.log"
        server.process = Process(
            server.root.name, [*argv, "-c", server.root / "server.conf"], log, env
        )
        return server


def test_brokers_of_5_0_register_elect_and_fail_over() -> None:
    with had(lambda: OldGroup(OURS, JAVA, replicas=2)) as group:
        before = group.sync_state()
        master = group.master()
        assert before is not None
        assert master is not None
        assert before.master_epoch == 1
        other = other_than(group, master)
        master.process.kill9()
        wait_until(lambda: group.master() is other, FAILOVER_S, "the other is elected")
        wait_until(
            lambda: wire.is_registered(group.namesrv_addr, other.address), FAILOVER_S, "new route"
        )
        state = group.sync_state()
        assert state is not None
        assert state.master_epoch == 2
        master.start()
        group.wait_ready()
        assert group.master() is other
