"""Which process has a role, asked of a real group."""

import pytest
from tests.admin.replicated import Replicas

from epochmq.admin.local.server_roles import find
from epochmq.base.errors import NotFound


async def test_each_role_is_somebody(replicas: Replicas) -> None:
    state = await replicas.whole()
    (master,) = await find(replicas.cluster, "master")
    (slave,) = await find(replicas.cluster, "slave")
    assert master.address == state.master_address
    assert {master.name, slave.name} == {"broker-0", "broker-1"}
    (leader,) = await find(replicas.cluster, "controller-leader")
    (follower,) = await find(replicas.cluster, "controller-follower")
    assert leader.name != follower.name
    assert [part.name for part in await find(replicas.cluster, "namesrv")] == ["namesrv"]
    assert len(await find(replicas.cluster, "all")) == 7


async def test_nobody(replicas: Replicas) -> None:
    with pytest.raises(NotFound, match="nothing here is called 'x'; there is namesrv"):
        await find(replicas.cluster, "x")
