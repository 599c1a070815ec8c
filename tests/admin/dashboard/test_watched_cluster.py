"""Watching a cluster: who may see it, with whose rights, when pages are told."""

import asyncio

import pytest
from tests.admin.world import World
from tests.compat.peers.secure import ADMIN

from epochmq.admin.dashboard import watched_cluster
from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.watched_cluster import WatchedCluster
from epochmq.admin.local.config_files import choose_anywhere
from epochmq.admin.top.cluster_view import ClusterView
from epochmq.admin.top.look import Looker
from epochmq.auth.credentials import Credentials


def watched(namesrv: str, own: Credentials | None = None) -> WatchedCluster:
    watcher = ClusterClient("test", namesrv, own) if own is not None else None
    return WatchedCluster(ClusterClient("test", namesrv, None), watcher)


async def test_whether_a_login_is_wanted(world: World, secure: World) -> None:
    for cluster, wanted in ((world, False), (secure, True)):
        found = watched(cluster.cluster.namesrv_addr)
        assert found.login_required is None
        await found.check_access()
        assert found.login_required is wanted
        await found.close()


async def test_a_cluster_that_is_down_is_not_open() -> None:
    found = watched(f"127.0.0.1:{choose_anywhere().namesrv}")
    await found.check_access()
    assert found.login_required is None
    assert "name server" in found.problem
    found.login_required = True
    await found.check_access()
    assert found.login_required is True  # what was known stays
    await found.close()


async def test_a_borrowed_login_is_given_back(secure: World) -> None:
    namesrv = secure.cluster.namesrv_addr
    found = watched(namesrv)
    running = asyncio.create_task(found.run())
    first, second = (ClusterClient("test", namesrv, ADMIN) for _ in range(2))
    try:
        assert await found.wait_for_change(0, 0.3) == 0  # nobody may look
        found.lend(first)
        version = await found.wait_for_change(0, 20)
        while not found.state()["groups"]:
            version = await found.wait_for_change(version, 20)
        found.lend(second)
        found.stop_using(first, [second])  # it is not the one in use
        version = await found.wait_for_change(version, 20)
        found.stop_using(second, [])
        await second.close()
        version = await found.wait_for_change(-1, 1)
        await asyncio.sleep(0.1)
        before = found.state()["wall_ms"]
        await asyncio.sleep(0.6)
        assert found.state()["wall_ms"] == before
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.gather(first.close(), second.close(), found.close())


async def test_a_bug_does_not_end_the_watch(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watched_cluster, "BUG_PAUSE_S", 0.01)
    good = Looker.look
    looks = 0

    async def look(self: Looker) -> ClusterView:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise KeyError("an answer that nobody thought of")
        return await good(self)

    monkeypatch.setattr(Looker, "look", look)
    found = watched(world.cluster.namesrv_addr)
    running = asyncio.create_task(found.run())
    try:
        version = 0
        while not found.state()["groups"]:
            version = await found.wait_for_change(version, 20)
            assert not running.done()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await found.close()
    assert "a bug in watching cluster test" in caplog.text


async def test_the_own_user_is_not_replaced_by_that_of_a_visitor(secure: World) -> None:
    namesrv = secure.cluster.namesrv_addr
    found = watched(namesrv, ADMIN)
    visitor = ClusterClient("test", namesrv, ADMIN)
    found.lend(visitor)
    found.stop_using(visitor, [])
    running = asyncio.create_task(found.run())
    try:
        version = 0
        while not found.state()["groups"]:
            version = await found.wait_for_change(version, 20)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.gather(visitor.close(), found.close())
