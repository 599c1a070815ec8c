"""What the commands by noun share."""

import asyncio

import click
import pytest
from click.testing import CliRunner
from tests.admin.world import OFFLINE, TOPIC, World

from epochmq.admin.nouns.noun_base import (
    Row,
    all_groups,
    check_group_known,
    confirm,
    route_of,
    shows,
)
from epochmq.base.errors import NotFound
from epochmq.client.aio import Admin


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_questions(answer: str, code: int) -> None:
    @click.command()
    @click.option("--yes", is_flag=True)
    def command(yes: bool) -> None:
        confirm("Sure?", yes)

    result = CliRunner().invoke(command, input=answer)
    assert (result.exit_code, "Sure?" in result.stderr, result.stdout) == (code, True, "")
    assert CliRunner().invoke(command, ["--yes"]).output == ""


def test_names(world: World) -> None:
    async def work() -> None:
        async with Admin(world.cluster.namesrv_addr) as admin:
            assert (await route_of(admin, TOPIC)).queue_datas[0].read_queue_nums == 2
            assert OFFLINE in await all_groups(admin, "DefaultCluster")
            await check_group_known(admin, OFFLINE)
            with pytest.raises(NotFound, match="did you mean 'orders'"):
                await route_of(admin, "Orders1")
            with pytest.raises(NotFound, match=r"there is no group 'zzz'$"):
                await check_group_known(admin, "zzz")

    asyncio.run(work())


def test_a_coroutine_that_returns_rows_is_a_command(world: World) -> None:
    @click.command()
    @click.argument("topic")
    @shows("topic", "queues", title="topic")
    async def command(admin: Admin, topic: str) -> list[Row]:
        """Show how many queues a topic has."""
        route = await admin.route(topic)
        return [{"topic": topic, "queues": route.queue_datas[0].read_queue_nums, "more": 1}]

    given = [TOPIC, "-n", world.cluster.namesrv_addr]
    assert CliRunner().invoke(command, given).stdout == "TOPIC   QUEUES\norders  2\n"
    ended = CliRunner().invoke(command, [*given, "-o", "json"])
    assert ended.stdout == '{"topic": "orders", "queues": 2, "more": 1}\n'
    shown = CliRunner().invoke(command, ["--help"]).output
    assert shown.index("has.") < shown.index("--namesrv") < shown.index("--output")
