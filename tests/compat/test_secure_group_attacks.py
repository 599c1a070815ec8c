"""Forged messages that stopped a cluster or lost messages, to a group that checks signatures.

Role notices (1008), replicas at the replication port, votes of controllers and registrations: each
is refused before anything in it is read, and the group goes on as it was.
"""

import asyncio
import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochmq.auth.credentials import Credentials
from epochmq.client.aio import Admin, Producer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from epochmq.raft.raft_messages import AppendEntries, Heartbeat, TimeoutNow, Vote, encode
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, decode, encode_frame, request

from .peers.group import Group
from .peers.secure import ADMIN, SECURE, SERVER

HIGHEST = (1 << 63) - 1
STRANGERS = (None, Credentials("inner", "wrong"), Credentials("nobody", "x"))


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    config = {**SECURE, "minInSyncReplicas": 2}
    made = Group(root=tmp_path, broker_config=config, controller_config=SERVER)
    made.namesrv.config.update(SERVER)
    with made as running:
        yield running


def role_notices(group: Group) -> list[tuple[str, Command]]:
    """Each broker is told of a master with the highest epoch: a stranger, or itself."""
    code = RequestCode.NOTIFY_BROKER_ROLE_CHANGED
    return [
        (
            broker.address,
            request(
                code,
                {
                    "masterAddress": "127.0.0.1:9",
                    "masterHaAddress": "127.0.0.1:9",
                    "masterEpoch": str(epoch),
                    "syncStateSetEpoch": "1",
                    "masterBrokerId": str(master),
                    "brokerName": group.broker_name,
                },
            ),
        )
        for broker in group.brokers
        for epoch in (2, 2**31 - 1)
        for master in (1, 2, 3, 77)
    ]


def raft_messages(group: Group) -> list[tuple[str, Command]]:
    """Each controller is written to in the name of another one."""
    names = [str(server.config["controllerDLegerSelfId"]) for server in group.controllers]
    found = []
    for own, server in zip(names, group.controllers, strict=True):
        other = next(name for name in names if name != own)
        for message in (
            Vote(other, own, HIGHEST, HIGHEST, HIGHEST, transfer=True),
            Heartbeat(other, own, 1, HIGHEST, 1, 0),
            AppendEntries(other, own, 2, 0, 0, 1, ()),
            TimeoutNow(other, own, 1),
        ):
            found.append((server.address, request(RequestCode.RAFT_MESSAGE, None, encode(message))))
    return found


def registrations(group: Group) -> list[tuple[str, Command]]:
    """A stranger registers as the master of the group, with a later version than any."""
    ext = {
        "brokerName": group.broker_name,
        "brokerAddr": "127.0.0.1:9",
        "clusterName": "DefaultCluster",
        "haServerAddr": "127.0.0.1:9",
        "brokerId": "0",
    }
    found = []
    for version in (3, 2**29, 2**62):
        body = {"topicConfigSerializeWrapper": {"dataVersion": {"stateVersion": version}}}
        command = request(RequestCode.REGISTER_BROKER, ext, json.dumps(body).encode())
        found.append((group.namesrv_addr, command))
    return found


def claim_replica(port: int, number: int) -> bytes:
    """Say hello as a replica and acknowledge everything; return what the master answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        link.sendall(struct.pack(">ihhq", 1, 0, 0, number) + struct.pack(">iq", 2, HIGHEST))
        answered = b""
        try:
            while data := link.recv(4096):
                answered += data
        except ConnectionError:
            pass
        return answered


class Recorded:
    """One connection whose requests a test can write again."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._stream = self._socket.makefile("rb")
        ask = ADMIN.ask_challenge()
        ask.opaque = 1
        answer = self.write(encode_frame(ask))
        assert answer is not None
        self.sign = ADMIN.sign_for(answer, lambda: 0)

    def write(self, frame: bytes) -> Command | None:
        """Write a frame and return the answer; None if the server closes the connection."""
        self._socket.sendall(frame)
        size = self._stream.read(4)
        if len(size) < 4:
            return None
        data = self._stream.read(int.from_bytes(size, "big"))
        header = int.from_bytes(data[1:4], "big")
        return decode(data[4 : 4 + header], False, data[4 + header :])

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def test_a_recorded_request_counts_once(group: Group) -> None:
    """RocketMQ's signature can be repeated at each server; one for a connection cannot."""
    master = group.master()
    assert master is not None
    for address, code in (
        (master.address, RequestCode.GET_BROKER_CONFIG),
        (group.namesrv_addr, RequestCode.GET_NAMESRV_CONFIG),
        (group.controllers[0].address, RequestCode.GET_CONTROLLER_CONFIG),
    ):
        links = [Recorded(address) for _ in range(3)]
        old, new = request(code), request(code)
        old.opaque = new.opaque = 2
        ADMIN.sign(old)
        for link in links:
            answer = link.write(encode_frame(old))
            assert answer is not None
            assert answer.code == ResponseCode.SUCCESS
        links[0].sign(new)
        frame = encode_frame(new)
        for link, codes in zip(
            links, ([ResponseCode.SUCCESS, None], [ResponseCode.NO_PERMISSION] * 2), strict=False
        ):
            for expected in codes:
                answer = link.write(frame)
                assert (answer and answer.code) == expected, (address, expected)
        for link in links:
            link.close()


async def test_forged_messages_change_nothing(group: Group) -> None:
    before = await asyncio.to_thread(group.sync_state)
    master = await asyncio.to_thread(group.master)
    assert before is not None
    assert master is not None
    async with Admin(group.namesrv_addr, credentials=ADMIN) as admin:
        await admin.create_topic(TopicConfig("t", 1, 1))
        leader = await asyncio.to_thread(group.controller_leader)
        for stranger in STRANGERS:
            async with Admin(group.namesrv_addr, credentials=stranger) as attacker:
                for address, command in (
                    *role_notices(group),
                    *raft_messages(group),
                    *registrations(group),
                ):
                    answer = await attacker.instance.call(address, command, 5_000)
                    assert answer.code == ResponseCode.NO_PERMISSION, (address, command)
        for number in (*range(1, 4), 77):
            port = int(master.config["haListenPort"])
            assert await asyncio.to_thread(claim_replica, port, number) == b""
        assert await admin.masters() == {group.broker_name: master.address}
    async with Producer(group.namesrv_addr, credentials=ADMIN) as producer:
        for _ in range(20):
            await producer.send(Message("t", b"x"))
    after_leader = await asyncio.to_thread(group.controller_leader)
    assert after_leader is leader
    assert await asyncio.to_thread(group.sync_state) == before
    for server in (*group.controllers, *group.brokers):
        server.process.stop()
        server.start()
    await asyncio.to_thread(group.wait_ready)
