"""`epochmq pipeline dlq` on a cluster whose group `billing` has two dead letters."""

import asyncio
from pathlib import Path

import pytest
from tests.admin.world import World

from epochmq.client.aio import Producer
from epochmq.model.message import Message


@pytest.fixture(scope="module")
def letters(world: World) -> World:
    """Written by hand: what they look like is tested in tests/spark/jobs/test_dlq.py."""

    async def write() -> None:
        async with Producer(world.cluster.namesrv_addr) as producer:
            for number in range(2):
                properties = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "00"}
                body = b'{"reason": "r%d"}' % number
                await producer.send(Message("%DLQ%cli", body, "paid", properties=properties))

    asyncio.run(write())
    return world


def test_causes_are_a_table(letters: World) -> None:
    found = letters.run("pipeline", "dlq", "cli", "--by", "topic", "--by", "body:reason")
    assert found.code == 0
    assert found.lines[0].split() == ["TOPIC", "BODY:REASON", "COUNT", "ORIGIN", "SAMPLES"]
    assert [line.split()[:3] for line in found.lines[1:3]] == [
        ["orders", "r0", "1"],
        ["orders", "r1", "1"],
    ]
    assert "gone=1" in found.lines[1]


def test_letters_are_sent_once(letters: World, tmp_path: Path) -> None:
    args = ("pipeline", "dlq", "cli", "--redrive", "again", "--ledger", str(tmp_path / "ledger"))
    assert letters.run(*args, "--dry-run", "-o", "json").rows[0]["toSend"] == 2
    assert letters.run(*args, "-o", "json").rows[0]["toSend"] == 2
    assert letters.run(*args, "-o", "json").rows[0]["toSend"] == 0
    shown = letters.run("consume", "again", "--from", "first", "--exit", "-o", "json").rows
    assert len(shown) == 2


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("nobody",), 5, "has no dead letters"),
        (("a b",), 2, "forbidden character"),
        (("cli", "--by", "colour"), 2, "has no 'colour'"),
        (("cli", "--where", "tags"), 2, "is not a condition"),
        (("cli", "--redrive", "retry"), 2, "needs a ledger"),
        (("cli", "--redrive", "a b", "--ledger", "x"), 2, "forbidden character"),
    ],
)
def test_bad_arguments(letters: World, args: tuple[str, ...], code: int, says: str) -> None:
    found = letters.run("pipeline", "dlq", *args)
    assert (found.code, len(found.err.splitlines())) == (code, 1)
    assert says in found.err
