"""The web application over a real cluster, asked by HTTP without a socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.admin.world import World

from epochmq.admin.dashboard.actions import Actions
from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.dashboard_app import DashboardApp
from epochmq.admin.dashboard.sessions import SessionTable
from epochmq.admin.dashboard.watched_cluster import WatchedCluster
from epochmq.admin.dashboard.web_security import WebSecurity
from epochmq.auth.credentials import Credentials

NAME = "test"
BASE = f"/api/c/{NAME}"


@dataclass
class Browser:
    """A browser with its cookies, which repeats the token of its session."""

    http: httpx.AsyncClient
    csrf: str = ""

    async def open(self) -> dict[str, Any]:
        """Open the pages; returns the session."""
        found: dict[str, Any] = (await self.http.get("/api/session")).json()
        self.csrf = found["csrf"]
        return found

    async def get(self, name: str, status: int = 200, **parameters: object) -> Any:
        response = await self.http.get(f"{BASE}/{name}", params=parameters)
        assert response.status_code == status, response.text
        return response.json()

    async def post(self, path: str, body: object, status: int = 200, **headers: str) -> Any:
        response = await self.http.post(
            path if path.startswith("/") else f"{BASE}/{path}",
            json=body,
            headers={"x-csrf-token": self.csrf, **headers},
        )
        assert response.status_code == status, response.text
        found = response.json()
        self.csrf = found.get("csrf", self.csrf)
        return found

    async def login(self, user: Credentials, status: int = 200) -> Any:
        body = {"cluster": NAME, "user": user.access_key, "password": user.secret_key}
        return await self.post("/api/login", body, status)


@dataclass
class Pages:
    """The application."""

    app: WebSecurity
    watched: WatchedCluster
    sessions: SessionTable
    directory: Path

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[Browser]:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=30
        ) as http:
            browser = Browser(http)
            await browser.open()
            yield browser


@asynccontextmanager
async def pages_of(
    world: World,
    directory: Path,
    *,
    own: Credentials | None = None,
    read_only: bool = False,
    idle_ms: int = 60_000,
) -> AsyncIterator[Pages]:
    """Run the application on `world` until the end of the block."""
    namesrv = world.cluster.namesrv_addr
    watcher = ClusterClient(NAME, namesrv, own) if own is not None else None
    watched = WatchedCluster(ClusterClient(NAME, namesrv, None), watcher)
    numbers = iter(range(1_000_000))
    sessions = SessionTable(lambda: f"token-{next(numbers)}", idle_ms, 3_600_000)
    actions = Actions(directory, read_only=read_only)
    dashboard = DashboardApp({NAME: watched}, actions, sessions, secure_cookies=False)
    app = WebSecurity(dashboard.app, {"localhost"}, uses_tls=False)
    await watched.check_access()
    running = asyncio.create_task(dashboard.run())
    try:
        yield Pages(app, watched, sessions, directory)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await dashboard.stop()
        await watched.close()
