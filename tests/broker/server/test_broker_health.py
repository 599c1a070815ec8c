"""What the health endpoint of a broker answers in each role."""

from collections.abc import Callable

import pytest
from tests.broker.become import become
from tests.broker.fake_node import FakeNode

from epochmq.broker.server.broker_health import health_checks
from epochmq.broker.serving.roles import Role
from epochmq.runtime.health_server import Health

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


@pytest.mark.parametrize(
    ("what", "reason"), [("fence", "writes nothing more: gone"), ("disk", "the disk is full")]
)
def test_what_keeps_the_store_from_its_work(what: str, reason: str) -> None:
    node = FakeNode()
    if what == "fence":
        node.fake.fenced = "gone"
    else:
        node.fake.disk_full = True
    healthy = checks_of(node)["/-/healthy"]()
    assert not healthy.ok
    assert reason in str(healthy.facts["reason"])
