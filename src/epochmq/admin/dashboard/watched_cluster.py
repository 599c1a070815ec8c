"""Watches one cluster: its state, its changes, its failovers and the rates of its brokers."""

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator

from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.failover_steps import FailoverStories
from epochmq.admin.shared.broker_figures import BrokerFigures, brokers
from epochmq.admin.top.cluster_view import ClusterView, TopTimeline
from epochmq.admin.top.look import Looker
from epochmq.base.errors import EpochError, Refused
from epochmq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

LOOK_S = 0.25
IDLE_LOOK_S = 1.0
"""Time between two looks while no page shows the cluster."""
FIGURES_S = 2.0
SAMPLES_MAX = 450
"""Samples of the rates: 15 minutes."""
ACCESS_S = 10.0
"""Time after which it is checked again whether the cluster wants a login."""
BUG_PAUSE_S = 5.0

Row = dict[str, object]


class WatchedCluster:
    """One cluster of the dashboard. `run` works until it is cancelled.

    Args:
        anonymous: connections without a user.
        watcher: connections with the dashboard's own user, with which the cluster is watched; None
            means those of a user who is logged in.
    """

    def __init__(self, anonymous: ClusterClient, watcher: ClusterClient | None) -> None:
        self.name = anonymous.name
        self.anonymous = anonymous
        self.login_required: bool | None = None
        """Whether the cluster refuses unsigned requests; None while it has not answered."""
        self.problem = "it was not asked yet"
        """Why `login_required` is not known."""
        self.samples: deque[Row] = deque(maxlen=SAMPLES_MAX)
        self.failovers = FailoverStories()
        self._watcher = watcher
        self._is_borrowed = watcher is None
        self._looker: Looker | None = None
        self._timeline = TopTimeline()
        self._view: ClusterView | None = None
        self._figures: list[BrokerFigures] = []
        self._version = 0
        self._changed = asyncio.Condition()
        self._readers = 0

    # Watching --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Watch until cancelled.

        A bug is logged, and the work goes on: it may be about one answer of one cluster, and must
        not end the pages of the others.
        """
        async with asyncio.TaskGroup() as tasks:
            for work in (self._check_access_again, self._look_again, self._measure_again):
                tasks.create_task(self._go_on(work))

    async def _go_on(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except Exception:
                log.exception(
                    "a bug in watching cluster %(cluster)s; it goes on", {"cluster": self.name}
                )
            await asyncio.sleep(BUG_PAUSE_S)

    async def close(self) -> None:
        """Close the dashboard's own connections."""
        await self.anonymous.close()
        if self._watcher is not None and not self._is_borrowed:
            await self._watcher.close()

    def lend(self, client: ClusterClient | None) -> None:
        """Watch with the connections of a user; None means that no user is logged in any more.

        This does nothing if the dashboard has its own user.
        """
        if self._is_borrowed and client is not self._watcher:
            self._watcher, self._looker = client, None

    def stop_using(self, client: ClusterClient, others: list[ClusterClient]) -> None:
        """Watch with the connections of another user, because `client` is closed now."""
        if client is self._watcher:
            self.lend(others[-1] if others else None)

    async def check_access(self) -> None:
        """Find out whether the cluster wants a login, by a question without a signature."""
        admin = self.anonymous.admin
        try:
            masters = await admin.masters()
            for address in list(masters.values())[:1]:
                await admin.runtime_info(address)
            self.login_required, self.problem = False, ""
        except Refused as error:
            if error.code == ResponseCode.NO_PERMISSION:
                self.login_required, self.problem = True, ""
            else:
                self.problem = str(error)
        except EpochError as error:
            # What was known stays: a cluster that wants a login wants it after an outage too.
            self.problem = str(error)

    async def _check_access_again(self) -> None:
        while True:
            await self.check_access()
            known = self.login_required is not None
            await asyncio.sleep(ACCESS_S if known else IDLE_LOOK_S)

    def _client(self) -> ClusterClient | None:
        """Return the connections for watching; None while nobody may see the cluster."""
        if self._watcher is not None:
            return self._watcher
        return self.anonymous if self.login_required is False else None

    async def _look_again(self) -> None:
        while True:
            began = time.monotonic()
            client = self._client()
            if client is not None:
                try:
                    await self._look(client)
                except EpochError as error:
                    log.info(
                        "cannot look at cluster %(cluster)s: %(error)s",
                        {"cluster": self.name, "error": error},
                    )
                    await self._announce()
            pause = LOOK_S if self._readers else IDLE_LOOK_S
            await asyncio.sleep(max(0.05, pause - (time.monotonic() - began)))

    async def _look(self, client: ClusterClient) -> None:
        looker = self._looker
        if looker is None:
            looker = self._looker = Looker(client.admin)
        view = await looker.look()
        before = self._timeline.count
        self._timeline.compare_view(view)
        is_new = self._timeline.count > before
        if view.controller_leader:
            with contextlib.suppress(EpochError):  # RocketMQ's controllers report no failovers
                reports = await client.admin.timeline(view.controller_leader)
                is_new |= self.failovers.add_reports(reports, time.time_ns() // 1_000_000)
        is_new |= self.failovers.add_view(view)
        same = (
            self._view is not None and dataclasses.replace(self._view, wall_ms=view.wall_ms) == view
        )
        self._view = view
        if is_new or not same:
            await self._announce()

    async def _measure_again(self) -> None:
        while True:
            client = self._client()
            if client is not None:
                try:
                    await self._measure(client)
                except EpochError:
                    self._figures = []  # the look says what is wrong
            await asyncio.sleep(FIGURES_S)

    async def _measure(self, client: ClusterClient) -> None:
        self._figures = await brokers(client.admin)
        wall_ms = time.time_ns() // 1_000_000
        self.samples.append(
            {
                "wall_ms": wall_ms,
                "in_tps": round(sum(each.number("putTps") for each in self._figures), 1),
                "out_tps": round(
                    sum(each.number("getTransferredTps") for each in self._figures), 1
                ),
            }
        )
        await self._announce()

    # Reading ---------------------------------------------------------------------------------

    async def _announce(self) -> None:
        async with self._changed:
            self._version += 1
            self._changed.notify_all()

    def state(self, *, with_samples: bool = True) -> Row:
        """Return the state for the cluster page, with all samples or with the last only."""
        view = self._view
        wall_ms = time.time_ns() // 1_000_000
        figures = {each.address: each for each in self._figures}
        return {
            "name": self.name,
            "wall_ms": view.wall_ms if view is not None else wall_ms,
            "problem": view.problem if view is not None else self.problem or None,
            "controller_leader": view.controller_leader if view is not None else None,
            "controllers": list(view.controllers) if view is not None else [],
            "groups": [] if view is None else _groups(view, figures),
            "events": [event.row() for event in self._timeline.events],
            "failovers": self.failovers.rows(),
            "samples": list(self.samples)[0 if with_samples else -1 :],
            "brokers": [each.row(wall_ms) for each in self._figures],
        }

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Look at the cluster more often while a page shows it."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    async def wait_for_change(self, seen: int, timeout_s: float) -> int:
        """Wait until the version is not `seen`, at most `timeout_s`; return the version."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self._version != seen)
        return self._version


def _groups(view: ClusterView, figures: dict[str, BrokerFigures]) -> list[Row]:
    from epochmq.admin.top.screen import role

    return [
        {
            "name": group.name,
            "master": group.master,
            "master_epoch": group.master_epoch,
            "set_epoch": group.set_epoch,
            "acting": group.acting.address if group.acting else None,
            "replicas": [
                {
                    **dataclasses.asdict(replica),
                    "role": role(replica),
                    "lag_bytes": group.lag_bytes(replica),
                    "trouble": figures[replica.address].trouble
                    if replica.address in figures
                    else None,
                }
                for replica in group.replicas
            ],
        }
        for group in view.groups
    ]
