"""`epochmq store verify` on a store that a broker wrote."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.shell import shell_in
from tests.admin.test_dev import settle
from tests.broker.broker_harness import send
from tests.broker.client import RawClient
from tests.broker.server.test_broker_server import running

from epochmq.admin.cli import cli


def test_a_store_in_use_sound_and_damaged(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        settle(shell)
        store = tmp_path / ".epochmq" / "store"
        shell.run("dev", "-d", "--no-dashboard")
        shell.run("produce", "t", stdin=b"message\n" * 50)
        code, _, said = shell.run("store", "verify", str(store))
        assert code == 1
        assert "in use" in said
        shell.run("dev", "stop")
        code, out, _ = shell.run("store", "verify", str(store))
        assert code == 0
        assert out.startswith("50 records in ")
        assert "sound" in out
        log = store / "commitlog" / f"{0:020d}"
        with log.open("r+b") as file:
            file.seek(4)
            file.write(b"torn")
        code, out, _ = shell.run("store", "verify", str(store), "-o", "json")
        assert code == 4
        assert json.loads(out)["problems"]
        code, out, _ = shell.run("store", "verify", str(store))
        assert code == 4
        assert "NOT SOUND" in out


async def test_a_commit_log_that_lies_elsewhere(tmp_path: Path) -> None:
    log, config = tmp_path / "fast disk" / "log", tmp_path / "broker.conf"
    log.mkdir(parents=True)
    store = tmp_path / "store"
    async with running(store, storePathCommitLog=log) as broker:
        client = await RawClient.connect(broker.port)
        for _ in range(3):
            assert (await client.ask(send())).code == 0
        await client.close()
    config.write_text(f"storePathCommitLog={log}\nmaxIndexNum=1000\nmaxHashSlotNum=100\n")
    verify = ["store", "verify", str(store)]
    found = CliRunner().invoke(cli, [*verify, "-c", str(config)])
    assert found.output.startswith("3 records in ")
    assert found.exit_code == 0
    assert (CliRunner().invoke(cli, verify)).exit_code == 5


@pytest.mark.parametrize("former", [False, True])
async def test_relative_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, former: bool
) -> None:
    """As in RocketMQ's files: root and log from the working directory; a log that was made below
    the root instead is found as well, by the broker and by `store verify`."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "store-0" / ("store-0/commitlog" if former else "commitlog")
    paths = {"storePathRootDir": "./store-0", "storePathCommitLog": "./store-0/commitlog"}
    first = paths | ({"storePathCommitLog": place} if former else {})
    for keys in (first, paths):
        async with running(Path("store-0"), **keys) as broker:
            client = await RawClient.connect(broker.port)
            for _ in range(3):
                assert (await client.ask(send())).code == 0
            await client.close()
    assert [path.name for path in tmp_path.rglob(f"{0:020d}") if "commitlog" in str(path)]
    assert (place / f"{0:020d}").exists()
    config = tmp_path / "broker.conf"
    lines = [f"{key}={value}" for key, value in paths.items()]
    config.write_text("\n".join([*lines, "maxIndexNum=1000", "maxHashSlotNum=100", ""]))
    found = CliRunner().invoke(cli, ["store", "verify", "store-0", "-c", str(config)])
    assert "6 records in " in found.stdout
    assert ("stands for" in found.stderr) is former


def test_no_store_is_not_found(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        code, _, said = shell.run("store", "verify", str(tmp_path))
    assert code == 5
    assert "holds no store" in said
