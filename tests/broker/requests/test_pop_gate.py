"""Whether a pop is allowed: upstream's checks and codes."""

import pytest
from tests.broker.become import become
from tests.broker.pop_harness import PopHarness, pop

from epochmq.broker.serving.roles import Role
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "X"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "W"}, ResponseCode.NO_PERMISSION),
        ({"topic": "B"}, ResponseCode.SYSTEM_ERROR),
        ({"queue_id": 1}, ResponseCode.SYSTEM_ERROR),
        ({"queue_id": 1, "version": 495}, ResponseCode.INVALID_PARAMETER),
        ({"count": 33}, ResponseCode.SYSTEM_ERROR),
        ({"count": 33, "version": 495}, ResponseCode.INVALID_PARAMETER),
        ({"count": 0}, ResponseCode.SYSTEM_ERROR),
        ({"invisible_ms": 0}, ResponseCode.SYSTEM_ERROR),
        ({"invisible_ms": 1 << 40}, ResponseCode.SYSTEM_ERROR),
        ({"group": "off"}, ResponseCode.NO_PERMISSION),
        ({"group": "bad group"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"exp": "a >", "expType": "SQL92"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"exp": " || ", "expType": "TAG"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
def test_refusals(changes: dict[str, object], code: int) -> None:
    harness = PopHarness(enable_property_filter=True)
    harness.topic("W", perm=2)
    harness.topic("B", attributes={"queue.type": "BatchCQ"})
    harness.node.groups.put(
        SubscriptionGroupConfig(group_name="off", consume_enable=False), harness.clock.wall
    )
    answer = harness.client().ask(pop(**changes))  # type: ignore[arg-type]
    assert answer.code == code
    assert answer.remark


def test_a_broker_that_may_not_be_read() -> None:
    harness = PopHarness(broker_permission=2)
    assert harness.client().ask(pop()).code == ResponseCode.NO_PERMISSION


def test_the_fast_port_serves_no_pops() -> None:
    harness = PopHarness()
    answer = harness.client(fast_port=True).ask(pop())
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("role", [Role.SLAVE, Role.FENCED])
def test_only_a_master_hands_out(role: Role) -> None:
    harness = PopHarness()
    harness.put(b"a")
    become(harness.node, role)
    answer = harness.client().ask(pop())
    assert answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE)


def test_a_header_without_its_fields() -> None:
    harness = PopHarness()
    command = pop()
    assert command.ext is not None
    del command.ext["topic"]
    assert harness.client().ask(command).code == ResponseCode.SYSTEM_ERROR
    assert command.code == Code.POP_MESSAGE
