"""Collects the progress (lag) and the members of consumer groups, for both command lines."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import UnsetType

from epochmq.base.errors import EpochError, NotFound
from epochmq.client.core.release_names import release_name
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import mq_map_decode

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.wire.bodies.group_bodies import ConsumerConnection, OffsetWrapper

PULL, PUSH = "PULL", "PUSH"
OFFLINE = "OFFLINE"


@dataclass(slots=True)
class Summary:
    """One group in one row; without members it has no version, kind or model."""

    group: str
    members: int = 0
    version: str = ""
    kind: str = ""
    model: str = ""
    tps: float = 0.0
    lag: int = 0
    oldest_wall_ms: int = 0
    """When the oldest message was stored that is not consumed (Unix ms); 0 if it is not known."""
    problem: str | None = None

    def row(self) -> dict[str, object]:
        return {
            "group": self.group,
            "members": self.members,
            "version": self.version or None,
            "type": self.kind or None,
            "model": self.model or None,
            "tps": round(self.tps, 2),
            "lag": self.lag,
            "oldest_ms": self.oldest_wall_ms or None,
            "problem": self.problem,
        }


@dataclass(slots=True)
class QueuePosition:
    """A group's position in one queue; `owner` is the client id of the queue's member."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    pull_offset: int
    last_wall_ms: int
    owner: str | None = None
    oldest_wall_ms: int = 0
    """When the first message behind the group was stored (Unix ms); 0 if it is not known."""

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset

    @property
    def in_flight(self) -> int:
        return self.pull_offset - self.consumer_offset

    def row(self) -> dict[str, object]:
        return {
            "topic": self.queue.topic,
            "broker": self.queue.broker_name,
            "queue": self.queue.queue_id,
            "broker_offset": self.broker_offset,
            "consumer_offset": self.consumer_offset,
            "lag": self.lag,
            "in_flight": self.in_flight,
            "last_ms": self.last_wall_ms or None,
            "member": self.owner,
        }


@dataclass(slots=True)
class GroupProgress:
    """A group's positions in all its queues."""

    positions: list[QueuePosition] = field(default_factory=list)
    tps: float = 0.0

    @property
    def lag(self) -> int:
        return sum(position.lag for position in self.positions)

    @property
    def oldest_wall_ms(self) -> int:
        """When the oldest message behind the group was stored (Unix ms); 0 if it is not known."""
        return min((p.oldest_wall_ms for p in self.positions if p.oldest_wall_ms), default=0)

    @property
    def in_flight(self) -> int:
        return sum(position.in_flight for position in self.positions)


async def progress(
    admin: "Admin", group: str, topic: str | None = None, *, owners: bool = False
) -> GroupProgress:
    """Return a group's progress; with `owners` every member is asked for its queues."""
    table, tps = await admin.progress(group, topic)
    found = await _owners(admin, group) if owners else {}
    return GroupProgress([_position(q, at, found.get(q)) for q, at in table.items()], tps)


def _position(queue: MessageQueue, at: "OffsetWrapper", owner: str | None) -> QueuePosition:
    # Brokers before 5.1 do not report pulled offsets: nothing counts as in flight.
    pulled = max(at.pull_offset, at.consumer_offset) if at.pull_offset == 0 else at.pull_offset
    oldest = 0 if isinstance(at.oldest_timestamp, UnsetType) else at.oldest_timestamp
    return QueuePosition(
        queue, at.broker_offset, at.consumer_offset, pulled, at.last_timestamp, owner, oldest
    )


async def _owners(admin: "Admin", group: str) -> dict[MessageQueue, str]:
    """Return the owners of queues; members that do not answer are left out."""
    owners: dict[MessageQueue, str] = {}
    try:
        for member in (await admin.consumers(group)).connection_set:
            info = await admin.running_info(group, member.client_id)
            for queue, _ in mq_map_decode(info.mq_table):
                owners[queue] = member.client_id
    except EpochError:
        pass
    return owners


async def summary(admin: "Admin", group: str) -> Summary:
    """Summarise one group; unknown values stay empty, and `problem` has the reason."""
    found = Summary(group)
    try:
        standing = await progress(admin, group)
        found.tps, found.lag = standing.tps, standing.lag
        found.oldest_wall_ms = standing.oldest_wall_ms
    except NotFound:
        pass  # it never consumed
    except EpochError as error:
        found.problem = str(error)
    try:
        _fill_members(found, await admin.consumers(group))
    except EpochError:
        pass  # nobody is there
    return found


def _fill_members(found: Summary, members: "ConsumerConnection") -> None:
    found.members = len(members.connection_set)
    if not found.members:
        return
    found.version = release_name(min(each.version for each in members.connection_set))
    found.kind = PULL if members.consume_type == "CONSUME_ACTIVELY" else PUSH
    if found.kind == PUSH:
        found.model = str(members.message_model or "")
