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
from epochmq.wire.command import Command, request

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
