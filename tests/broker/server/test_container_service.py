"""A whole container in this process, and brokers added, removed and failing beside each other."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.broker_harness import send
from tests.broker.client import RawClient
from tests.compat.peers.ports import free_broker_port

from epochmq.auth.credentials import Credentials
from epochmq.base.errors import ConfigError, EnvironmentFault, PortInUse
from epochmq.broker.config.container_options import ContainerOptions
from epochmq.broker.server.container_broker import InnerBrokerId
from epochmq.broker.server.container_service import CHANGES_MAX, Container
from epochmq.runtime import listen
from epochmq.runtime.logging_setup import ScrubbingFormatter
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command


class Files:
    """The brokers' files of one container."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.conf = root / "conf"
        self.conf.mkdir()

    def write(self, name: str, **more: object) -> str:
        lines = {
            "brokerName": name,
            "storePathRootDir": self.root / "data" / name,
            "listenPort": free_broker_port(),
            "fastListenPort": -1,
            "mappedFileSizeCommitLog": 1 << 20,
            "maxMessageSize": 65536,
            **more,
        }
        path = self.conf / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return str(path)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@contextlib.asynccontextmanager
async def container(files: Files, *paths: str) -> AsyncIterator[Container]:
    options = ContainerOptions(
        listen_port=0,
        broker_config_paths=":".join(paths),
        broker_config_dirs=str(files.conf),
        broker_stop_grace_millis=200,
    )
    running = Container(options, env={})
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def ask(
    port: int, code: int, ext: dict[str, str] | None = None, body: bytes = b""
) -> Command:
    client = await RawClient.connect(port)
    try:
        return await client.ask(Command(code, ext=ext, body=body))
    finally:
        await client.close()


def removal(name: str) -> dict[str, str]:
    return {"brokerName": name, "brokerClusterName": "DefaultCluster", "brokerId": "0"}


def port_of(running: Container, name: str) -> int:
    return running.brokers[InnerBrokerId("DefaultCluster", name, 0)].port


async def test_two_brokers_and_one_more(files: Files) -> None:
    a, b, c = (files.write(name) for name in "abc")
    async with container(files, a, b) as running:
        for name in "ab":
            client = await RawClient.connect(port_of(running, name))
            assert (await client.ask(send(name.encode(), topic="T"))).code == 0
            await client.close()
        assert (await ask(running.port, Code.ADD_BROKER, {"configPath": c})).code == 0
        assert (await ask(port_of(running, "c"), Code.GET_BROKER_CONFIG)).code == 0
        again = await ask(running.port, Code.ADD_BROKER, {"configPath": c})
        assert (again.code, "is running already" in (again.remark or "")) == (1, True)
        gone = port_of(running, "a")
        assert (await ask(running.port, Code.REMOVE_BROKER, removal("a"))).code == 0
        with pytest.raises(OSError):
            await RawClient.connect(gone)
        assert (await ask(running.port, Code.REMOVE_BROKER, removal("a"))).code == 211
        assert not (files.root / "data" / "a" / "abort").exists()
        assert (await ask(running.port, Code.ADD_BROKER, {"configPath": a})).code == 0
    assert not list((files.root / "data").glob("*/abort"))


async def test_whoever_fails_fails_alone(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    good = files.write("good")
    taken = files.write("taken", storePathRootDir=files.root / "data" / "good")
    wrong = files.write("wrong", brokerRole="SLAVE")
    async with container(files, good, taken, wrong, "/none") as running:
        assert list(running.brokers) == [InnerBrokerId("DefaultCluster", "good", 0)]
        assert "overlap" in caplog.text
        assert "'brokerId' must be more than 0" in caplog.text
        port = port_of(running, "good")
        held = files.write("held", listenPort=free_broker_port())
        (files.root / "data").joinpath("held").write_text("no directory")
        said = await ask(running.port, Code.ADD_BROKER, {"configPath": held})
        assert said.code == 1
        assert "held" in (said.remark or "")
        shown = bytes((await ask(running.port, Code.GET_BROKER_CONFIG)).body).decode()
        assert "# DefaultCluster_good_0: running\n# DefaultCluster_held_0: failed " in shown
        (files.root / "data" / "held").unlink()
        assert (await ask(running.port, Code.ADD_BROKER, {"configPath": held})).code == 0
        running.brokers[InnerBrokerId("DefaultCluster", "held", 0)].node.store.fence("broken")
        client = await RawClient.connect(port)
        assert (await client.ask(send(b"m", topic="T"))).code == 0
        await client.close()


async def test_a_taken_port_is_looked_up_beside_the_event_loop(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def look_up(port: int) -> str:
        threads.append(threading.get_ident())
        return "process 4711 (java)"

    monkeypatch.setattr(listen, "describe_holder", look_up)
    async with container(files, files.write("a")) as running:
        held = files.write("held", listenPort=running.port)
        said = await ask(running.port, Code.ADD_BROKER, {"configPath": held})
        assert (said.remark or "").endswith("it is taken by process 4711 (java)")
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_one_whose_stop_fails_is_gone_and_may_be_added_again(files: Files) -> None:
    """rocketmq#5900: there it could be neither removed nor added any more."""
    names = files.write("a"), files.write("b")
    async with container(files, *names) as running:
        identity = InnerBrokerId("DefaultCluster", "b", 0)
        broker: Any = running.brokers[identity]
        stop = broker.stop

        async def fails(grace_ms: int) -> None:
            await stop(grace_ms)
            raise EnvironmentFault("the disk is gone")

        broker.stop = fails
        told = {"brokerClusterName": "DefaultCluster", "brokerName": "b", "brokerId": 0}
        assert (await ask(running.port, Code.REMOVE_BROKER, told)).code != 0
        assert list(running.brokers) == [InnerBrokerId("DefaultCluster", "a", 0)]
        assert (await ask(running.port, Code.ADD_BROKER, {"configPath": names[1]})).code == 0
        assert identity in running.brokers


async def test_a_container_of_which_nothing_starts_says_why(files: Files) -> None:
    with pytest.raises(ConfigError, match="cannot read /none"):
        async with container(files, "/none", "/nowhere"):
            raise AssertionError("it started")
    async with container(files) as running:
        with pytest.raises(PortInUse):
            await Container(ContainerOptions(listen_port=running.port), env={}).start()


async def test_an_open_port_is_pointed_out(caplog: pytest.LogCaptureFixture) -> None:
    for address, told in (("0.0.0.0", True), ("127.0.0.1", False)):
        caplog.clear()
        running = Container(ContainerOptions(listen_port=0, bind_address=address), env={})
        await running.start()
        await running.stop()
        assert ("without access control" in caplog.text) is told


async def test_with_authentication_only_the_servers_users_are_served(files: Files) -> None:
    options = ContainerOptions(
        listen_port=0,
        broker_config_dirs=str(files.conf),
        authentication_enabled=True,
        inner_client_authentication_credentials='{"accessKey":"inner","secretKey":"s"}',
    )
    running = Container(options, env={})
    await running.start()
    try:
        path = {"configPath": files.write("a")}
        for code in (Code.ADD_BROKER, Code.REMOVE_BROKER, Code.GET_BROKER_CONFIG):
            assert (await ask(running.port, code, dict(path))).code == 16
        assert running.brokers == {}
        signed = Command(Code.ADD_BROKER, ext=dict(path))
        Credentials("inner", "s").sign(signed)
        client = await RawClient.connect(running.port)
        assert (await client.ask(signed)).code == 0
        await client.close()
    finally:
        await running.stop()


async def test_files_elsewhere_are_not_looked_at(files: Files) -> None:
    async with container(files) as running:
        for path in ("/etc/passwd", "/none", "b.properties"):
            said = await ask(running.port, Code.ADD_BROKER, {"configPath": path})
            assert said.code == 16
            assert "brokerConfigDirs" in (said.remark or "")
        assert (await ask(running.port, Code.ADD_BROKER, None, b"brokerName=x")).code == 1


async def test_options_by_the_allow_list(files: Files) -> None:
    async with container(files) as running:
        grace = b"brokerStopGraceMillis=7"
        assert (await ask(running.port, Code.UPDATE_BROKER_CONFIG, None, grace)).code == 0
        assert running.options.broker_stop_grace_millis == 7
        for text, code in (
            (b"brokerConfigDirs=/", 16),
            (b"brokerStopGraceMillis=7\nbindAddress=0.0.0.0", 16),
            (b"nothing=1", 16),
            (b"brokerStopGraceMillis=x", 1),
            (b"a=\\uZZZZ", 1),
            (b"#" * 300_000, 1),
        ):
            assert (await ask(running.port, Code.UPDATE_BROKER_CONFIG, None, text)).code == code
        got = await ask(running.port, Code.GET_BROKER_CONFIG)
        assert b"brokerStopGraceMillis=7" in bytes(got.body)
        assert '"counter":1' in (got.ext or {})["version"]
        assert (await ask(running.port, Code.SEND_MESSAGE)).code == 3


async def test_changes_wait_in_line_and_not_without_bound(files: Files) -> None:
    async with container(files) as running:
        client = await RawClient.connect(running.port)
        async with running._change:
            for _ in range(CHANGES_MAX + 1):
                client.put(Command(Code.REMOVE_BROKER, ext=removal("x")))
            assert (await client.next()).code == 2
        answers = [(await client.next()).code for _ in range(CHANGES_MAX)]
        assert answers == [211] * CHANGES_MAX
        await client.close()


async def test_log_lines_name_their_broker(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "epochmq")
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Lines()
    handler.setFormatter(ScrubbingFormatter("%(message)s"))
    logger = logging.getLogger("epochmq")
    logger.addHandler(handler)
    try:
        async with container(files, *(files.write(name) for name in "ab")) as running:
            await asyncio.gather(*(change_an_option(port_of(running, name)) for name in "ab"))
    finally:
        logger.removeHandler(handler)
    for name in "ab":
        about = [line for line in lines if line.startswith(f"[DefaultCluster_{name}_0] ")]
        assert any("changed options: slaveReadEnable" in line for line in about)
    assert any(line.startswith("broker DefaultCluster_b_0 runs") for line in lines)


async def change_an_option(port: int) -> None:
    """Each broker logs that its options were changed."""
    body = b"slaveReadEnable=true"
    assert (await ask(port, Code.UPDATE_BROKER_CONFIG, None, body)).code == 0


async def test_a_broker_may_have_a_log_file_of_its_own(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """RocketMQ's isolateLogEnable, and its name of the directory; added once more it goes on."""
    caplog.set_level(logging.INFO)
    own = files.write("own", isolateLogEnable="true")
    options = ContainerOptions(
        listen_port=0,
        broker_config_paths=f"{own}:{files.write('other')}",
        broker_log_dir=str(tmp_path / "logs"),
        broker_stop_grace_millis=200,
    )
    running = Container(options, env={})
    try:
        await running.start()
        file = tmp_path / "logs" / "DefaultCluster_own_0_rocketmqlogs" / "broker.log"
        assert [path.name for path in (tmp_path / "logs").iterdir()] == [file.parent.name]
        for name in ("own", "other"):
            await change_an_option(port_of(running, name))
        await until_said(file, 1)
        assert [line.count("[DefaultCluster_own_0]") for line in said(file)] == [1]
        await running.remove(InnerBrokerId("DefaultCluster", "own", 0))
        await running.add(own)
        await change_an_option(port_of(running, "own"))
        await until_said(file, 2)
    finally:
        await running.stop()
    handlers = logging.getLogger().handlers
    assert not any(str(file) == getattr(one, "baseFilename", "") for one in handlers)


async def until_said(file: Path, count: int) -> None:
    """A thread writes the lines."""
    async with asyncio.timeout(30):
        while True:
            if len(said(file)) >= count:
                break
            await asyncio.sleep(0.01)
    assert len(said(file)) == count


def said(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if "changed options" in line]


async def test_a_broker_whose_log_file_cannot_be_made_is_left_out(
    files: Files, tmp_path: Path
) -> None:
    (tmp_path / "logs").write_text("a file")
    own = files.write("own", isolateLogEnable="true")
    options = ContainerOptions(
        listen_port=0,
        broker_config_paths=f"{own}:{files.write('other')}",
        broker_log_dir=str(tmp_path / "logs"),
        broker_stop_grace_millis=200,
    )
    running = Container(options, env={})
    try:
        await running.start()
        assert [identity.name for identity in running.brokers] == ["other"]
        assert "isolateLogEnable" in running.roster.statistics()["DefaultCluster_own_0"]
    finally:
        await running.stop()
