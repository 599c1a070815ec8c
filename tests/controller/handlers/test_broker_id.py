"""1012 and 1013: numbers for new replicas."""

from tests.controller.world import APPLY_ID, KEY, NAMES, NEXT_ID, Broker, World, fields


def next_id(world: World) -> str:
    return fields(world.ask(NEXT_ID, NAMES))["nextBrokerId"]


def apply(world: World, number: int, check_code: str) -> int:
    ext = {**NAMES, "appliedBrokerId": str(number), "registerCheckCode": check_code}
    return world.ask(APPLY_ID, ext).code


def test_two_that_were_shown_the_same_number() -> None:
    world = World()
    assert next_id(world) == "1"
    assert apply(world, 1, "a:1;5") == 0
    assert apply(world, 1, "b:1;5") == 2014
    assert apply(world, 1, "a:1;5") == 0, "the same again is the same"
    assert next_id(world) == "2"
    assert apply(world, 2, "b:1;5") == 0
    assert world.group.replicas[2].address == "b:1"


def test_the_first_of_a_group_has_the_number_one() -> None:
    world = World()
    assert apply(world, 2, "a:1;5") == 2014
    assert apply(world, 0, "a:1;5") == 2014
    assert apply(world, 2**62, "a:1;5") == 2014
    assert KEY not in world.leader.machine.groups


def test_the_answer_names_the_group() -> None:
    world = World()
    assert fields(Broker(world, 1).apply()) == NAMES
    assert fields(world.ask(NEXT_ID, NAMES)) == {**NAMES, "nextBrokerId": "2"}


def test_what_is_missing_is_named() -> None:
    world = World()
    reply = world.ask(APPLY_ID, {**NAMES, "appliedBrokerId": "1"})
    assert reply.code == 1
    assert "registerCheckCode" in str(reply.remark)
    assert world.ask(APPLY_ID, {**NAMES, "appliedBrokerId": "1", "registerCheckCode": ""}).code == 1
