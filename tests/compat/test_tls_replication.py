"""Replication links with TLS: a group that is changed over under load, and strangers after that."""

import asyncio
import socket
import struct
from pathlib import Path

import pytest

from epochmq.admin.shared.certificate_files import make_files, tls_options
from epochmq.base.errors import EpochError, UsageError
from epochmq.client.aio import Admin, Producer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.log_export import LogExport
from epochmq.spark.log_learner import find_home

from .peers.cluster import Config
from .peers.group import Group, Server
from .peers.process import is_listening, wait_until

HELLO = struct.pack(">ihhq", 1, 0, 0, 77)
"""A replica's first frame."""


def first_answer(port: int, data: bytes) -> bytes:
    """Return the first bytes that the replication port answers; empty if it closes the link."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        link.sendall(data)
        try:
            return link.recv(64)
        except ConnectionError:
            return b""


async def test_a_group_changes_to_tls_without_an_outage(tmp_path: Path) -> None:
    """In the steps of docs/OPERATING.md; the master is killed in the end."""
    certificates = tmp_path / "tls"
    certificates.mkdir()
    make_files(certificates, "server", ("127.0.0.1", "localhost"), 2)
    options = {**tls_options(certificates, "server"), "tls.server.mode": "permissive"}
    server = {key: text for key, text in options.items() if key.startswith("tls.server")}
    group = Group(
        root=tmp_path, broker_config={"allAckInSyncStateSet": True, "minInSyncReplicas": 2}
    )
    second = group.add_name_server()
    with group:
        where = f"{group.namesrv_addr};{second.address}"

        def all_in_set() -> bool:
            state = group.sync_state()
            return state is not None and len(state.in_sync) == len(group.brokers)

        def restart(one: Server) -> None:
            one.process.stop()
            if one in group.brokers:
                wait_until(lambda: not all_in_set(), 20, "a set without the stopped replica")
            one.start()
            wait_until(lambda: is_listening(one.port), 20, "the restarted server")
            group.wait_ready()
            wait_until(all_in_set, 20, "all replicas in the sync-state set")

        async def restart_all(servers: list[Server], changes: Config) -> None:
            for one in servers:
                one.config.update(changes)
                await asyncio.to_thread(restart, one)

        async with Admin(where) as admin:
            await admin.create_topic(TopicConfig("t", 1, 1))
        async with Producer(where, timeout_ms=20_000) as producer:
            acknowledged: list[str] = []
            done = asyncio.Event()

            async def send() -> None:
                while not done.is_set():
                    acknowledged.append((await producer.send(Message("t", b"x" * 1_000))).msg_id)

            sending = asyncio.create_task(send())
            others = [group.namesrv, second, *group.controllers]
            await restart_all([*others, *group.brokers], server)
            for mode in ("permissive", "enforcing"):
                await restart_all(group.brokers, {**options, "haTlsMode": mode})
            master = group.master()
            assert master is not None
            master.process.kill9()
            before = len(acknowledged)
            master.start()
            await asyncio.to_thread(group.wait_ready)
            done.set()
            await sending
            assert len(acknowledged) > before
        master = await asyncio.to_thread(group.master)
        assert master is not None
        port = int(master.config["haListenPort"])
        assert await asyncio.to_thread(first_answer, port, HELLO) == b""
        alert = await asyncio.to_thread(first_answer, port, b"\x16\x03\x01junk" * 20)
        assert alert[:1] in (b"", b"\x15")

        def stored(tls: OutgoingTls) -> int:
            export = LogExport(lambda: find_home(group.namesrv_addr, group.broker_name, tls))
            return sum(len(each.data) for each in export.ranges())

        authority = options["tls.client.trustCertPath"]
        trusting = OutgoingTls(tls_enable=True, tls_client_trust_cert_path=authority)
        assert await asyncio.to_thread(stored, trusting) > 1_000 * len(acknowledged)
        with pytest.raises(UsageError, match="haTlsMode"):
            await asyncio.to_thread(stored, OutgoingTls())
        with pytest.raises(EpochError, match="certificate verify failed"):
            await asyncio.to_thread(stored, OutgoingTls(tls_enable=True))
