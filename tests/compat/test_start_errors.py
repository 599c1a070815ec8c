"""A server that cannot start says why: one clear line a fault, an exit code, no traceback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from .peers.cluster import properties
from .peers.epochmq import EpochCluster
from .peers.ports import free_broker_port, free_port

FAILED, USAGE = 1, 2
EPOCHMQ = [sys.executable, "-m", "epochmq"]
FIRST_LOG_FILE = "00000000000000000000"
LOG_FILE_BYTES = 16 << 20
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def fails(
    argv: Sequence[str | Path], code: int, *parts: str, before: Sequence[str] = (), lines: int = 1
) -> str:
    """Run it: it must end by itself with `code`, and `lines` lines on stderr hold all `parts`."""
    done = subprocess.run(
        [*before, *EPOCHMQ, *map(str, argv)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "EPOCHMQ_DEBUG": ""},
    )
    assert done.returncode == code, done
    assert done.stdout == ""
    # A machine that stands still for a moment is told too, and is not a part of the error.
    said = [line for line in done.stderr.splitlines() if "epochmq.runtime.watchdog" not in line]
    assert len(said) == lines, done.stderr
    assert all(line.startswith("epochmq: ") for line in said), done.stderr
    for part in parts:
        assert part in done.stderr, (part, done.stderr)
    return done.stderr


def write_config(folder: Path, **more: str | int) -> Path:
    """A broker's configuration that would start, but for what `more` changes."""
    file = folder / "broker.conf"
    fields: dict[str, str | int] = {
        "listenPort": free_broker_port(),
        "storePathRootDir": str(folder / "store"),
        "mappedFileSizeCommitLog": LOG_FILE_BYTES,
    }
    file.write_text(properties({**fields, **more}))
    return file


# Configuration --------------------------------------------------------------------------------

WRONG_BROKER_OPTIONS = [
    ("brokrName", "x", "unknown option 'brokrName' (did you mean 'brokerName'?)"),
    ("nosuchthing", "x", "unknown option 'nosuchthing'"),
    ("listenPort", "ten", "option 'listenPort' must be a whole number, not 'ten'"),
    ("listenPort", "99999", "option 'listenPort' must be between"),
    ("flushDiskType", "NEVER", "option 'flushDiskType' must be one of ASYNC_FLUSH, SYNC_FLUSH"),
    ("traceOn", "perhaps", "option 'traceOn' must be true or false, not 'perhaps'"),
    ("brokerName", "../x", "option 'brokerName': the topic name '../x' has a forbidden character"),
    ("mappedFileSizeCommitLog", "4096", "option 'mappedFileSizeCommitLog' 4096 cannot hold one"),
    ("storePathRootDir", "$NO_SUCH/x", "uses $NO_SUCH, which is not set in the environment"),
]


@pytest.mark.parametrize(("key", "value", "line"), WRONG_BROKER_OPTIONS)
def test_a_broker_option_is_wrong(tmp_path: Path, key: str, value: str, line: str) -> None:
    config = write_config(tmp_path, **{key: value})
    fails(["broker", "-c", config], USAGE, f"epochmq: {config}: ", line)
    assert not (tmp_path / "store").exists()


def test_a_name_server_option_is_wrong(tmp_path: Path) -> None:
    config = tmp_path / "namesrv.conf"
    config.write_text("listenPrt=9876\n")
    hint = "unknown option 'listenPrt' (did you mean 'listenPort'?)"
    fails(["namesrv", "-c", config], USAGE, f"epochmq: {config}: {hint}")


def test_each_fault_has_its_line(tmp_path: Path) -> None:
    config = write_config(tmp_path, brokrName="x", traceOn="perhaps", listenPort="ten")
    fails(["broker", "-c", config], USAGE, "brokrName", "traceOn", "listenPort", lines=3)


@pytest.mark.parametrize("server", ["broker", "namesrv"])
@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe=1", "it is not UTF-8 text"),
        (b"a=b\nc=\\u12", "line 2: a \\u escape needs four hexadecimal digits"),
    ],
)
def test_the_configuration_cannot_be_read(
    tmp_path: Path, server: str, content: bytes | None, line: str
) -> None:
    config = tmp_path / "server.conf"
    if content is not None:
        config.write_bytes(content)
    fails([server, "-c", config], USAGE, str(config), line)


# The store ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running() -> Iterator[EpochCluster]:
    with EpochCluster() as cluster:
        yield cluster


def test_the_store_is_in_use(running: EpochCluster, tmp_path: Path) -> None:
    config = write_config(tmp_path, storePathRootDir=str(running.store))
    more = ["--set", f"mappedFileSizeCommitLog={running.broker_config['mappedFileSizeCommitLog']}"]
    fails(
        ["broker", "-c", config, *more],
        FAILED,
        f"the store in {running.store} is in use by another process",
        "stop that one first",
    )
    assert running.is_ready()


def test_a_log_file_has_another_size(tmp_path: Path) -> None:
    file = tmp_path / "store" / "commitlog" / FIRST_LOG_FILE
    file.parent.mkdir(parents=True)
    file.write_bytes(bytes(12_345))
    fails(
        ["broker", "-c", write_config(tmp_path)],
        FAILED,
        f"{FIRST_LOG_FILE} has 12345 bytes, but mappedFileSizeCommitLog is {LOG_FILE_BYTES}",
    )
    assert file.read_bytes() == bytes(12_345), "it is left as it was"


@pytest.mark.parametrize("place", ["store", "store/commitlog"])
def test_a_directory_of_the_store_is_a_file(tmp_path: Path, place: str) -> None:
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("precious")
    fails(["broker", "-c", write_config(tmp_path)], FAILED, str(file), "File exists")
    assert file.read_text() == "precious"


def test_metadata_are_damaged(tmp_path: Path) -> None:
    file = tmp_path / "store" / "config" / "topics.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"topicConfigTable":')
    fails(["broker", "-c", write_config(tmp_path)], FAILED, "config/topics.json", "malformed JSON")
    assert file.read_text() == '{"topicConfigTable":'


def test_the_key_value_configuration_is_damaged(tmp_path: Path) -> None:
    file = tmp_path / "kvConfig.json"
    file.write_text("{")
    more = ["--set", f"kvConfigPath={file}", "--set", f"listenPort={free_port()}"]
    fails(["namesrv", *more], FAILED, "kvConfig.json", "malformed JSON", "from another name server")


# Ports ----------------------------------------------------------------------------------------


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that this very process listens on."""
    with socket.socket() as holder:
        port = free_broker_port()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        holder.listen()
        yield port


def check_port_taken(argv: Sequence[str | Path], port: int, option: str = "listenPort") -> None:
    where = f"cannot listen on 127.0.0.1:{port}: the port is taken"
    fails(argv, FAILED, where, f"another {option}", f"it is taken by process {os.getpid()} (")


@pytest.mark.parametrize("step", [0, 2], ids=["main port", "fast port"])
def test_a_port_of_the_broker_is_taken(tmp_path: Path, taken: int, step: int) -> None:
    config = write_config(tmp_path, listenPort=taken + step)
    option = "fastListenPort" if step else "listenPort"
    check_port_taken(["broker", "-c", config], taken, option)
    assert not (tmp_path / "store" / "abort").exists(), "the store was not closed cleanly"


def test_the_port_of_the_name_server_is_taken(tmp_path: Path, taken: int) -> None:
    more = ["--set", f"kvConfigPath={tmp_path}/kv.json"]
    check_port_taken(["namesrv", "--set", f"listenPort={taken}", *more], taken)


def test_the_address_is_not_ours(tmp_path: Path) -> None:
    more = ["--set", "bindAddress=192.0.2.77", "--set", f"kvConfigPath={tmp_path}/kv.json"]
    fails(["namesrv", *more], FAILED, "this machine has no such address", "set bindAddress")


# Permissions ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nobody() -> list[str]:
    """What runs a program as somebody who may not write everywhere."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and there is no setpriv to become nobody")
    probe = [*NOBODY, *EPOCHMQ, "--version"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("root may write everywhere, and nobody may not run this interpreter")
    return NOBODY


@pytest.fixture
def locked() -> Iterator[Path]:
    """A directory that can be read but not written; not below pytest's, which only root enters."""
    root = Path(tempfile.mkdtemp(prefix="compat-"))
    inner = root / "locked"
    inner.mkdir()
    inner.chmod(0o555)
    root.chmod(0o755)
    yield inner
    inner.chmod(0o755)
    shutil.rmtree(root)


@pytest.mark.parametrize("place", ["", "store"], ids=["exists", "to be made"])
def test_the_store_may_not_be_written(nobody: list[str], locked: Path, place: str) -> None:
    config = write_config(locked.parent, storePathRootDir=str(locked / place))
    fails(["broker", "-c", config], FAILED, str(locked), "Permission denied", before=nobody)


def test_the_configuration_may_not_be_read(nobody: list[str], locked: Path) -> None:
    config = write_config(locked.parent)
    config.chmod(0)
    fails(["broker", "-c", config], USAGE, str(config), "Permission denied", before=nobody)
