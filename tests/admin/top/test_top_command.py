"""`epochmq top` on a group with controllers, once and following."""

import subprocess

from tests.admin.replicated import CLUSTER, GROUP, Replicas
from tests.admin.shell import ARGV, read_until


def test_once(replicas: Replicas) -> None:
    state = replicas.settled()
    rows = replicas.run("top", "--once", "-o", "json").rows
    assert sorted(row["role"] for row in rows) == ["master", "slave"]
    assert {row["epoch"] for row in rows} == {state.master_epoch}
    assert all(row["in_sync"] for row in rows)
    assert all(row["in_tps"] >= 0 and row["out_tps"] >= 0 for row in rows)


def test_changes_are_told_as_they_happen(replicas: Replicas) -> None:
    state = replicas.settled()
    others = [r.broker_id for r in state.in_sync_replicas if r.broker_id != state.master_broker_id]
    argv = [*ARGV, "top", "-n", replicas.cluster.namesrv, "-i", "0.1", "-a", replicas.controllers]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        read_until(child, "watching")
        at = ("-a", replicas.controllers, "-bn", GROUP, "-c", CLUSTER, "-b", str(others[0]))
        assert replicas.run("mqadmin", "electMaster", *at).code == 0
        said = read_until(child, f"{GROUP}: master {state.master_address} -> ")
        child.terminate()
    assert f"epoch {state.master_epoch} -> " in said
