"""A replicated group whose every server checks signatures: failover, replicas, and strangers."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.aio.eventually import eventually
from tests.tiers import choose

from epochmq.auth.credentials import Credentials, outgoing_credentials
from epochmq.base.errors import EpochError, NotReachable, Refused
from epochmq.client.aio import Admin, Producer
from epochmq.client.aio.admin_auth import policy_of
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from epochmq.spark.connection_options import ConnectionOptions
from epochmq.spark.log_export import LogExport
from epochmq.spark.log_learner import find_home
from epochmq.wire.bodies.auth_bodies import UserInfo
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request as command_of

from .peers.cluster import Config
from .peers.group import Group, Server
from .peers.secure import ADMIN, INNER, SECURE, SERVER, stored_messages

ALICE = Credentials("alice", "alice-secret")
KILLS = choose(3, 20)
SENDS_BETWEEN_KILLS = 200


@pytest.fixture
def group(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Group]:
    more: Config = getattr(request, "param", {})
    made = Group(
        root=tmp_path, broker_config={**SECURE, **more}, controller_config={**SERVER, **more}
    )
    made.namesrv.config.update({**SERVER, **more})
    with made as running:
        yield running


async def send_until_killed(group: Group, producer: Producer) -> list[str]:
    """Send while the master is killed and replaced; return the ids that were acknowledged."""
    acknowledged: list[str] = []

    async def send() -> None:
        result = await producer.send(Message("t", b"x"))
        acknowledged.append(result.msg_id)

    for _ in range(SENDS_BETWEEN_KILLS):
        await send()
    master = group.master()
    assert master is not None
    master.process.kill9()
    for _ in range(SENDS_BETWEEN_KILLS):
        await send()
    master.start()
    await asyncio.to_thread(group.wait_ready)
    return acknowledged


async def stored(group: Group) -> set[str]:
    """Return the ids of all messages of topic `t`."""
    return {message.msg_id for message in await stored_messages(group, "t")}


@pytest.mark.parametrize(
    "group", [{}, {"connectionSignaturesOnly": True}], ids=["each", "own"], indirect=True
)
async def test_users_survive_failovers_and_nothing_is_lost(group: Group) -> None:
    """A user that was created is known to the next master, and a deleted one is not."""
    where = group.namesrv_addr
    async with (
        Admin(where, credentials=ADMIN) as admin,
        Producer(where, credentials=ALICE, timeout_ms=20_000) as producer,
    ):

        async def master() -> str:
            return (await admin.masters())[group.broker_name]

        await admin.create_topic(TopicConfig("t", 1, 1))
        user = UserInfo(username="alice", password=ALICE.secret_key)
        await admin.create_user(await master(), user)
        await admin.put_acl(await master(), policy_of("User:alice", ["Topic:t"], ["Pub"], "Allow"))
        acknowledged: list[str] = []
        for number in range(KILLS):
            acknowledged += await send_until_killed(group, producer)
            names = {str(user.username) for user in await admin.users(await master())}
            assert names == {"admin", "alice", *([f"user-{number - 1}"] if number else [])}
            if number:
                await admin.delete_user(await master(), f"user-{number - 1}")
            new = UserInfo(username=f"user-{number}", password="x")
            await admin.create_user(await master(), new)
        await admin.update_user(await master(), UserInfo(username="alice", user_status="disable"))
        before = await master()
        found = group.master()
        assert found is not None
        found.process.kill9()

        async def another() -> bool:
            try:
                return await master() != before
            except (EpochError, KeyError):
                return False

        await eventually(another, bool)
        with pytest.raises(Refused, match="the user or the signature is wrong"):
            await producer.send(Message("t", b"x"))
    assert set(acknowledged) <= await stored(group)
    assert len(acknowledged) == KILLS * 2 * SENDS_BETWEEN_KILLS


async def test_strangers_get_nothing_anywhere(group: Group) -> None:
    """On every port: brokers, replication, name server, controllers."""
    master = group.master()
    assert master is not None
    wrong = (None, Credentials("admin", "wrong"), Credentials("inner", "wrong"))
    asked = {
        master.address: (RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.LOG_READ),
        group.namesrv_addr: (RequestCode.REGISTER_BROKER, RequestCode.UPDATE_NAMESRV_CONFIG),
        group.controllers[0].address: (
            RequestCode.CONTROLLER_ELECT_MASTER,
            RequestCode.CONTROLLER_REGISTER_BROKER,
            RequestCode.RAFT_MESSAGE,
            RequestCode.GET_CONTROLLER_CONFIG,
        ),
    }
    for credentials in wrong:
        async with Admin(group.namesrv_addr, credentials=credentials) as stranger:
            for address, codes in asked.items():
                for code in codes:
                    answer = await stranger.instance.call(address, command_of(code, {}), 3_000)
                    assert answer.code == 16, (address, code)
    port = int(master.config["haListenPort"])
    for first in (struct.pack(">ihhq", 1, 0, 1, 2**31 + 5), struct.pack(">iq", 2, 0), b"GET / "):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
            link.sendall(first)
            assert link.recv(1) == b""
    assert group.is_ready()


def test_a_reader_of_the_log_needs_the_credentials_of_the_servers(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(user: Credentials | None, tls: ConnectionOptions | None = None) -> int:
        before = outgoing_credentials.set(user)
        try:
            export = LogExport(lambda: find_home(group.namesrv_addr, group.broker_name, tls))
            return sum(len(each.data) for each in export.ranges())
        finally:
            outgoing_credentials.reset(before)

    async def fill() -> None:
        async with Admin(group.namesrv_addr, credentials=ADMIN) as admin:
            await admin.create_topic(TopicConfig("t", 1, 1))
        async with Producer(group.namesrv_addr, credentials=ADMIN) as producer:
            await producer.send(Message("t", b"x"))

    asyncio.run(fill())
    monkeypatch.setattr("epochmq.spark.log_export.FIRST_CONTACT_S", 0.5)
    assert read(INNER) > 0
    file = tmp_path / "inner.credentials"
    file.write_text(f"accessKey={INNER.access_key}\nsecretKey={INNER.secret_key}\n")
    file.chmod(0o600)
    assert read(None, ConnectionOptions(credentials_path=str(file))) > 0
    with pytest.raises(NotReachable, match="not those of the brokers"):
        read(ADMIN)
    with pytest.raises(EpochError, match="not signed"):
        read(None)


async def test_an_open_group_becomes_a_secured_one_without_an_outage(tmp_path: Path) -> None:
    """The steps of docs/OPERATING.md, one server after the other, under load."""
    inner = "innerClientAuthenticationCredentials"
    checks = {key: SERVER[key] for key in ("authenticationEnabled", "initAuthenticationUser")}
    group = Group(root=tmp_path)
    second = group.add_name_server()
    with group:
        where = f"{group.namesrv_addr};{second.address}"

        def restart(server: Server) -> None:
            server.process.stop()
            server.start()
            group.wait_ready()

        async def restart_all(changes: Config, *, brokers_only: bool = False) -> None:
            others = [] if brokers_only else [group.namesrv, second, *group.controllers]
            for server in [*others, *group.brokers]:
                server.config.update(changes)
                await asyncio.to_thread(restart, server)

        async with Admin(where) as admin:
            await admin.create_topic(TopicConfig("t", 1, 1))
        async with Producer(where, credentials=ALICE, timeout_ms=20_000) as producer:
            acknowledged: list[str] = []
            done = asyncio.Event()

            async def send() -> None:
                while not done.is_set():
                    acknowledged.append((await producer.send(Message("t", b"x"))).msg_id)

            sending = asyncio.create_task(send())
            await restart_all({inner: SERVER[inner]})
            async with Admin(where) as admin:
                master = (await admin.masters())[group.broker_name]
                for user, kind in ((ADMIN, "Super"), (ALICE, "Normal")):
                    info = UserInfo(
                        username=user.access_key, password=user.secret_key, user_type=kind
                    )
                    await admin.create_user(master, info)
                acl = policy_of("User:alice", ["Topic:t"], ["Pub"], "Allow")
                await admin.put_acl(master, acl)
            await restart_all(checks)
            await restart_all({"authorizationEnabled": True}, brokers_only=True)
            done.set()
            await sending
            async with Admin(where) as stranger:
                master = (await stranger.masters())[group.broker_name]
                with pytest.raises(EpochError, match="not signed"):
                    await stranger.users(master)
        assert set(acknowledged) <= await stored(group)
        assert len(acknowledged) > SENDS_BETWEEN_KILLS
