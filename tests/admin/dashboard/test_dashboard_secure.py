"""A cluster with users: logins, rights, the end of sessions."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.admin.dashboard.app_world import BASE, Pages, pages_of
from tests.admin.world import World
from tests.client.aio.eventually import eventually
from tests.compat.peers.secure import ADMIN

from epochmq.admin.dashboard.dashboard_app import FREE_FAILURES
from epochmq.auth.credentials import Credentials
from epochmq.client.aio import Admin
from epochmq.client.aio.admin_auth import policy_of
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.auth_bodies import UserInfo

READER = Credentials("reader", "reader-secret-1")
"""May look at everything and change nothing."""
STRANGER = Credentials("stranger", "stranger-secret-1")
"""A user without any policy."""


@pytest.fixture(scope="module")
def filled(secure: World) -> World:
    async def fill() -> None:
        async with Admin(secure.cluster.namesrv_addr, credentials=ADMIN) as admin:
            for user in (READER, STRANGER):
                info = UserInfo(username=user.access_key, password=user.secret_key)
                await admin.create_user(secure.broker, info)
            for resource in ("Cluster:*", "Topic:*", "Group:*"):
                policy = policy_of("User:reader", [resource], ["Get", "List"], "Allow")
                await admin.put_acl(secure.broker, policy)
            await admin.create_topic(TopicConfig("orders", 1, 1))
            await admin.put_group(secure.broker, SubscriptionGroupConfig("billing"))

    asyncio.run(fill())
    return secure


@pytest.fixture
async def pages(filled: World, tmp_path: Path) -> AsyncIterator[Pages]:
    async with pages_of(filled, tmp_path) as running:
        yield running


async def test_nothing_is_shown_without_a_login(pages: Pages) -> None:
    async with pages.browser() as browser:
        (cluster,) = (await browser.open())["clusters"]
        assert cluster["login_required"] is True
        for name in ("topics", "groups", "messages", "waiting", "actions", "events", "tail"):
            assert "login" in (await browser.get(name, 401))["error"]
        body = {"group": "billing", "topic": "orders", "to": "first"}
        await browser.post("reset", body, 401)
        await browser.post("resend", {"group": "billing", "place": "x", "to": "retry"}, 401)


async def test_the_dashboards_own_user_is_not_that_of_visitors(
    filled: World, tmp_path: Path
) -> None:
    async with pages_of(filled, tmp_path, own=ADMIN) as pages, pages.browser() as browser:

        async def groups() -> object:
            return pages.watched.state()["groups"]

        assert await eventually(groups, bool)  # it watches the cluster with its user
        await browser.get("topics", 401)
        await browser.get("events", 401)


async def test_a_user_logs_in_and_out(pages: Pages) -> None:
    async with pages.browser() as browser:
        before = browser.http.cookies["epochmq_session"]
        assert "wrong" in (await browser.login(Credentials("admin", "guess"), 403))["error"]
        session = await browser.login(ADMIN)
        assert session["clusters"][0]["user"] == "admin"
        assert browser.http.cookies["epochmq_session"] != before
        rows = (await browser.get("topics"))["rows"]
        assert "orders" in [row["topic"] for row in rows]
        await browser.post("/api/logout", {})
        await browser.get("topics", 401)


async def test_the_identity_before_a_login_is_worth_nothing_after_it(pages: Pages) -> None:
    async with pages.browser() as browser:
        before = browser.http.cookies["epochmq_session"]
        await browser.login(ADMIN)
        response = await browser.http.get(
            f"{BASE}/topics", headers={"cookie": f"epochmq_session={before}"}
        )
        assert response.status_code == 401


async def test_a_user_without_rights_does_not_get_in(pages: Pages) -> None:
    async with pages.browser() as browser:
        await browser.login(STRANGER, 403)
        await browser.get("topics", 401)


async def test_a_user_may_do_what_the_brokers_allow(pages: Pages) -> None:
    async with pages.browser() as browser:
        await browser.login(READER)
        assert (await browser.get("groups"))["total"] >= 1
        body = {"group": "billing", "topic": "orders", "to": "first"}
        assert "refused" in (await browser.post("reset", body, 403))["error"]
        first, second = await browser.get("actions")
        assert (first["user"], second["result"]) == ("reader", "begun")
        assert first["result"].startswith("failed: refused")


async def test_logins_are_slowed_down(pages: Pages) -> None:
    guess = Credentials("admin", "guess")
    async with pages.browser() as browser:
        for _ in range(FREE_FAILURES):
            await browser.login(guess, 403)
        await browser.login(guess, 429)
        await browser.login(READER)  # others are not concerned
        await pages.watched.check_access()
    async with pages.browser() as other:
        await other.login(guess, 429)  # the same address
    assert pages.watched.login_required


async def test_a_session_ends_and_its_connections_too(filled: World, tmp_path: Path) -> None:
    async with pages_of(filled, tmp_path, idle_ms=300) as pages, pages.browser() as browser:
        await browser.login(ADMIN)
        (client,) = pages.sessions.clients_of("test")
        await asyncio.sleep(0.4)
        await browser.get("topics", 401)
        assert pages.sessions.end_expired(1 << 60) == [client]
        await client.close()


async def test_changes_at_brokers_with_their_users(pages: Pages) -> None:
    async with pages.browser() as browser:
        await browser.login(READER)
        body = {"group": "billing", "topic": "orders", "to": "first"}
        await browser.post("reset", body, 403)
        rows = await browser.get("changes")
    made = [row for row in rows if row["action"].startswith("AUTH_CREATE_USER")]
    assert {(row["user"], row["result"]) for row in made} == {("admin", "accepted")}
    denied = next(row for row in rows if row["user"] == "reader")
    assert denied["result"].startswith("denied: ")
    assert "secret" not in str(rows)
