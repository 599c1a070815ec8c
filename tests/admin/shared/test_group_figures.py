"""How far groups are and who is in them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.admin.world import OFFLINE, ONLINE, QUEUES, TOPIC, World

from epochmq.admin.shared import group_figures
from epochmq.client.aio import Admin
from epochmq.wire.bodies.group_bodies import OffsetWrapper

T = TypeVar("T")


def asked(world: World, work: Callable[[Admin], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with Admin(world.cluster.namesrv_addr) as admin:
            return await work(admin)

    return asyncio.run(connected())


def test_a_group_nobody_is_in(world: World) -> None:
    found = asked(world, lambda admin: group_figures.progress(admin, OFFLINE, TOPIC))
    assert [position.queue for position in found.positions] == QUEUES
    assert (found.lag, found.in_flight) == (4, 0)
    assert found.positions[0].row()["member"] is None
    summary = asked(world, lambda admin: group_figures.summary(admin, OFFLINE))
    assert (summary.members, summary.lag, summary.problem) == (0, 4, None)
    assert summary.row()["version"] is None


def test_a_group_with_a_member(world: World) -> None:
    with world.member() as client_id:
        world.wait_consumed(ONLINE)
        found = asked(world, lambda admin: group_figures.progress(admin, ONLINE, owners=True))
        summary = asked(world, lambda admin: group_figures.summary(admin, ONLINE))
    owners = {p.owner for p in found.positions if p.queue.topic == TOPIC}
    assert owners == {client_id}
    assert (summary.members, summary.kind, summary.model) == (1, "PUSH", "CLUSTERING")


def test_a_group_that_never_consumed_has_nothing(world: World) -> None:
    summary = asked(world, lambda admin: group_figures.summary(admin, "nosuch"))
    assert (summary.lag, summary.members, summary.problem) == (0, 0, None)


def test_old_brokers_do_not_tell_what_was_pulled() -> None:
    at = group_figures._position(QUEUES[0], OffsetWrapper(9, 4), None)
    assert (at.lag, at.in_flight) == (5, 0)
    at = group_figures._position(QUEUES[0], OffsetWrapper(9, 4, 6), None)
    assert (at.lag, at.in_flight) == (5, 2)
