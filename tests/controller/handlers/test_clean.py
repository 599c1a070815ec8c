"""1011: forgetting replicas; what was listed goes, and nothing else."""

import pytest
from tests.controller.world import CLEAN, KEY, Broker, World, brokers, live_on


@pytest.fixture
def found() -> list[Broker]:
    return brokers(World())


def clean(broker: Broker, ids: str | None, *, living: bool = False, **more: str) -> int:
    ext = {"brokerName": "b", "isCleanLivingBroker": str(living).lower(), **more}
    if ids is not None:
        ext["brokerControllerIdsToClean"] = ids
    return broker.world.ask(CLEAN, ext).code


def test_a_dead_replica_goes(found: list[Broker]) -> None:
    world = found[0].world
    live_on(world, found[:2], 11_000, every=1_000)
    assert clean(found[0], "3") == 0
    assert sorted(world.group.replicas) == [1, 2]
    assert world.group.members == [1, 2]


def test_a_living_one_only_with_the_flag_and_then_it_alone(found: list[Broker]) -> None:
    """Upstream drops the whole group here (defects, part 2.16)."""
    assert clean(found[0], "3") == 2009
    assert clean(found[0], "3", living=True) == 0
    assert sorted(found[0].world.group.replicas) == [1, 2]


def test_the_whole_group(found: list[Broker]) -> None:
    assert clean(found[0], None) == 2009, "it has a master"
    assert clean(found[0], None, living=True) == 0
    assert found[0].world.leader.machine.groups == {}


def test_what_is_no_list_of_numbers(found: list[Broker]) -> None:
    assert clean(found[0], "1;x") == 2009
    assert clean(found[0], "-1") == 2009
    assert clean(found[0], "9" * 30) == 2009


def test_an_unknown_group(found: list[Broker]) -> None:
    assert found[0].world.ask(CLEAN, {"brokerName": "x"}).code == 2009
    assert clean(found[0], "3", living=True, clusterName="other") == 2009


def test_the_last_member_of_the_set_stays(found: list[Broker]) -> None:
    assert found[0].alter([1]).code == 0
    assert clean(found[0], "1", living=True) == 2009
    assert found[0].world.group.members == [1]


def test_cleaning_the_master_elects_another(found: list[Broker]) -> None:
    world = found[0].world
    assert clean(found[0], "1", living=True) == 0
    world.run(50)
    assert world.group.master in (2, 3)
    assert world.group.epoch == 2


def test_by_address_as_5_0_asks(found: list[Broker]) -> None:
    world = found[0].world
    ext = {"brokerName": "b", "clusterName": "c", "isCleanLivingBroker": "true"}
    assert world.ask(CLEAN, {**ext, "brokerAddress": "10.0.0.9:1"}).code == 2009
    assert world.ask(CLEAN, {**ext, "brokerAddress": found[2].address}).code == 0
    assert sorted(world.leader.machine.groups[KEY].replicas) == [1, 2]


def test_a_possibly_live_replica_is_not_cleaned_after_a_leader_change() -> None:
    world = World(3)
    found = brokers(world)
    live_on(world, found[:2], 11_000, every=1_000)
    leader = next(name for name, node in world.nodes.items() if node is world.leader)
    world.stop(leader)
    while not any(node.core.context.leads for node in world.nodes.values()):
        world.run(10)
    ext = {"brokerName": "b", "brokerControllerIdsToClean": "3", "isCleanLivingBroker": "false"}
    refused = world.ask(CLEAN, ext)
    assert refused.code == 2009
    assert refused.remark is not None
    assert "has not heard of it" in refused.remark
    left_ms = int(refused.remark.split("try again in ")[1].split()[0])
    assert 0 < left_ms <= 10_000
    live_on(world, found[:2], left_ms, every=500)
    assert world.ask(CLEAN, ext).code == 0
