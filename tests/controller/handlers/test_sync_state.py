"""1006: groups as the tools of both generations read them."""

import msgspec
from tests.controller.world import SYNC_STATE, World, brokers, live_on


def test_both_shapes_in_one_answer() -> None:
    world = World()
    found = brokers(world)
    assert found[0].alter([1, 2]).code == 0
    reply = world.ask(SYNC_STATE, None, b'["b","x"]')
    assert reply.code == 0

    def replica(number: int) -> dict[str, object]:
        address = found[number - 1].address
        return {"brokerName": "b", "brokerId": number, "brokerAddress": address, "alive": True}

    assert msgspec.json.decode(bytes(reply.body)) == {  # type: ignore[arg-type]
        "inSyncStateTable": {
            "b": {
                "inSyncMembers": [
                    {"address": found[0].address, "brokerId": 0},
                    {"address": found[1].address, "brokerId": 2},
                ],
                "masterAddress": found[0].address,
                "masterEpoch": 1,
                "syncStateSetEpoch": 3,
            }
        },
        "replicasInfoTable": {
            "b": {
                "masterBrokerId": 1,
                "masterAddress": found[0].address,
                "masterEpoch": 1,
                "syncStateSetEpoch": 3,
                "inSyncReplicas": [replica(1), replica(2)],
                "notInSyncReplicas": [replica(3)],
            }
        },
    }


def test_the_dead_are_shown_as_such() -> None:
    world = World()
    found = brokers(world)
    live_on(world, found[:2], 11_000, every=1_000)
    body = bytes(world.ask(SYNC_STATE, None, b'["b"]').body)  # type: ignore[arg-type]
    assert body.count(b'"alive":false') == 1


def test_without_names_nothing_is_told() -> None:
    world = World()
    assert world.ask(SYNC_STATE).code == 1
    assert world.ask(SYNC_STATE, None, b"[]").code == 1
    assert world.ask(SYNC_STATE, None, b'{"a"').code == 1
