"""1003 of 5.0: an address becomes a replica, the first one master."""

import msgspec
from tests.controller.world import (
    ALTER,
    ELECT,
    HEARTBEAT,
    NAMES,
    REGISTER,
    Broker,
    World,
    brokers,
    fields,
)

from epochmq.wire.command import Reply


class Old:
    """A broker of RocketMQ 5.0."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.address = f"10.5.0.{number}:10911"
        self.session = 500 + number
        self.epoch = self.offset = 0

    def register(self) -> Reply:
        ext = {
            **NAMES,
            "brokerAddress": self.address,
            "epoch": str(self.epoch),
            "maxOffset": str(self.offset),
        }
        return self.world.ask(REGISTER, ext, session=self.session, version=413)

    def beat(self) -> Reply:
        ext = {
            **NAMES,
            "brokerAddr": self.address,
            "epoch": str(self.epoch),
            "maxOffset": str(self.offset),
            "confirmOffset": "0",
        }
        return self.world.ask(HEARTBEAT, ext, session=self.session, version=413)

    def close(self) -> None:
        node = self.world.leader
        node.channel_closed(self.session, self.world.now)
        self.world._carry_out("n0")

    def alter(self, addresses: list[str], epoch: int, set_epoch: int) -> Reply:
        ext = {"brokerName": "b", "masterAddress": self.address, "masterEpoch": str(epoch)}
        body = msgspec.json.encode({"syncStateSet": addresses, "syncStateSetEpoch": set_epoch})
        return self.world.ask(ALTER, ext, body, session=self.session, version=413)


def test_the_first_becomes_master_and_the_second_follows() -> None:
    world = World()
    first, second = Old(world, 1), Old(world, 2)
    assert fields(first.register()) == {
        "masterAddress": first.address,
        "masterEpoch": "1",
        "syncStateSetEpoch": "1",
        "brokerId": "0",
    }
    assert fields(second.register()) == {
        "masterAddress": first.address,
        "masterEpoch": "1",
        "syncStateSetEpoch": "1",
        "brokerId": "2",
    }
    assert world.group.by_address
    assert world.group.members == [1]


def test_the_set_is_altered_by_addresses() -> None:
    world = World()
    first, second = Old(world, 1), Old(world, 2)
    first.register()
    second.register()
    both = [first.address, second.address]
    reply = first.alter(both, 1, 1)
    assert reply.code == 0
    assert fields(reply) == {"newSyncStateSetEpoch": "2"}
    body = msgspec.json.decode(bytes(reply.body))  # type: ignore[arg-type]
    assert body == {"syncStateSet": both, "syncStateSetEpoch": 2}
    assert first.alter(both, 1, 2).code == 2010
    assert second.alter([second.address], 1, 2).code == 2002
    assert first.alter([first.address, "x:1"], 1, 2).code == 2003
    assert first.alter([first.address], 9, 2).code == 2000
    assert first.alter([first.address], 1, 9).code == 2001
    assert first.alter([second.address], 1, 2).code == 2010


def test_a_dead_master_is_replaced_and_5_0_begins_with_a_set_of_one() -> None:
    world = World()
    first, second, third = (Old(world, number) for number in (1, 2, 3))
    for broker in (first, second, third):
        broker.register()
    everybody = [first.address, second.address, third.address]
    assert first.alter(everybody, 1, 1).code == 0
    world.refusing.add(first.address)
    for broker in (second, third):
        broker.epoch, broker.offset = 1, 500 if broker is third else 400
        assert broker.beat().code == 0
    first.close()
    world.run(50)
    group = world.group
    assert (group.master, group.epoch, group.members) == (3, 2, [3])
    to = {notice.address: fields(_as_reply(notice.command)) for notice in world.notices}
    assert to[third.address]["brokerId"] == "0"
    assert to[second.address]["brokerId"] == "2"
    assert to[second.address]["masterAddress"] == third.address


def _as_reply(command: object) -> Reply:
    return Reply(header=command.ext)  # type: ignore[attr-defined]


def test_an_old_master_that_returns_follows() -> None:
    world = World()
    first, second = Old(world, 1), Old(world, 2)
    first.register()
    second.register()
    first.alter([first.address, second.address], 1, 1)
    second.beat()
    world.refusing.add(first.address)
    first.close()
    world.run(50)
    assert fields(first.register()) == {
        "masterAddress": second.address,
        "masterEpoch": "2",
        "syncStateSetEpoch": "3",
        "brokerId": "1",
    }


def test_no_member_of_the_set_is_there() -> None:
    world = World()
    first, second = Old(world, 1), Old(world, 2)
    first.register()
    second.register()
    world.refusing.add(first.address)
    first.close()
    world.run(50)
    reply = second.register()
    assert reply.code == 2012
    assert fields(reply) == {
        "masterAddress": "",
        "masterEpoch": "1",
        "syncStateSetEpoch": "1",
        "brokerId": "2",
    }


def test_a_master_that_registers_again_gets_a_fresh_epoch() -> None:
    world = World()
    first = Old(world, 1)
    first.register()
    first.epoch, first.offset = 1, 10
    again = fields(first.register())
    assert (again["masterEpoch"], again["brokerId"]) == ("2", "0")


def test_generations_do_not_mix_in_a_group() -> None:
    world = World()
    Old(world, 1).register()
    assert Broker(world, 1).apply().code == 2005
    assert Broker(world, 1).register().code == 2005
    other = World()
    brokers(other, 1)
    assert Old(other, 1).register().code == 2005


def test_an_operator_of_5_0_names_the_master() -> None:
    world = World()
    first, second = Old(world, 1), Old(world, 2)
    first.register()
    second.register()
    ask = {**NAMES, "brokerAddress": second.address}
    assert world.ask(ELECT, ask, version=413).code == 2004, "not in the set"
    assert world.group.master == 1, "upstream deposes the healthy one"
    first.alter([first.address, second.address], 1, 1)
    reply = world.ask(ELECT, ask, version=413)
    assert reply.code == 0
    assert fields(reply) == {
        "newMasterAddress": second.address,
        "masterEpoch": "2",
        "syncStateSetEpoch": "3",
    }
    body = bytes(reply.body)  # type: ignore[arg-type]
    assert b'"brokerAddrs":{1:"10.5.0.1:10911",0:"10.5.0.2:10911"}' in body
    assert world.ask(ELECT, ask, version=413).code == 2011
    assert world.ask(ELECT, {**ask, "brokerName": "x"}, version=413).code == 2011


def test_heartbeats_of_unknown_addresses_are_heard_without_effect() -> None:
    world = World()
    assert Old(world, 1).beat().code == 0
    assert world.leader.core.context.live.count == 0
