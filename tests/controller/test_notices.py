"""Telling brokers of a new master."""

import msgspec
from tests.controller.world import Broker, World, brokers, live_on

from epochmq.controller.controller_effects import Notify
from epochmq.controller.notices import TRIES_MAX


def killed(world: World, found: list[Broker]) -> list[Notify]:
    """The notices that follow the death of the first broker."""
    world.notices.clear()
    for broker in found[1:]:
        broker.beat()
    found[0].close(refused=True)
    world.run(1)
    return list(world.notices)


def resigned(world: World, found: list[Broker]) -> list[Notify]:
    """The notices that follow when the first broker steps down."""
    world.notices.clear()
    for broker in found[1:]:
        broker.beat()
    found[0].resign = True
    found[0].beat()
    world.run(1)
    return list(world.notices)


def test_a_gone_broker_is_not_notified() -> None:
    world = World()
    found = brokers(world)
    told = killed(world, found)
    assert [notice.address for notice in told] == [found[1].address, found[2].address]


def test_all_are_told_the_new_master_first_the_old_one_too() -> None:
    world = World()
    found = brokers(world)
    told = resigned(world, found)
    assert [notice.address for notice in told] == [
        found[1].address,
        found[0].address,
        found[2].address,
    ]
    assert all(notice.acknowledged for notice in told)
    ext = told[2].command.ext
    assert ext == {
        "masterAddress": found[1].address,
        "masterEpoch": "2",
        "syncStateSetEpoch": "3",
        "masterBrokerId": "2",
        "brokerId": "3",
        "clusterName": "c",
        "brokerName": "b",
        "masterHaAddress": "10.0.0.2:10912",
    }
    assert told[0].command.ext is not None
    assert told[0].command.ext["brokerId"] == "0"
    body = msgspec.json.decode(told[0].command.body)
    assert body == {"syncStateSet": [2, 3], "syncStateSetEpoch": 3}


def test_an_unacknowledged_notice_is_repeated_up_to_a_limit() -> None:
    world = World()
    found = brokers(world)
    world.ignoring.add(found[2].address)
    killed(world, found)
    live_on(world, found[1:], 60_000, every=1_000)
    tries = [notice for notice in world.notices if notice.address == found[2].address]
    assert len(tries) == TRIES_MAX
    assert world.leader.core.notices.open_count == 0


def test_a_newer_epoch_takes_the_place_of_an_older_notice() -> None:
    world = World()
    found = brokers(world)
    world.ignoring.add(found[2].address)
    killed(world, found)
    found[2].beat()
    found[1].close(refused=True)
    world.run(20_000)
    last = [n.command.ext for n in world.notices if n.address == found[2].address][-1]
    assert last is not None
    assert last["masterEpoch"] == "3"
    epochs = [n.command.ext["masterEpoch"] for n in world.notices if n.command.ext]
    assert epochs == sorted(epochs)


def test_stock_brokers_are_told_once() -> None:
    world = World()
    found = brokers(world, stock=True)
    told = killed(world, found)
    assert len(told) == 2
    assert not any(notice.acknowledged for notice in told)
    world.run(5_000)
    assert len(world.notices) == 2


def test_notices_can_be_switched_off() -> None:
    world = World(notify_broker_role_changed=False)
    assert killed(world, brokers(world)) == []


def test_a_controller_that_leads_no_more_tells_nobody() -> None:
    world = World()
    found = brokers(world)
    world.ignoring.add(found[2].address)
    killed(world, found)
    core = world.leader.core
    assert core.notices.open_count > 0
    core.lost_leadership(world.now)
    assert core.notices.open_count == 0
