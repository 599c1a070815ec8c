"""1002: asked for by brokers and by operators."""

import pytest
from tests.controller.world import ELECT, NAMES, Broker, World, brokers, fields, live_on

from epochmq.wire.command import Reply
from epochmq.wire.json_tolerant import loads


@pytest.fixture
def found() -> list[Broker]:
    return brokers(World())


def designate_later(broker: Broker, **more: str) -> int:
    """The token of the answer, which may take a lease's time."""
    ext = {**NAMES, "brokerId": str(broker.id), "designateElect": "true", "invokeTime": "1"}
    return broker.world.send(ELECT, ext | more)


def designate(broker: Broker, **more: str) -> Reply:
    ext = {**NAMES, "brokerId": str(broker.id), "designateElect": "true", "invokeTime": "1"}
    return broker.world.ask(ELECT, ext | more)


def test_the_first_to_ask_becomes_master_of_a_group_without_data() -> None:
    world = World()
    pair = [Broker(world, 1), Broker(world, 2)]
    for broker in pair:
        broker.apply()
        broker.register()
        broker.beat()
    reply = pair[1].elect()
    assert reply.code == 0
    assert fields(reply) == {
        "masterBrokerId": "2",
        "masterAddress": "10.0.0.2:10911",
        "masterEpoch": "1",
        "syncStateSetEpoch": "1",
    }


def test_the_body_serves_both_generations_of_tools(found: list[Broker]) -> None:
    token = designate_later(found[1])
    found[0].resign = True
    found[0].beat()
    found[0].world.run(1)
    body = loads(bytes(found[0].world.answers[token].body))  # type: ignore[arg-type]
    addresses = {str(broker.id): broker.address for broker in found}
    group = {"brokerAddrs": addresses, "brokerName": "b", "cluster": "c"}
    assert body["brokerMemberGroup"] == group
    assert {key: body[key] for key in group} == group
    assert body["syncStateSet"] == [1, 2, 3]


def test_a_living_master_stays_and_is_shown(found: list[Broker]) -> None:
    reply = found[1].elect()
    assert reply.code == 2011
    assert fields(reply)["masterBrokerId"] == "1"
    assert fields(reply)["masterEpoch"] == "1"
    body = loads(bytes(reply.body))  # type: ignore[arg-type]
    assert body["syncStateSet"] == [1, 2, 3]


def test_an_unknown_group() -> None:
    world = World()
    assert world.ask(ELECT, {**NAMES, "brokerId": "1"}).code == 2010


def test_nobody_electable(found: list[Broker]) -> None:
    world = found[0].world
    assert found[0].alter([1]).code == 0
    found[0].close(refused=True)
    world.run(50)
    assert found[1].elect().code == 2012
    assert world.ask(ELECT, {"brokerName": "b", "clusterName": "c"}).code == 2004
    assert world.group.epoch == 1, "no epoch is spent on nobody (rocketmq#6505)"


def test_an_operator_moves_the_master_which_steps_down_first(found: list[Broker]) -> None:
    world = found[0].world
    token = world.send(ELECT, {**NAMES, "brokerId": "3", "designateElect": "true"}, session=900)
    world.run(20)
    assert world.group.master == 1
    assert fields(found[0].beat())["stepDown"] == "true"
    found[0].resign = True
    found[0].beat()
    world.run(1)
    assert world.answers[token].code == 0
    assert (world.group.master, world.group.epoch, world.group.members) == (3, 2, [1, 2, 3])


def test_a_master_that_does_not_hear_loses_its_lease_first(found: list[Broker]) -> None:
    world = found[0].world
    found[0].beat()
    token = designate_later(found[2])
    live_on(world, found[1:], 2_050)
    assert token not in world.answers
    assert world.group.master == 1
    live_on(world, found[1:], 100)
    assert world.answers[token].code == 0
    assert world.group.master == 3


def test_a_stock_master_is_replaced_at_once() -> None:
    found = brokers(World(), stock=True)
    world = found[0].world
    began = world.now
    assert designate(found[1]).code == 0
    assert world.now - began <= 20
    assert world.group.master == 2


def test_the_present_master_by_command(found: list[Broker]) -> None:
    assert designate(found[0]).code == 2011


def test_dead_unknown_and_learner_brokers_are_not_elected(
    found: list[Broker],
) -> None:
    world = found[0].world
    assert designate(Broker(world, 9)).code == 2012
    learner = Broker(world, 4, learner=True)
    learner.apply()
    learner.register()
    learner.beat()
    assert designate(learner, uncleanElect="true").code == 2012
    found[1].close(refused=True)
    assert designate(found[1]).code == 2012
    assert (world.group.master, world.group.epoch) == (1, 1)


def test_from_outside_the_set_only_with_consent(
    found: list[Broker], caplog: pytest.LogCaptureFixture
) -> None:
    world = found[0].world
    assert found[0].alter([1, 2]).code == 0
    reply = designate(found[2])
    assert reply.code == 2012
    assert "uncleanElect" in str(reply.remark)
    token = designate_later(found[2], uncleanElect="true")
    live_on(world, found[1:], 2_200)
    assert world.answers[token].code == 0
    assert (world.group.master, world.group.members) == (3, [3])
    assert "UNCLEAN election" in caplog.text


def test_the_switch_is_a_consent_too(found: list[Broker]) -> None:
    world = found[0].world
    assert world.ask(1009, None, b"enableElectUncleanMaster=true").code == 0
    assert found[0].alter([1]).code == 0
    found[0].close(refused=True)
    found[1].offset, found[2].offset = 5, 9
    live_on(world, found[1:], 1_500)
    assert (world.group.master, world.group.members) == (3, [3])


def test_a_master_of_ours_that_asks_gets_a_new_epoch(found: list[Broker]) -> None:
    """It asks only when it does not act as master: after stepping down for nothing."""
    world = found[0].world
    found[0].offset = 100
    found[0].beat()
    world.refusing.update(broker.address for broker in found[1:])
    found[1].close()
    found[2].close()
    reply = found[0].elect()
    assert reply.code == 0
    assert (world.group.master, world.group.epoch) == (1, 2)


def test_a_question_over_another_connection_ends_no_lease(found: list[Broker]) -> None:
    """It may have been under way since before the master was elected."""
    world = found[0].world
    found[0].beat()
    older, found[0].connection = found[0].connection, 200
    found[0].beat()
    before = world.group.epoch
    found[0].connection = older
    found[0].elect()
    world.run(1_900)
    assert (world.group.master, world.group.epoch) == (1, before)
