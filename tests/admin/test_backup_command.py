"""`epochmq backup` with real servers: killed, by URL, with users, used wrongly."""

import json
import shutil
import signal
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.admin.shell import Shell, shell_in
from tests.tables.s3_server import make_bucket, s3_environment, s3_server

from epochmq.admin.local.config_files import choose_anywhere
from epochmq.admin.local.local_cluster import LocalCluster
from epochmq.admin.shared import exits
from epochmq.store.store_files import UNFINISHED_RESTORE

pytestmark = pytest.mark.process
SIZE = 100_000
COUNT = 1_000
"""133 MB: a backup or a restore takes long enough to be killed in the middle."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with shell_in(tmp_path) as made:
        yield made


def start(shell: Shell) -> LocalCluster:
    cluster = LocalCluster(shell.directory / ".epochmq")
    cluster.start(choose_anywhere())
    return cluster


def rows(shell: Shell, *args: str, **more: Any) -> list[dict[str, Any]]:
    code, out, err = shell.run(*args, "-o", "json", **more)
    assert code == exits.OK, err
    return [json.loads(line) for line in out.splitlines()]


def fill(shell: Shell, count: int, size: int = 100) -> None:
    rng = Random(1)  # the client compresses large bodies: random ones stay large
    lines = b"".join(b"%d %s\n" % (n, b64encode(rng.randbytes(size))) for n in range(count))
    code, _out, err = shell.run("produce", "orders", stdin=lines, timeout=120)
    assert code == exits.OK, err


def stop(shell: Shell) -> Path:
    """Stop the cluster, and remove the store of its broker; return where it was."""
    assert shell.run("dev", "stop")[0] == exits.OK
    store = shell.directory / ".epochmq" / "store"
    shutil.rmtree(store)
    return store


def read_back(shell: Shell) -> list[int]:
    code, out, err = shell.run("consume", "orders", "--from", "first", "--exit", timeout=120)
    assert code == exits.OK, err
    return sorted(int(line.split()[0]) for line in out.splitlines())


def test_killed_backups_and_restores_lose_nothing(shell: Shell) -> None:
    start(shell)
    fill(shell, COUNT, SIZE)
    first = kill_when(shell, lambda: pieces(shell), "backup", "create", "b")
    assert first, "the backup was never killed in the middle"
    assert not list(shell.directory.glob("b/*/*/snapshots/*.json"))
    (row,) = rows(shell, "backup", "create", "b")
    assert row["copiedBytes"] < COUNT * SIZE, "the pieces of the killed backup were used"
    assert shell.run("backup", "verify", "b")[0] == exits.OK

    store = stop(shell)
    target = str(store.relative_to(shell.directory))
    log = store / "commitlog"
    killed = kill_when(shell, lambda: log.exists() and len(list(log.iterdir())) > 1,
                       "backup", "restore", "b", target)  # fmt: skip
    assert killed, "the restore was never killed in the middle"
    assert (store / UNFINISHED_RESTORE).exists()
    code, _out, err = shell.run("dev", "-d")
    assert code != exits.OK
    assert "was being restored here" in err
    code, out, err = shell.run("backup", "restore", "b", target)
    assert code == exits.OK, err
    assert "mappedFileSizeCommitLog=" in out
    start(shell)
    assert read_back(shell) == list(range(COUNT))
    shell.run("dev", "stop")
    assert shell.run("store", "verify", target)[0] == exits.OK


def pieces(shell: Shell) -> bool:
    return bool(list(shell.directory.glob("b/*/*/log/0*.log")))


def kill_when(shell: Shell, reached: Any, *args: str) -> bool:
    """Start a command, and kill it once `reached()`; whether that was before its end."""
    child = shell.start(*args)
    until = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < until
        if child.poll() is not None:
            return False
    child.send_signal(signal.SIGKILL)
    return child.wait() == -signal.SIGKILL


def test_backups_in_a_bucket(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("moto")
    with s3_server(tmp_path_factory.mktemp("s3")) as endpoint:
        env = s3_environment(endpoint)
        make_bucket(endpoint, "company")
        url = "s3://company/backups"
        start(shell)
        fill(shell, 500)
        (one,) = rows(shell, "backup", "create", url, env=env)
        fill(shell, 10)
        (two,) = rows(shell, "backup", "create", url, env=env)
        assert 0 < two["copiedBytes"] < one["copiedBytes"]
        listed = rows(shell, "backup", "list", url, env=env)
        assert [row["snapshot"] for row in listed] == [one["snapshot"], two["snapshot"]]
        assert shell.run("backup", "verify", url, env=env)[0] == exits.OK
        code, out, err = shell.run("backup", "prune", url, "--keep", "1", "-y", env=env)
        assert (code, out) == (exits.OK, "broker-a: deleted 1 backups, 0 B of log\n"), err
        code, _out, err = shell.run("backup", "create", "s3://other/backups", env=env)
        assert code == exits.FAILED
        assert "there is no such bucket" in err
        assert "Traceback" not in err
        store = stop(shell)
        code, _out, err = shell.run("backup", "restore", url, str(store), env=env)
        assert code == exits.OK, err
    start(shell)
    assert len(read_back(shell)) == 510


def test_a_secured_cluster_comes_back_with_its_users(shell: Shell) -> None:
    code, _out, err = shell.run("dev", "-d", "--secure", "--no-dashboard")
    assert code == exits.OK, err
    fill(shell, 20)
    shell.run("user", "create", "reader", stdin=b"a long password 1\n")
    users = rows(shell, "user", "list")
    assert "reader" in str(users)
    (row,) = rows(shell, "backup", "create", "b")
    assert not any(path.stat().st_mode & 0o077 for path in (shell.directory / "b").rglob("*"))
    key = shell.directory / ".epochmq" / "store" / "config" / "auth.key"
    saved = key.read_bytes() if key.exists() else None
    store = stop(shell)
    code, _out, err = shell.run("backup", "restore", "b", str(store), "--snapshot", row["snapshot"])
    assert code == exits.OK, err
    assert "the backup has users" in err
    if saved is not None:
        key.write_bytes(saved)
        key.chmod(0o600)
    code, _out, err = shell.run("dev", "-d", "--no-dashboard")
    assert code == exits.OK, err
    assert read_back(shell) == list(range(20))
    assert rows(shell, "user", "list") == users


def test_a_group_that_cannot_be_backed_up_is_reported_and_the_others_are(shell: Shell) -> None:
    cluster = LocalCluster(shell.directory / ".epochmq")
    cluster.start(choose_anywhere(replicas=2, acting_groups=2))
    assert len(rows(shell, "backup", "create", "b")) == 2
    assert shell.run("chaos", "kill", "broker-a-0")[0] == exits.OK
    code, out, err = shell.run("backup", "create", "b", "-o", "json")
    assert code == exits.FAILED
    assert [json.loads(line)["broker"] for line in out.splitlines()] == ["broker-b"]
    assert "not everything was backed up" in err
    assert "broker-a of DefaultCluster: broker group broker-a has no master now" in err
    assert shell.run("chaos", "kill", "broker-a-1")[0] == exits.OK
    code, _out, err = shell.run("backup", "create", "b")
    assert code == exits.FAILED
    assert "broker-a of DefaultCluster has earlier backups here and is not registered now" in err
    assert shell.run("backup", "create", "b", "-b", "broker-b")[0] == exits.OK
    assert len(rows(shell, "backup", "list", "b", "-b", "broker-b")) == 4


def test_mistakes_are_one_clear_line(shell: Shell) -> None:
    for args, code, said in (
        (("list", "none"), exits.NOT_FOUND, "none has no such backup; it has nothing"),
        (("restore", "none", "d"), exits.NOT_FOUND, "it has nothing"),
        (("creat", "b"), exits.USAGE, "did you mean 'create'"),
        (("prune", "b"), exits.USAGE, "--keep"),
        (("prune", "b", "--keep", "0"), exits.USAGE, "0 is not in the range"),
        (("create", "b", "-n", "127.0.0.1:1"), exits.NOT_REACHABLE, "127.0.0.1:1"),
    ):
        found, _out, err = shell.run("backup", *args)
        assert (found, said in err, "Traceback" in err) == (code, True, False), err
    start(shell)
    fill(shell, 3)
    code, _out, err = shell.run("backup", "create", "b", "-b", "brokr-a")
    assert code == exits.NOT_FOUND
    assert "no broker group 'brokr-a' is registered now" in err
    code, _out, err = shell.run("backup", "create", "b", "-c", "Other")
    assert code == exits.NOT_FOUND
    rows(shell, "backup", "create", "b")
    code, _out, err = shell.run("backup", "restore", "b", "d", "--snapshot", "x")
    assert code == exits.NOT_FOUND
    assert "the newest one is" in err
    (piece,) = shell.directory.glob("b/*/*/log/*.log")
    data = piece.read_bytes()
    piece.write_bytes(data[:-1] + b"?")
    code, out, err = shell.run("backup", "verify", "b")
    assert (code, "NOT SOUND" in out, piece.name in out) == (exits.UNHEALTHY, True, True)
    code, _out, err = shell.run("backup", "restore", "b", "d")
    assert code == exits.FAILED
    assert "is damaged" in err
