"""Commands to controllers, on a group of ours; beside upstream's in tests/compat."""

from tests.admin.replicated import CLUSTER, GROUP, Replicas


def test_leader_and_sync_state_set_are_shown(replicas: Replicas) -> None:
    state = replicas.settled()
    at = ("-a", replicas.controllers)
    (found,) = replicas.run("mqadmin", "getControllerMetaData", *at, "-o", "json").rows
    assert found["leader_address"] in replicas.controllers
    assert len(found["peers"]) == 3
    lines = replicas.run("mqadmin", "getSyncStateSet", *at, "-b", GROUP).lines
    assert f"#MasterAddr\t{state.master_address}" in lines
    assert "#SyncStateSetNums\t2" in lines
    (row,) = replicas.run("mqadmin", "getSyncStateSet", *at, "-c", CLUSTER, "-o", "json").rows
    assert [each["alive"] for each in row["in_sync"]] == [True, True]
    assert replicas.run("mqadmin", "getSyncStateSet", *at).code == 2


def test_another_master_by_command(replicas: Replicas) -> None:
    state = replicas.settled()
    others = [r.broker_id for r in state.in_sync_replicas if r.broker_id != state.master_broker_id]
    at = ("-a", replicas.controllers, "-bn", GROUP, "-c", CLUSTER, "-b", str(others[0]))
    (row,) = replicas.run("mqadmin", "electMaster", *at, "-o", "json").rows
    assert row["master_epoch"] > state.master_epoch
    assert row["master_address"] != state.master_address
    assert len(row["members"]) == 2
    assert replicas.settled().master_broker_id == others[0]
    assert replicas.run("mqadmin", "electMaster", *at[:-1], "99").code == 1


def test_options(replicas: Replicas) -> None:
    first = replicas.cluster.controllers[0].address
    ran = replicas.run("mqadmin", "getControllerConfig", "-a", first)
    assert ran.lines[0] == f"============{first}============"
    at = ("-a", replicas.controllers, "-k", "scanNotActiveBrokerInterval")
    ran = replicas.run("mqadmin", "updateControllerConfig", *at, "-v", "4000")
    assert ran.lines[0].startswith("update controller config success![127.0.0.1:")
    (row,) = replicas.run("mqadmin", "getControllerConfig", "-a", first, "-o", "json").rows
    assert row["scanNotActiveBrokerInterval"] == "4000"
    ran = replicas.run("mqadmin", "updateControllerConfig", *at[:2], "-k", "nonsense", "-v", "1")
    assert ran.code == 1


def test_nobody_is_forgotten_while_alive(replicas: Replicas) -> None:
    at = ("-a", replicas.controllers, "-bn", GROUP)
    assert replicas.run("mqadmin", "cleanBrokerMetadata", *at, "-b", "1", "-c", CLUSTER).code == 1
    assert replicas.run("mqadmin", "cleanBrokerMetadata", *at, "-b", "x", "-c", CLUSTER).code == 2
    assert replicas.run("mqadmin", "cleanBrokerMetadata", *at, "-b", "1").code == 2
