"""RocketMQ's Java clients with credentials, while the master is killed and users change.

Nothing acknowledged is lost, a user without permission never sends, and one with permission is
never refused.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.tiers import choose

from epochmq.auth.credentials import Credentials
from epochmq.client.aio import Admin
from epochmq.client.aio.admin_auth import policy_of
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.auth_bodies import UserInfo

from .clients import JAVA_4, JAVA_5
from .drivers.driver import Driver, Event
from .peers.group import Group
from .peers.process import is_listening, wait_until
from .peers.secure import ADMIN, SECURE, SERVER, stored_messages

KILLS = choose(2, 20)
SENDS = 20
"""Acknowledged sends of each client before a kill, and again after it."""
WITHIN_S = 60.0
CLIENTS = (JAVA_5, JAVA_4)
ALICE = Credentials("alice", "alice-secret-1")
MALLORY = Credentials("mallory", "mallory-secret-1")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    config = {**SECURE, "minInSyncReplicas": 2, "allAckInSyncStateSet": True}
    made = Group(root=tmp_path, broker_config=config, controller_config=SERVER)
    made.namesrv.config.update(SERVER)
    with made as running:
        yield running


def is_acknowledged(event: Event) -> bool:
    return event["event"] == "sent" and event["status"] == "SEND_OK"


class Senders:
    """The processes of the clients, which send until the file `stop` exists."""

    def __init__(self, group: Group, stop: Path, stack: ExitStack) -> None:
        self.allowed: list[Driver] = []
        self.refused: list[Driver] = []
        for client in CLIENTS:
            for user, drivers in ((ALICE, self.allowed), (MALLORY, self.refused)):
                driver = stack.enter_context(client.build())
                options = {
                    "prefix": f"{client.name}-{user.access_key}",
                    "user": user.access_key,
                    "secret": user.secret_key,
                    "pause_ms": 20,
                    "until": stop,
                }
                driver.start("send", group.namesrv_addr, "t", kind="sync", **options)
                drivers.append(driver)

    def wait(self) -> None:
        """Wait until each allowed client has sent some more."""
        deadline = time.monotonic() + WITHIN_S
        for driver in self.allowed:
            driver.skip()
            for _ in range(SENDS):
                driver.wait_event(is_acknowledged, deadline - time.monotonic())


async def stored(group: Group) -> set[str]:
    """Return the bodies of all messages."""
    return {bytes(message.body).decode() for message in await stored_messages(group, "t")}


async def test_java_clients_with_credentials_survive_kills(group: Group, tmp_path: Path) -> None:
    where, stop = group.namesrv_addr, tmp_path / "stop"
    async with Admin(where, credentials=ADMIN) as admin:

        async def master() -> str:
            return (await admin.masters())[group.broker_name]

        async def create(user: Credentials) -> None:
            info = UserInfo(username=user.access_key, password=user.secret_key)
            await admin.create_user(await master(), info)

        await admin.create_topic(TopicConfig("t", 1, 1))
        for user in (ALICE, MALLORY):
            await create(user)
        await admin.put_acl(await master(), policy_of("User:alice", ["Topic:t"], ["Pub"], "Allow"))
        await admin.put_acl(
            await master(), policy_of("User:mallory", ["Topic:u"], ["Pub"], "Allow")
        )
        with ExitStack() as stack:
            senders = await asyncio.to_thread(Senders, group, stop, stack)
            for number in range(KILLS):
                await asyncio.to_thread(senders.wait)
                await create(Credentials(f"user-{number}", "secret"))
                if number:
                    await admin.delete_user(await master(), f"user-{number - 1}")
                old = await asyncio.to_thread(group.master)
                assert old is not None
                old.process.kill9()
                await asyncio.to_thread(senders.wait)
                old.start()
                await asyncio.to_thread(restarted, group, old.port)
                names = {str(user.username) for user in await admin.users(await master())}
                assert names == {"admin", "alice", "mallory", f"user-{number}"}
            stop.touch()
            allowed = [driver.finish().events for driver in senders.allowed]
            refused = [driver.finish().events for driver in senders.refused]
    found = await stored(group)
    seen = [event for events in allowed for event in events]
    acknowledged = {event["body"] for event in seen if is_acknowledged(event)}
    assert not acknowledged - found, "lost"
    assert len(acknowledged) >= KILLS * 2 * SENDS * len(CLIENTS)
    assert not [event for events in refused for event in events if event["event"] == "sent"]
    assert not [body for body in found if "mallory" in body], "wrongly admitted"
    failures = [event for event in seen if not is_acknowledged(event)]
    reasons = ("permission", "signature", "CODE: 16")
    assert not [e for e in failures if any(text in str(e) for text in reasons)], "wrongly refused"
    print(f"{len(acknowledged)} acknowledged, {len(failures)} failed during elections")


def restarted(group: Group, port: int) -> None:
    """Wait until the killed broker is a member of the set again."""
    wait_until(lambda: is_listening(port), 30, "the restarted broker")
    group.wait_ready()
    wait_until(
        lambda: (state := group.sync_state()) is not None and len(state.in_sync) == 3,
        30,
        "all replicas in the sync-state set",
    )
