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
