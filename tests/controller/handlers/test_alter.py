"""1001: every check in its order, with the code of each generation."""

import msgspec
import pytest
from tests.controller.world import ALTER, Broker, World, brokers, fields, live_on

from epochmq.wire.command import Reply


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture
def stock() -> list[Broker]:
    """Three of RocketMQ's brokers; the first is master, all are in the set."""
    return brokers(World(), stock=True)


def sent(broker: Broker, members: list[int], **changes: object) -> Reply:
    """An alteration by `broker` of what the controllers hold, changed here and there."""
    group = broker.world.group
    header = {
        "brokerName": "b",
        "masterBrokerId": str(broker.id),
        "masterEpoch": str(group.epoch),
        "invokeTime": "1",
    } | {key: str(value) for key, value in changes.items() if key != "set_epoch"}
    epoch = changes.get("set_epoch", group.set_epoch)
    body = f'{{"syncStateSet":{members},"syncStateSetEpoch":{epoch}}}'.encode()
    return broker.world.ask(ALTER, header, body, session=broker.connection)


def test_the_new_set_comes_back_with_its_epoch(stock: list[Broker]) -> None:
    before = stock[0].world.group.set_epoch
    reply = sent(stock[0], [1, 2])
    assert reply.code == 0
    assert fields(reply) == {"newSyncStateSetEpoch": str(before + 1)}
    body = msgspec.json.decode(bytes(reply.body))  # type: ignore[arg-type]
    assert body == {"syncStateSet": [1, 2], "syncStateSetEpoch": before + 1}


def test_1_an_unknown_group(world: World) -> None:
    body = b'{"syncStateSet":[1],"syncStateSetEpoch":0}'
    header = {"brokerName": "x", "masterBrokerId": "1", "masterEpoch": "1"}
    assert world.ask(ALTER, header, body).code == 2013


def test_2_the_same_set_comes_before_all_that_follows(stock: list[Broker]) -> None:
    assert sent(stock[1], [3, 2, 1], masterEpoch=99, set_epoch=99).code == 2013


def test_3_somebody_else_than_the_master(stock: list[Broker]) -> None:
    assert sent(stock[1], [1, 2], masterEpoch=99, set_epoch=99).code == 2002


def test_4_another_master_epoch(stock: list[Broker]) -> None:
    assert sent(stock[0], [1, 99], masterEpoch=99, set_epoch=99).code == 2000


def test_5_another_set_epoch(stock: list[Broker]) -> None:
    assert sent(stock[0], [1, 99], set_epoch=99).code == 2001


def test_6_an_unknown_member(stock: list[Broker]) -> None:
    assert sent(stock[0], [2, 99]).code == 2003


def test_6_a_dead_member_comes_before_a_missing_master(stock: list[Broker]) -> None:
    live_on(stock[0].world, stock[:2], 11_000, every=1_000)
    assert sent(stock[0], [2, 3]).code == 2006
    assert sent(stock[0], [1, 2]).code == 0


def test_7_a_set_without_the_master(stock: list[Broker]) -> None:
    assert sent(stock[0], [2, 3]).code == 2013


def test_a_learner_is_no_member() -> None:
    world = World()
    found = brokers(world, 2)
    learner = Broker(world, 3, learner=True)
    assert learner.apply().code == learner.register().code == 0
    learner.beat_all()
    assert found[0].alter([1, 2, 3]).code == 2003


def test_a_repeat_is_a_success_for_ours_and_2013_for_others() -> None:
    found = brokers(World())
    epoch = found[0].world.group.set_epoch
    reply = found[0].alter([1, 2, 3], set_epoch=epoch - 1)
    assert reply.code == 0
    assert fields(reply) == {"newSyncStateSetEpoch": str(epoch)}
    assert found[1].alter([1, 2, 3]).code == 2013, "not the master"
    found[0].stock = True
    assert found[0].alter([1, 2, 3], set_epoch=epoch - 1).code == 2013


def test_the_present_set_proposed_again_settles_what_may_still_be_on_its_way() -> None:
    """S30: else a proposal that nobody answered would be open for as long as the set stays."""
    found = brokers(World())
    before = found[0].world.group.set_epoch
    live_on(found[0].world, found[:2], 11_000, every=1_000)
    reply = found[0].alter([1, 2, 3], set_epoch=before)
    assert reply.code == 0, "that a member is dead is no reason: nobody comes in"
    assert fields(reply) == {"newSyncStateSetEpoch": str(before + 1)}
    assert found[0].world.group.members == [1, 2, 3]
    assert found[0].alter([1, 2], set_epoch=before).code == 2001, "the late one"
    found[0].stock = True
    assert found[0].alter([1, 2, 3], set_epoch=before + 1).code == 2013, "RocketMQ's brokers"


def test_two_at_once_are_told_apart_when_they_are_applied() -> None:
    found = brokers(World())
    world, group = found[0].world, found[0].world.group
    header = {"brokerName": "b", "masterBrokerId": "1", "masterEpoch": str(group.epoch)}
    texts = [f'{{"syncStateSet":{m},"syncStateSetEpoch":{group.set_epoch}}}' for m in ([1], [1, 2])]
    leader = world.leader
    tokens = []
    for text in texts:
        world.tokens += 1
        tokens.append(world.tokens)
        from epochmq.wire.command import request

        leader.request(world.tokens, request(ALTER, header, text.encode()), 101, world.now)
    world._carry_out("n0")
    assert [world.answers.pop(token).code for token in tokens] == [0, 2001]
    assert world.group.members == [1]


def test_a_body_that_is_none(stock: list[Broker]) -> None:
    header = {"brokerName": "b", "masterBrokerId": "1", "masterEpoch": "1"}
    world = stock[0].world
    assert world.ask(ALTER, header, b"").code == 1
    assert world.ask(ALTER, header, b"[").code == 1
    assert world.ask(ALTER, {"brokerName": "b", "masterBrokerId": "1"}, b"{}").code == 1


def test_a_leader_that_heard_of_nobody_yet_refuses_no_set() -> None:
    """It shows them as dead, but they may have spoken to the leader before it alone."""
    world = World()
    found = brokers(world)
    world.stop("n0")
    world.start("n0")
    world.run(2_000)
    found[0].beat()
    assert found[0].alter([1, 2]).code == 0
