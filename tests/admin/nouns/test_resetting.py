"""Moving a group."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.admin.world import QUEUES, TOPIC, World

from epochmq.admin.nouns.noun_group import move, position_of
from epochmq.base.errors import Refused, UsageError
from epochmq.client.aio import Admin

GROUP = "moving"
FRESH = "moving-fresh"
"""A broker that resets by itself ignores commits until a member took the reset up."""


@pytest.fixture(scope="module", autouse=True)
def _group(world: World) -> Iterator[None]:
    for group in (GROUP, FRESH):
        assert world.run("group", "create", group).code == 0
    yield
    assert world.run("group", "delete", GROUP, FRESH, "--yes").code == 0


def moved(world: World, to: str, group: str = GROUP) -> list[int]:
    """The new offsets of both queues, which the broker has as well."""

    async def work() -> tuple[list[int], list[int | None]]:
        async with Admin(world.cluster.namesrv_addr) as admin:
            now = admin.instance.clock.wall_ms()
            found = await move(admin, group, TOPIC, position_of(to, now))
            assert list(found) == QUEUES
            there = [await admin.committed_at(world.broker, group, queue) for queue in QUEUES]
            return list(found.values()), there

    told, there = asyncio.run(work())
    assert told == there
    return told


@pytest.mark.parametrize(
    ("to", "offsets"),
    [
        ("first", [0, 0]),
        ("last", [3, 3]),
        ("2", [2, 2]),
        ("99", [3, 3]),
        ("-1", [2, 2]),
        ("-99", [0, 0]),
        ("1h", [0, 0]),
        ("@1", [0, 0]),
    ],
)
def test_positions(world: World, to: str, offsets: list[int]) -> None:
    assert moved(world, to) == offsets


def test_a_broker_that_moves_no_group_nobody_is_in(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*args: object, **kwargs: object) -> None:
        raise Refused(206, "no member")

    monkeypatch.setattr(Admin, "reset_offsets", refuse)
    assert moved(world, "last", FRESH) == [3, 3]


def test_other_refusals_are_not_hidden(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*args: object, **kwargs: object) -> None:
        raise Refused(1, "a slave")

    monkeypatch.setattr(Admin, "reset_offsets", refuse)
    with pytest.raises(Refused, match="a slave"):
        moved(world, "last")


def test_no_position() -> None:
    with pytest.raises(UsageError, match=r"^--to 'soon' is not a position"):
        position_of("soon", 0)


@pytest.mark.parametrize("to", ["first", "last", "2", "-1", "1h", "@1"])
def test_a_dry_run_says_where_a_group_would_go_and_moves_nothing(world: World, to: str) -> None:
    args = ("group", "reset-offset", FRESH, "-t", TOPIC, "--to", to, "-o", "json")
    ran = world.run(*args, "--dry-run")
    assert "dry run: nothing has changed" in ran.err

    async def committed() -> list[int | None]:
        async with Admin(world.cluster.namesrv_addr) as admin:
            return [await admin.committed_at(world.broker, FRESH, queue) for queue in QUEUES]

    before = asyncio.run(committed())
    world.run(*args, "--dry-run")
    assert asyncio.run(committed()) == before
    assert [row["offset"] for row in ran.rows] == moved(world, to)
