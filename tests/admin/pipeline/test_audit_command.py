"""`epochmq pipeline audit`: directories that differ, running replicas that do not."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.replicated import GROUP, Replicas
from tests.admin.world import Ran, World
from tests.client.aio.eventually import eventually
from tests.spark.jobs.replicas import make_log, write_store

from epochmq.admin.cli import cli
from epochmq.client.aio import Producer
from epochmq.model.message import Message
from epochmq.spark.jobs.audit_core import Epoch
from epochmq.store.written_blocks import BLOCK_BYTES

LOG = make_log(300, seed=11)
FIRST = (Epoch(1, 0),)


def run(*args: str) -> Ran:
    result = CliRunner().invoke(cli, ["pipeline", "audit", *args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result
    return Ran(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def stores(tmp_path: Path) -> list[str]:
    at = LOG.starts[120] + 92
    roots = [
        write_store(tmp_path / "m" / "store", LOG, confirmed=LOG.end, epochs=FIRST),
        write_store(tmp_path / "f" / "store", LOG, confirmed=LOG.end, epochs=FIRST, flips=(at,)),
        write_store(tmp_path / "g" / "store", LOG, confirmed=LOG.end, epochs=FIRST),
    ]
    return [f"--store={root}" for root in roots]


def test_what_differs_is_named_and_the_exit_code_says_so(stores: list[str]) -> None:
    found = run(*stores)
    assert found.code == 4
    assert "verdict      1 problem" in found.out
    assert "id ID000120; wrong is probably f/store" in found.out


def test_equal_stores_are_sound(stores: list[str], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    found = run(stores[0], stores[2], "-o", "json", "--report", str(report))
    assert found.code == 0
    assert found.rows[0]["verdict"] == "equal up to the confirmed offset"
    assert json.loads(report.read_text())["bytes"] == LOG.end


def test_json_has_the_records(stores: list[str]) -> None:
    (row,) = run(*stores, "-o", "json").rows
    (difference,) = row["differences"]
    assert difference["records"][0]["f/store"]["body_fits"] is False
    assert row["findings"][0]["kind"] == "bytes"


def test_a_dry_run_reads_no_blocks(stores: list[str]) -> None:
    found = run(*stores, "--dry-run")
    assert found.code == 0
    assert "not compared yet" in found.out


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ((), 2, "name a broker group"),
        (("broker-a", "--store=x"), 2, "name a broker group"),
        (("a b",), 2, "is not a name of a broker group"),
        (("broker-a", "--spark"), 2, "--spark is for --store"),
        (("--store=/nowhere", "--store=/nowhere/else"), 5, "there is no directory /nowhere"),
        (("--store=a=", "--store=b=x"), 2, "needs a directory"),
        (("--store=/tmp", "--store=/tmp"), 2, "given twice"),
    ],
)
def test_bad_arguments(args: tuple[str, ...], code: int, says: str) -> None:
    found = run(*args)
    assert (found.code, len(found.err.splitlines())) == (code, 1)
    assert says in found.err


def test_one_store_and_a_bad_block_size(stores: list[str]) -> None:
    assert "give 2 to" in run(stores[0]).err
    assert "power of two" in run(*stores, "--block-bytes", "5000").err


async def fill(replicas: Replicas) -> None:
    await replicas.whole()
    async with Producer(replicas.cluster.namesrv) as producer:
        for number in range(100):
            await producer.send(Message("audited", b"%d" % number * 500, keys=(f"k{number}",)))


def test_running_replicas_agree_until_bits_turn(replicas: Replicas) -> None:
    """Both replicas are damaged at one place, so no search of theirs can repair it meanwhile."""
    asyncio.run(fill(replicas))
    found = replicas.run("pipeline", "audit", GROUP, "-o", "json", "--block-bytes", "4096")
    assert found.code == 0, found
    (row,) = found.rows
    assert row["verdict"] == "equal up to the confirmed offset"
    assert len(row["replicas"]) == 2
    assert row["bytes"] > 20_000
    # The page cache is one: what is written to the file is what the broker has mapped.
    logs = sorted(replicas.cluster.directory.glob("**/commitlog/" + "0" * 20))
    # The first block of the log is full: its checksum was computed when it was written.
    at = logs[1].read_bytes().index(b"10" * 100)
    assert len(logs) == 2
    assert at < BLOCK_BYTES < row["bytes"]
    for path, byte in zip(logs, (b"X", b"Y"), strict=True):
        with path.open("r+b") as file:
            file.seek(at)
            file.write(byte)

    async def audit() -> Ran:
        found = await asyncio.to_thread(
            replicas.run, "pipeline", "audit", GROUP, "--block-bytes", "4096"
        )
        assert found.code == 4, found
        assert "not the same bytes" in found.out or "found its bytes damaged" in found.out
        return found

    def both_know(found: Ran) -> bool:
        return found.out.count("returns them to nobody") == 2

    asyncio.run(eventually(audit, both_know))


def test_a_group_that_is_not_there_and_one_that_has_no_replicas(world: World) -> None:
    assert "there is no broker group nobody" in world.run("pipeline", "audit", "nobody").err
    assert "compares two replicas or more" in world.run("pipeline", "audit", "broker-a").err
