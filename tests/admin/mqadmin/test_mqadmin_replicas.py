"""`getBrokerEpoch` on a group of ours."""

from tests.admin.replicated import CLUSTER, GROUP, Replicas
from tests.admin.world import World


def test_epochs_of_both(replicas: Replicas) -> None:
    state = replicas.settled()
    rows = replicas.run("mqadmin", "getBrokerEpoch", "-b", GROUP, "-o", "json").rows
    assert rows[0]["broker_address"] == state.master_address
    assert {row["epochs"][-1]["epoch"] for row in rows} == {state.master_epoch}
    lines = replicas.run("mqadmin", "getBrokerEpoch", "-c", CLUSTER).lines
    assert sum(line.startswith("#Epoch: EpochEntry{epoch=") for line in lines) >= 2


def test_a_broker_without_controllers(world: World) -> None:
    ran = world.mqadmin("getBrokerEpoch", "-b", "broker-a")
    assert ran.code == 1
    assert world.mqadmin("getBrokerEpoch", "-b", "broker-z").code == 5
    assert world.mqadmin("getBrokerEpoch").code == 2


def test_the_links_of_a_master_and_of_a_slave(replicas: Replicas) -> None:
    state = replicas.settled()
    (row,) = replicas.run("mqadmin", "haStatus", "-c", CLUSTER, "-o", "json").rows
    assert row["broker_address"] == state.master_address
    assert (row["master"], row["in_sync_slaves"], row["slaves"][0]["in_sync"]) == (True, 1, True)
    lines = replicas.run("mqadmin", "haStatus", "-b", str(state.master_address)).lines
    assert f"#MasterAddr\t{state.master_address}" in lines
    assert "#InSyncSlaveNum\t1" in lines
    assert lines[-1].split()[3] == "0.00"
    addresses = [replica.broker_address for replica in state.in_sync_replicas]
    slave = next(a for a in addresses if a != state.master_address)
    done = replicas.run("mqadmin", "resetMasterFlushOffset", "-b", slave, "-o", "77")
    assert done.lines == ["reset master flush offset to 77 success"]
    lines = replicas.run("mqadmin", "haStatus", "-b", slave).lines
    assert "#MasterFlushOffset\t77" in lines
    assert any(line.startswith("#LastReadTime\t") for line in lines)
    (row,) = replicas.run("mqadmin", "-o", "json", "haStatus", "-b", slave).rows
    assert (row["master"], row["master_flush_offset"]) == (False, 77)


def test_whose_links_must_be_said(world: World) -> None:
    assert world.mqadmin("haStatus").code == 2
    assert "#SlaveNum\t0" in world.mqadmin("haStatus", "-b", world.broker).lines
