"""`epochmq store repair`: says what is damaged, and repairs it by a bit, a filler or a replica."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.broker.broker_harness import send
from tests.broker.client import RawClient
from tests.broker.server.test_broker_server import running

from epochmq.admin.cli import cli
from epochmq.admin.shared import exits
from epochmq.base.errors import StoreDamaged

CONFIG = """maxMessageSize=65536
mappedFileSizeCommitLog=262144
maxIndexNum=1000
maxHashSlotNum=100
"""


def repair(store: Path, *more: str, answer: str = "") -> Result:
    config = store.parent / "broker.conf"
    config.write_text(CONFIG)
    return CliRunner().invoke(cli, ["store", "repair", str(store), "-c", str(config), *more],
                              input=answer, catch_exceptions=False)  # fmt: skip


async def filled(store: Path) -> bytes:
    """A stopped broker's store with a few messages; its log."""
    async with running(store, mappedFileSizeCommitLog=262144) as broker:
        client = await RawClient.connect(broker.port)
        for number in range(9):
            assert (await client.ask(send(body=b"%d" % number * 50))).code == 0
        await client.close()
    return log_of(store).read_bytes()


def log_of(store: Path) -> Path:
    return store / "commitlog" / f"{0:020d}"


def scratch(store: Path, whole: bytes, *, bits: int) -> int:
    """Damage the body of the fifth message; where."""
    at = whole.index(b"4" * 50)
    log_of(store).write_bytes(whole[:at] + bytes([whole[at] ^ bits]) + whole[at + 1 :])
    return at


async def test_a_sound_log(tmp_path: Path) -> None:
    store = tmp_path / "store"
    await filled(store)
    result = repair(store)
    assert (result.exit_code, result.output) == (exits.OK, "the log is sound\n")


async def test_nothing_changes_without_a_way_or_a_yes(tmp_path: Path) -> None:
    store = tmp_path / "store"
    whole = await filled(store)
    at = scratch(store, whole, bits=3)
    damaged = log_of(store).read_bytes()
    result = repair(store)
    assert result.exit_code == exits.UNHEALTHY
    assert f"commitlog/{0:020d} bytes " in result.output
    assert "body checksum is wrong, T/" in result.output
    assert repair(store, "--skip-damaged", answer="n\n").exit_code == exits.FAILED
    assert log_of(store).read_bytes() == damaged
    both = CliRunner().invoke(
        cli, ["store", "repair", str(store), "--skip-damaged", "--from", "h:1"]
    )
    assert both.exit_code == exits.USAGE
    with pytest.raises(StoreDamaged, match=r"log offsets \d+ to \d+"):
        async with running(store, mappedFileSizeCommitLog=262144):
            pass
    assert log_of(store).read_bytes()[at] == damaged[at]


async def test_one_message_is_given_up_and_the_broker_goes_on(tmp_path: Path) -> None:
    store = tmp_path / "store"
    whole = await filled(store)
    scratch(store, whole, bits=3)
    result = repair(store, "--skip-damaged", "--yes")
    assert result.exit_code == exits.OK
    assert result.output.endswith("the log is sound\n")
    (kept,) = (store / "cut").iterdir()
    assert b"4" * 49 in kept.read_bytes()
    async with running(store, mappedFileSizeCommitLog=262144) as broker:
        assert broker.node is not None
        assert broker.node.store.pointers.appended == len(whole.rstrip(b"\0"))
        client = await RawClient.connect(broker.port)
        assert (await client.ask(send())).code == 0
        await client.close()
    assert repair(store).exit_code == exits.OK


async def test_one_bit_is_flipped_back(tmp_path: Path) -> None:
    store = tmp_path / "store"
    whole = await filled(store)
    scratch(store, whole, bits=4)
    assert "the bit can be restored" in repair(store).output
    assert repair(store, "--skip-damaged", "-y").exit_code == exits.OK
    assert log_of(store).read_bytes() == whole


async def test_a_replica_has_the_bytes(tmp_path: Path) -> None:
    store, other = tmp_path / "store", tmp_path / "other"
    whole = await filled(store)
    (other / "commitlog").mkdir(parents=True)
    (other / "commitlog" / f"{0:020d}").write_bytes(whole)
    scratch(store, whole, bits=3)
    async with running(other, mappedFileSizeCommitLog=262144) as broker:
        from asyncio import to_thread

        address = f"127.0.0.1:{broker.port}"
        result = await to_thread(repair, store, "--from", address, "--yes")
    assert result.output.endswith("the log is sound\n")
    assert log_of(store).read_bytes() == whole
