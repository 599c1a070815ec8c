"""What the health endpoint of a broker answers in each role."""

import time
from collections.abc import Callable
from typing import cast

import pytest
from tests.broker.become import become
from tests.broker.fake_node import FakeNode

from epochmq.broker.server.broker_health import health_checks
from epochmq.broker.serving.group_position import GroupStatus
from epochmq.broker.serving.roles import Role
from epochmq.client.sync import Producer
from epochmq.model.message import Message
from epochmq.runtime.health_server import Health
from epochmq.testing.mini_cluster import MiniCluster, broker_context

SERVING = {Role.MASTER, Role.ACTING_MASTER}
UNHEALTHY = {Role.PRE_ONLINE: "not online yet", Role.FENCED: "no role"}


def checks_of(node: FakeNode, *, registered: bool = True) -> dict[str, Callable[[], Health]]:
    return health_checks(node, lambda: registered)


@pytest.mark.parametrize("role", list(Role))
def test_the_answers_of_a_role(role: Role) -> None:
    node = FakeNode()
    become(node, role)
    checks = checks_of(node)
    found = {path: check() for path, check in checks.items()}
    assert found["/-/master"].ok == (role is Role.MASTER)
    assert found["/-/serving"].ok == (role in SERVING)
    assert found["/-/live"].ok
    assert found["/-/master"].facts["role"] == role.name
    for path in ("/-/healthy", "/-/ready"):
        assert found[path].ok == (role not in UNHEALTHY)
        assert UNHEALTHY.get(role, "") in str(found[path].facts["reason"])


def test_a_master_without_a_lease_is_no_master() -> None:
    node = FakeNode()
    checks = checks_of(node)
    assert checks["/-/master"]().ok
    assert checks["/-/healthy"]().ok
    node.serving.grant_lease(0)
    assert not checks["/-/master"]().ok
    assert not checks["/-/serving"]().ok
    assert "lease is over" in str(checks["/-/healthy"]().facts["reason"])


def test_a_broker_that_no_name_server_knows_is_healthy_but_not_ready() -> None:
    checks = checks_of(FakeNode(), registered=False)
    assert checks["/-/healthy"]().ok
    ready = checks["/-/ready"]()
    assert not ready.ok
    assert "registered at no name server" in str(ready.facts["reason"])


class Replica:
    """Stands for the membership of a group."""

    is_in_sync = False
    copy_problem = ""


@pytest.mark.parametrize(
    ("role", "is_ready"), [(Role.SLAVE, False), (Role.LEARNER, True), (Role.MASTER, True)]
)
def test_a_slave_is_ready_when_it_is_in_sync(role: Role, is_ready: bool) -> None:
    node = FakeNode()
    become(node, role)
    replica = Replica()
    node.join_group(cast(GroupStatus, replica), node.group_position, None)
    ready = checks_of(node)["/-/ready"]
    assert ready().ok is is_ready
    assert checks_of(node)["/-/healthy"]().ok
    if not is_ready:
        assert "not in the sync-state set" in str(ready().facts["reason"])
    replica.is_in_sync = True
    assert ready().ok


def test_a_replica_that_returns_is_ready_when_the_others_wait_for_it() -> None:
    with MiniCluster(3) as cluster, Producer(cluster.namesrv, "p") as producer:
        name = cluster.kill("slave")
        producer.send(Message("T", b"1"), timeout_ms=30_000)
        assert len(broker_context(cluster).group_position.members) == 2
        cluster.start_server(name)
        returned = broker_context(cluster, name)
        ready = health_checks(returned, lambda: True)["/-/ready"]
        deadline = time.monotonic() + 30
        while not ready().ok:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert returned.group_position.own_id in broker_context(cluster).group_position.members
