"""What the health endpoint of a broker answers in each role."""

import pytest
from tests.broker.become import become
from tests.broker.fake_node import FakeNode

from epochmq.broker.server.broker_health import health_checks
from epochmq.broker.serving.roles import Role

SERVING = {Role.MASTER, Role.ACTING_MASTER}


@pytest.mark.parametrize("role", list(Role))
def test_the_answers_of_a_role(role: Role) -> None:
    node = FakeNode()
    become(node, role)
    checks = health_checks(node)
    found = {path: check() for path, check in checks.items()}
    assert found["/-/master"].ok == (role is Role.MASTER)
    assert found["/-/serving"].ok == (role in SERVING)
    assert found["/-/live"].ok
    assert found["/-/master"].facts["role"] == role.name


def test_a_master_without_a_lease_is_no_master() -> None:
    node = FakeNode()
    checks = health_checks(node)
    assert checks["/-/master"]().ok
    node.serving.grant_lease(0)
    assert not checks["/-/master"]().ok
    assert not checks["/-/serving"]().ok
