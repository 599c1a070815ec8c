"""Masters killed in the middle of the demo, the timeline of each failover, the replicas then."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from epochmq.admin.local.local_cluster import LocalCluster, LocalServer
from epochmq.admin.local.server_roles import find
from epochmq.base.errors import EnvironmentFault, EpochError
from epochmq.client.aio import Admin
from epochmq.wire.bodies.controller_bodies import FailoverData, ReplicasInfo

ELECTED_S = 30.0
WHOLE_S = 60.0
DOWN_S = 2.0
_LOOK_S = 0.02


@dataclass(slots=True)
class KillTimeline:
    """One kill; all times in ms since the kill, None for what was not seen."""

    master: str
    old_epoch: int
    killed_s: float
    """When, in monotonic seconds."""
    new_master: str = ""
    new_epoch: int = 0
    detected_ms: float | None = None
    elected_ms: float | None = None
    applied_ms: float | None = None
    first_ack_ms: float | None = None
    whole_ms: float | None = None


class Failovers:
    """Kills the master of the cluster's group and brings it back."""

    def __init__(self, cluster: LocalCluster, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._say = say
        self._watches: list[asyncio.Task[None]] = []
        self._unanswered: list[tuple[float, KillTimeline]] = []
        self.timelines: list[KillTimeline] = []

    @property
    def group_size(self) -> int:
        return len(self._cluster.brokers)

    def acknowledged(self, began_s: float) -> None:
        """A send that began then was acknowledged now (monotonic seconds).

        Only sends that began after a kill count: others may have been answered by the dead.
        """
        if self._unanswered and began_s > self._unanswered[0][0]:
            killed_s, timeline = self._unanswered.pop(0)
            timeline.first_ack_ms = (time.monotonic() - killed_s) * 1_000

    async def kill(self) -> None:
        """Kill the master with SIGKILL; what follows is watched beside."""
        await self.wait_in_sync()
        async with Admin(self._cluster.namesrv) as admin:
            (victim,) = await find(self._cluster, "master")
            state = await self._state(admin)
        assert victim.pid is not None
        killed_s = time.monotonic()
        timeline = KillTimeline(victim.name, state.master_epoch, killed_s)
        self.timelines.append(timeline)
        os.kill(victim.pid, signal.SIGKILL)
        self._unanswered.append((killed_s, timeline))
        self._say(f"{victim.name}, the master of epoch {timeline.old_epoch}, killed (SIGKILL)")
        self._watches.append(asyncio.create_task(self._watch(victim, timeline, killed_s)))

    async def wait_in_sync(self) -> None:
        """Wait until every killed master is back in the sync-state set."""
        watches, self._watches = self._watches, []
        for watch in watches:
            await watch

    async def _watch(self, victim: LocalServer, timeline: KillTimeline, killed_s: float) -> None:
        async with Admin(self._cluster.namesrv) as admin:
            found = await self._elected(admin, timeline, killed_s)
            self._place(found, timeline, killed_s)
            self._say(
                f"{timeline.new_master} is master of epoch {timeline.new_epoch},"
                f" {timeline.elected_ms or 0:.0f} ms after the kill"
            )
            await asyncio.sleep(DOWN_S)
            await asyncio.to_thread(self._cluster.start_one, victim.name)
            await self._whole(admin)
            timeline.whole_ms = (time.monotonic() - killed_s) * 1_000
            self._say(f"{victim.name} is back in the set, a follower now")
            later = await self._elected(admin, timeline, killed_s)
            self._place(later, timeline, killed_s)

    async def _elected(self, admin: Admin, timeline: KillTimeline, killed_s: float) -> FailoverData:
        """The election that followed, as the leading controller tells it."""
        deadline = time.monotonic() + ELECTED_S
        while time.monotonic() < deadline:
            for part in self._cluster.controllers:
                try:
                    told = await admin.timeline(part.address)
                except EpochError:
                    continue
                later = [one for one in told if one.epoch > timeline.old_epoch]
                if later:
                    return later[0]
            await asyncio.sleep(_LOOK_S)
        raise EnvironmentFault(f"no new master within {ELECTED_S:.0f} s after {timeline.master}")

    def _place(self, told: FailoverData, timeline: KillTimeline, killed_s: float) -> None:
        """Ages, as of now, become times since the kill."""
        since_ms = (time.monotonic() - killed_s) * 1_000

        def after(ago_ms: int) -> float | None:
            return None if ago_ms < 0 else max(0.0, since_ms - ago_ms)

        by_address = {part.address: part.name for part in self._cluster.brokers}
        timeline.new_master = by_address.get(told.master_address, told.master_address)
        timeline.new_epoch = told.epoch
        timeline.detected_ms = timeline.detected_ms or after(told.detected_ago_ms)
        timeline.elected_ms = timeline.elected_ms or after(told.elected_ago_ms)
        timeline.applied_ms = timeline.applied_ms or after(told.applied_ago_ms)

    async def _whole(self, admin: Admin) -> None:
        deadline = time.monotonic() + WHOLE_S
        while time.monotonic() < deadline:
            try:
                state = await self._state(admin)
                if len(state.in_sync_replicas) == self.group_size:
                    return
            except EpochError:
                pass
            await asyncio.sleep(_LOOK_S)
        raise EnvironmentFault(f"the sync-state set is not whole after {WHOLE_S:.0f} s")

    async def _state(self, admin: Admin) -> ReplicasInfo:
        error: EpochError = EnvironmentFault("no controller runs")
        for part in self._cluster.controllers:
            try:
                groups = await admin.broker_groups()
                (state,) = (await admin.sync_states(part.address, groups)).values()
            except EpochError as problem:
                error = problem
            except ValueError:
                error = EnvironmentFault("the controllers know nothing of the brokers")
            else:
                return state
        raise error


# Replicas -------------------------------------------------------------------------------------
# Whether all replicas hold the same bytes, looked at in their files.


_PIECE = 4 << 20


async def confirmed_end(cluster: LocalCluster) -> int:
    """How far every broker of the group has the log: the smallest of their ends."""
    ends = []
    async with Admin(cluster.namesrv) as admin:
        for part in cluster.brokers:
            ends.append((await admin.broker_epochs(part.address)).max_offset)
    return min(ends)


def compare(directory: Path, replicas: int, end: int) -> tuple[int, str | None]:
    """Bytes that all replicas hold alike below `end`, and what differs first, if anything."""
    logs = [directory / f"store-{number}" / "commitlog" for number in range(replicas)]
    compared = 0
    for file in sorted(path.name for path in logs[0].iterdir() if path.name.isdigit()):
        size = min((logs[0] / file).stat().st_size, end - int(file))
        for at in range(0, size, _PIECE):
            pieces = [_read(log / file, at, min(_PIECE, size - at)) for log in logs]
            if any(piece != pieces[0] for piece in pieces):
                return compared, f"the replicas' logs differ between {int(file) + at} and {end}"
            compared += len(pieces[0])
    return compared, None


def _read(file: Path, at: int, size: int) -> bytes:
    try:
        with file.open("rb") as opened:
            opened.seek(at)
            return opened.read(size)
    except OSError:
        return b""
