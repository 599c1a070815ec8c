"""Which request finds a handler."""

from tests.controller.world import World, brokers

from epochmq.controller.handlers.controller_request_table import HANDLERS
from epochmq.wire.codes import RequestCode


def test_all_requests_of_the_family_are_served() -> None:
    family = {904, *range(1001, 1014)} - {1007, 1008}
    assert {int(code) for code in HANDLERS} == family | {RequestCode.CONTROLLER_GET_TIMELINE}


def test_only_what_any_controller_may_answer_is_answered_by_all() -> None:
    everybody = {RequestCode(code).name for code, (_, leader) in HANDLERS.items() if not leader}
    assert everybody == {
        "BROKER_HEARTBEAT",
        "CONTROLLER_GET_METADATA_INFO",
        "UPDATE_CONTROLLER_CONFIG",
        "GET_CONTROLLER_CONFIG",
    }


def test_an_unknown_code() -> None:
    assert World().ask(1007).code == 3


def test_1003_is_told_apart_by_its_fields() -> None:
    world = World()
    brokers(world, 1)
    assert not world.group.by_address
