import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.nameserver.world import broker_ext, configs
from tests.runtime.sinks import until
from tests.runtime.test_tls import CERT, KEY

from epochmq.base.errors import ConfigError, PortInUse, StoreDamaged
from epochmq.nameserver.name_server import NameServer, main
from epochmq.nameserver.options import NamesrvOptions
from epochmq.runtime.peers import Peer, Peers
from epochmq.runtime.server import RemotingServer
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.namesrv_bodies import RegisterBrokerBody
from epochmq.wire.bodies.topic_bodies import TopicConfigTable
from epochmq.wire.command import HELD, Command, Held, request
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.session import Session

WAIT_MAX_S = 30
TOPICS = encode_body(RegisterBrokerBody(TopicConfigTable(configs("A", "B"))))


def options(folder: Path, **changes: Any) -> NamesrvOptions:
    fields = {"listen_port": 0, "kv_config_path": str(folder / "conf/kv.json")} | changes
    return NamesrvOptions(**fields)


@asynccontextmanager
async def running(folder: Path, **changes: Any) -> AsyncIterator[tuple[NameServer, str]]:
    server = NameServer(options(folder, **changes))
    await server.start()
    try:
        yield server, f"127.0.0.1:{server.port}"
    finally:
        await server.stop(grace_ms=200)


def registration(broker_id: int = 0, addr: str | None = None, **ext: str) -> Command:
    fields = broker_ext(broker_id) | {"haServerAddr": "h:1"} | ext
    if addr is not None:
        fields["brokerAddr"] = addr
    return request(103, fields, TOPICS)


async def route(peer: Peer) -> int:
    return (await peer.invoke(request(105, {"topic": "A"}), 5_000)).code


async def route_gone(peer: Peer) -> None:
    async with asyncio.timeout(WAIT_MAX_S):
        while await route(peer) != 17:
            pass


async def test_a_broker_is_routed_until_its_connection_closes(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, addr):
        broker, client = await Peer.connect(addr), await Peer.connect(addr)
        assert (await broker.invoke(registration(), 5_000)).code == 0
        assert await route(client) == 0
        broker.close()
        await route_gone(client)
        client.close()
        await client.closed.wait()


async def test_a_silent_broker_is_taken_out_and_disconnected(tmp_path: Path) -> None:
    async with running(tmp_path, scan_not_active_broker_interval=100) as (server, addr):
        broker, client = await Peer.connect(addr), await Peer.connect(addr)
        await broker.invoke(registration(), 5_000)
        assert await route(client) == 0
        await broker.invoke(registration(heartbeatTimeoutMillis="50"), 5_000)
        await asyncio.wait_for(broker.closed.wait(), WAIT_MAX_S)
        await route_gone(client)
        assert server.node.table.brokers.live == {}
        client.close()
        await client.closed.wait()


async def test_key_values_outlive_a_restart(tmp_path: Path) -> None:
    peers = Peers()
    async with running(tmp_path) as (_, addr):
        told = request(100, {"namespace": "n", "key": "k", "value": "v"})
        assert (await peers.invoke(addr, told, 5_000)).code == 0
    async with running(tmp_path) as (_, addr):
        answer = await peers.invoke(addr, request(101, {"namespace": "n", "key": "k"}), 5_000)
        assert answer.ext == {"value": "v"}
    await peers.close()


async def test_members_hear_of_a_new_smallest_id(tmp_path: Path) -> None:
    heard: asyncio.Queue[dict[str, str]] = asyncio.Queue()

    def hear(command: Command, session: Session, now: int) -> Held:
        heard.put_nowait(command.ext or {})
        return HELD

    replica = RemotingServer()
    replica_addr = f"127.0.0.1:{await replica.start('127.0.0.1', 0, Dispatcher({905: hear}))}"
    async with running(tmp_path, notify_min_broker_id_changed=True) as (_, addr):
        first, second = await Peer.connect(addr), await Peer.connect(addr)
        acting = {"enableActingMaster": "true"}
        await first.invoke(registration(1, replica_addr, **acting), 5_000)
        await second.invoke(registration(0, "127.0.0.1:1", **acting), 5_000)
        assert await asyncio.wait_for(heard.get(), WAIT_MAX_S) == {
            "minBrokerId": "0",
            "minBrokerAddr": "127.0.0.1:1",
            "haBrokerAddr": "h:1",
        }
        await second.invoke(request(104, broker_ext(0) | {"brokerAddr": "127.0.0.1:1"}), 5_000)
        assert await asyncio.wait_for(heard.get(), WAIT_MAX_S) == {
            "minBrokerId": "1",
            "minBrokerAddr": replica_addr,
            "offlineBrokerAddr": "127.0.0.1:1",
        }
        for peer in (first, second):
            peer.close()
            await peer.closed.wait()
    await replica.stop()


async def test_a_member_that_cannot_be_told_is_only_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with running(tmp_path, notify_min_broker_id_changed=True) as (_, addr):
        peer = await Peer.connect(addr)
        await peer.invoke(registration(1, "127.0.0.1:1", enableActingMaster="true"), 5_000)
        await peer.invoke(registration(0, "127.0.0.1:2", enableActingMaster="true"), 5_000)
        await until(lambda: "127.0.0.1:1 could not be notified" in caplog.text)
        peer.close()
        await peer.closed.wait()


async def test_a_stop_may_come_in_the_middle_of_a_notice(tmp_path: Path) -> None:
    server = NameServer(options(tmp_path, notify_min_broker_id_changed=True))
    await server.start()
    peer = await Peer.connect(f"127.0.0.1:{server.port}")
    await peer.invoke(registration(1, "192.0.2.1:1", enableActingMaster="true"), 5_000)
    await peer.invoke(registration(0, "192.0.2.2:1", enableActingMaster="true"), 5_000)
    await server.stop()
    await server.stop()
    await peer.closed.wait()


async def test_start_up_faults_are_one_clear_line(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, _):
        with pytest.raises(PortInUse, match="the port is taken"):
            await NameServer(options(tmp_path, listen_port=server.port)).start()
    (tmp_path / "conf/kv.json").write_text("{")
    with pytest.raises(StoreDamaged, match=r"kv\.json"):
        await NameServer(options(tmp_path)).start()


async def test_main_says_when_it_is_ready_and_stops_on_a_signal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = asyncio.ensure_future(main(options(tmp_path)))
    shown = ""
    async with asyncio.timeout(WAIT_MAX_S):
        while not shown:
            await asyncio.sleep(0)
            shown = capsys.readouterr().out
    assert shown.startswith("name server ready on 127.0.0.1:")
    port = int(shown.strip().rpartition(":")[2])
    peer = await Peer.connect(f"127.0.0.1:{port}")
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, WAIT_MAX_S)
    await asyncio.wait_for(peer.closed.wait(), WAIT_MAX_S)


async def test_a_file_in_the_working_folder_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = NameServer(NamesrvOptions(listen_port=0, kv_config_path="kv.json"))
    server.node.kv.put("n", "k", "v")
    server.node.kv.save()
    assert (tmp_path / "kv.json").exists()


async def test_it_speaks_tls_where_a_certificate_is_given(tmp_path: Path) -> None:
    files = {"tls_cert_path": CERT, "tls_key_path": KEY}
    async with running(tmp_path, tls_mode="permissive", **files) as (_, addr):
        for tls in (None, ssl.create_default_context(cafile=CERT)):
            peers = Peers(tls=tls)
            assert (await peers.invoke(addr, request(206), 5_000)).code == 0
            await peers.close()
    with pytest.raises(ConfigError, match=r"tls\.server\.certPath"):
        NameServer(options(tmp_path, tls_mode="enforcing"))
