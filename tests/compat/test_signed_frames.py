"""Frames that RocketMQ's clients signed, recorded on their way, changed and sent again.

RocketMQ's broker has to decide the same about each. The signature does not cover the request code
and can be repeated, which docs/SECURITY.md says; everything else that is changed is refused.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
from tests.tiers import choose

from epochmq.auth.credentials import Credentials
from epochmq.client.aio import Admin
from epochmq.client.aio.admin_auth import policy_of
from epochmq.model.topic import TopicConfig
from epochmq.spark.spark_loop_thread import LoopThread
from epochmq.wire.bodies.auth_bodies import UserInfo
from epochmq.wire.command import Command, decode

from .clients import ALL, Client
from .conftest import had
from .peers.cluster import Cluster
from .peers.epochmq import EpochCluster
from .peers.java import JavaCluster
from .peers.ports import free_port
from .peers.secure import ADMIN, SECURE

ALICE = Credentials("alice", "alice-secret-1")
TOPIC = "recorded"
NO_PERMISSION = 16
SENDS = (310, 10, 320)


class Recorder:
    """Leads clients to a broker, and records what they send.

    It passes on the bytes of the name server with the address of the broker exchanged for its own,
    which has as many digits.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.frames: list[bytes] = []
        self._ports = cluster.namesrv_port, cluster.broker_port
        self._own = free_port(), free_port()
        assert len(str(self._own[1])) == len(str(cluster.broker_port))
        self._thread = LoopThread("recorder")
        self._servers = [
            self._thread.run(self._listen(own, to, number == 0))
            for number, (own, to) in enumerate(zip(self._own, self._ports, strict=True))
        ]

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self._own[0]}"

    async def _listen(self, own: int, to: int, is_name_server: bool) -> asyncio.Server:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            away, home = await asyncio.open_connection("127.0.0.1", to)
            both = asyncio.gather(
                self._pass_on(reader, home, not is_name_server, False),
                self._pass_on(away, writer, False, is_name_server),
            )
            with suppress(OSError, asyncio.CancelledError):
                await both

        return await asyncio.start_server(accept, "127.0.0.1", own)

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        is_recorded: bool,
        is_changed: bool,
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(4)
                frame = size + await reader.readexactly(int.from_bytes(size, "big"))
                if is_recorded:
                    self.frames.append(frame)
                if is_changed:
                    theirs, ours = (b"127.0.0.1:%d" % p[1] for p in (self._ports, self._own))
                    frame = frame.replace(theirs, ours)
                writer.write(frame)
        writer.close()

    def close(self) -> None:
        for server in self._servers:
            self._thread.run(self._close(server))
        self._thread.close()

    async def _close(self, server: asyncio.Server) -> None:
        server.close()


def parsed(frame: bytes) -> Command:
    header = int.from_bytes(frame[5:8], "big")
    return decode(frame[8 : 8 + header], frame[4] != 0, frame[8 + header :])


def answer_to(port: int, frame: bytes) -> int:
    """Send a frame over a connection of its own; return the code of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        link.sendall(frame)
        with link.makefile("rb") as stream:
            size = stream.read(4)
            return parsed(size + stream.read(int.from_bytes(size, "big"))).code


@pytest.fixture(scope="module", params=choose([EpochCluster], [EpochCluster, JavaCluster]))
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with request.param(broker_config=SECURE) as running:

        async def create() -> None:
            async with Admin(running.namesrv_addr, credentials=ADMIN) as admin:
                await admin.create_topic(TopicConfig(TOPIC, 1, 1))
                info = UserInfo(username=ALICE.access_key, password=ALICE.secret_key)
                await admin.create_user(running.broker_addr, info)
                acl = policy_of("User:alice", [f"Topic:{TOPIC}"], ["Pub"], "Allow")
                await admin.put_acl(running.broker_addr, acl)

        asyncio.run(create())
        yield running


@dataclass(frozen=True)
class Recorded:
    """A send of a client."""

    cluster: Cluster
    frame: bytes

    def answer(self, change: Callable[[bytes], bytes] = bytes) -> int:
        changed = change(self.frame)
        assert len(changed) == len(self.frame)
        return answer_to(self.cluster.broker_port, changed)


@pytest.fixture(scope="module", params=ALL, ids=lambda client: client.name)
def sent(request: pytest.FixtureRequest, cluster: Cluster) -> Recorded:
    client: Client = request.param
    recorder = Recorder(cluster)
    try:
        with had(client.build) as driver:
            options = {"user": ALICE.access_key, "secret": ALICE.secret_key}
            outcome = driver.run(
                "send", recorder.namesrv, TOPIC, count=1, prefix="signed", **options
            )
            assert [event["status"] for event in outcome.sent] == ["SEND_OK"]
    finally:
        recorder.close()
    (frame, *_) = (each for each in recorder.frames if parsed(each).code in SENDS)
    assert (parsed(frame).ext or {})["Signature"]
    return Recorded(cluster, frame)


def test_a_signature_can_be_repeated(sent: Recorded) -> None:
    assert sent.answer() == 0


@pytest.mark.parametrize("at", ["body", "topic", "user", "signature"])
def test_a_changed_field_or_body_is_refused(sent: Recorded, at: str) -> None:
    ext = parsed(sent.frame).ext or {}
    texts = {
        "body": bytes(parsed(sent.frame).body),
        "topic": TOPIC.encode(),
        "user": b"alice",
        "signature": ext["Signature"].encode(),
    }
    text = texts[at]

    def change(frame: bytes) -> bytes:
        place = frame.rindex(text)
        other = b"x" if frame[place : place + 1] != b"x" else b"y"
        return frame[:place] + other + frame[place + 1 :]

    assert sent.answer(change) == NO_PERMISSION


def test_a_signature_counts_under_another_code(sent: Recorded) -> None:
    """A request that needs no permission of a topic, with the fields of the send."""

    def change(frame: bytes) -> bytes:
        if frame[4]:  # the binary header begins with the code
            return frame[:8] + (46).to_bytes(2, "big") + frame[10:]
        return re.sub(rb'"code":(\d+)', _check_client_config, frame, count=1)

    assert sent.answer(change) != NO_PERMISSION


def _check_client_config(found: re.Match[bytes]) -> bytes:
    return b'"code":' + b"46".rjust(len(found[1]))
