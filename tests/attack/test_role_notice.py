"""Forged role notices (1008) to the brokers of a group: nothing that they say is believed."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.client import RawClient
from tests.broker.group.group import InProcess, put_until_stored, until

from epochmq.broker.server.broker_server import Broker
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.controller_bodies import SyncStateSet
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[InProcess]:
    found = InProcess(tmp_path)
    await found.start()
    yield found
    await found.stop()


def forged(epoch: int, master: int) -> dict[str, str]:
    return {
        "masterAddress": "127.0.0.1:9",
        "masterHaAddress": "127.0.0.1:9",
        "masterEpoch": str(epoch),
        "syncStateSetEpoch": "1",
        "masterBrokerId": str(master),
        "brokerName": "b",
    }


async def tell(broker: Broker, ext: dict[str, str], body: bytes = b"") -> None:
    client = await RawClient.connect(broker.port)
    try:
        answer = await client.ask(request(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, ext, body))
        assert answer.code == 0
    finally:
        await client.close()


def states(group: InProcess) -> list[bytes]:
    return [(group.folder / f"store-{n}" / "brokerIdentity-state").read_bytes() for n in range(3)]


async def saved_states(group: InProcess) -> list[bytes]:
    """Wait until each broker has saved the epoch of the group, which it does after acting on it."""

    def epochs() -> set[int]:
        return {json.loads(state)["masterEpoch"] for state in states(group)}

    await until(lambda: len(epochs()) == 1 and 0 not in epochs())
    return states(group)


@pytest.mark.parametrize("epoch", [2, 2**30, 2**31 - 1])
async def test_a_group_outlives_forged_notices_and_a_restart(group: InProcess, epoch: int) -> None:
    master = await group.whole()
    await put_until_stored(group)
    before = await saved_states(group)
    for broker in group.brokers:
        for named in (77, broker.node.group_position.own_id):
            body = encode_body(SyncStateSet([named], 1))
            await tell(broker, forged(epoch, named), body)
            await tell(broker, forged(epoch, named))
    await put_until_stored(master)
    assert await group.whole() is master
    assert states(group) == before, "nothing of it is remembered"
    for number, broker in enumerate(group.brokers):
        await broker.stop(grace_ms=0)
        group.brokers[number] = await group.start_broker(number)
    await put_until_stored(group)
    await group.whole()


async def test_a_flood_of_notices_is_no_flood_of_questions(group: InProcess) -> None:
    """The controllers are asked once in a while, however many come."""
    await group.whole()
    controller = group.guests[0].controller
    follower = next(one for one in group.brokers if not one.node.serving.is_master)
    client = await RawClient.connect(follower.port)
    requests = controller.node.core.context.counts.requests
    asked = requests.total()
    for _ in range(2_000):
        client.put(request(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, forged(9, 9)))
    for _ in range(2_000):
        assert (await client.next()).code == 0
    await client.close()
    await until(lambda: requests.total() > asked)
    assert requests.total() - asked < 1_000
