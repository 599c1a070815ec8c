"""`epochmq pipeline verify` and `repair` on an archive of a real, replicated topic."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.replicated import Replicas

from epochmq.admin.cli import cli
from epochmq.client.aio import Producer
from epochmq.model.message import Message

TOPIC = "verified"


async def fill(replicas: Replicas) -> None:
    await replicas.whole()
    async with Producer(replicas.cluster.namesrv) as producer:
        for number in range(60):
            await producer.send(Message(TOPIC, b"%d" % number * 50, keys=(f"k{number}",)))


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_a_table_is_compared_and_restored(replicas: Replicas, tmp_path: Path, format: str) -> None:
    asyncio.run(fill(replicas))
    place = tmp_path / "table"
    to_table = ("--table", str(place), "--format", format, "--master", "none")
    assert replicas.run("pipeline", "archive", TOPIC, *to_table).code == 0
    servers = ("-n", replicas.cluster.namesrv)
    sound = replicas.run("pipeline", "verify", str(place), *servers, "--replicas", "-o", "json")
    assert sound.code == 0, sound
    (row,) = sound.rows
    assert (row["status"], row["problems"]) == ("sound", [])
    assert row["comparedWithTopic"] == row["rows"] >= 60
    file = next(place.rglob("*.parquet"))
    text = bytearray(file.read_bytes())
    text[len(text) // 3] ^= 4
    file.write_bytes(text)
    damaged = replicas.run("pipeline", "verify", str(place))
    assert damaged.code == 4, damaged
    assert "its SHA-256 is not the one" in damaged.out
    planned = replicas.run("pipeline", "repair", str(place), *servers, "--dry-run", "-o", "json")
    assert (planned.code, len(planned.rows[0]["damagedFiles"])) == (0, 1)
    restored = replicas.run("pipeline", "repair", str(place), *servers)
    assert restored.code == 0, restored
    again = replicas.run("pipeline", "verify", str(place), *servers, "-o", "json")
    assert again.code == 0, again
    assert again.rows[0]["comparedWithTopic"] == row["rows"]


def run(*arguments: str) -> tuple[int, str]:
    ended = CliRunner().invoke(cli, ["pipeline", *arguments])
    return ended.exit_code, ended.output


def test_bad_arguments(tmp_path: Path) -> None:
    place = str(tmp_path / "none")
    code, said = run("verify", place)
    assert (code, "there is no table at" in said) == (5, True), said
    code, said = run("verify", place, "--replicas")
    assert (code, "--replicas needs --namesrv" in said) == (2, True), said
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    code, said = run("verify", str(tmp_path / "other"))
    assert (code, "holds other files and no table" in said) == (2, True), said
