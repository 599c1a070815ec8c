"""Handlers that wait."""

from tests.controller.world import KEY

from epochmq.controller.steps import ConfirmLeadership, ControllerCall, Election, Steps, Write
from epochmq.wire.command import Reply, request


def test_a_call_begins_unfinished() -> None:
    call = ControllerCall(7, request(1005), 3, 4_000)
    assert (call.token, call.session_id, call.deadline_ms) == (7, 3, 4_000)
    assert not call.done
    assert not call.waits_for_election


def test_a_handler_yields_what_it_waits_for() -> None:
    def handler() -> Steps:
        yield ConfirmLeadership()
        yield Election(KEY, 5)
        return Reply(1)

    steps = handler()
    assert next(steps) == ConfirmLeadership()
    assert steps.send(None) == Election(KEY, 5)
    assert Write.__dataclass_params__.frozen  # type: ignore[attr-defined]
