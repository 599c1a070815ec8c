"""`epochmq pipeline upsert` on a real topic, and its bad arguments."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.world import World

from epochmq.admin.cli import cli
from epochmq.client.aio import Producer
from epochmq.model.message import Message
from epochmq.tables.keyed_table import open_keyed

TOPIC = "upserted"


def content(place: Path) -> dict[str, bytes]:
    rows = open_keyed(str(place)).scan(["key", "body", "deleted"]).to_pylist()
    return {row["key"]: row["body"] for row in rows if not row["deleted"]}


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_the_latest_of_each_key(world: World, tmp_path: Path, format: str) -> None:
    topic = f"{TOPIC}_{format}"
    wanted: dict[str, bytes] = {}

    async def send(first: int) -> None:
        async with Producer(world.cluster.namesrv_addr) as producer:
            for number in range(first, first + 30):
                key, body = f"k{number % 7}", b"%d" % number
                tag = "gone" if number % 11 == 0 else "t"
                message = Message(topic, body, tag, (key,))
                await producer.send_ordered(message, key)  # one queue for each key
                wanted[key] = body
                if tag == "gone":
                    del wanted[key]

    to_table = ("--table", str(tmp_path), "--format", format, "--tombstone-tag", "gone")
    for first, more in ((0, ("--buckets", "3")), (30, ())):
        asyncio.run(send(first))
        found = world.run("pipeline", "upsert", topic, *to_table, *more, "-o", "json")
        assert found.code == 0, found
        assert found.rows[0]["rows"] == 30
        assert content(tmp_path) == wanted


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["T"], "Missing option '--table'"),
        (["T", "--table", "t", "--key", "name"], "'name' is not a key"),
        (["a b", "--table", "t"], "forbidden character"),
        (["T", "--table", "t", "--format", "parquet"], "is not one of 'delta', 'iceberg'"),
    ],
)
def test_bad_arguments(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(cli, ["pipeline", "upsert", *arguments])
    assert (ended.exit_code, said in ended.output) == (2, True), ended.output
    assert not list(tmp_path.iterdir())
