"""The state of a cluster at one moment, and the changes between two states, as values."""

from collections import deque
from dataclasses import dataclass, field

EVENTS_MAX = 1_000
"""Events that a timeline keeps; the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One broker of a group."""

    address: str
    broker_id: int
    alive: bool
    in_sync: bool | None
    """Whether it is in the sync-state set; None in a group without controllers, which has no
    such set.
    """
    is_master: bool
    max_offset: int | None = None
    """The end of its log; None while it does not answer."""
    epoch: int | None = None
    """The last epoch of its log."""
    acting: bool = False
    """Whether it is the acting master of its group."""
    backlog: int | None = None
    """Messages that it has to move to masters of other groups; None when it does not report
    that.
    """
    in_rate: float | None = None
    """Messages stored per second, of the last 10 s; None while it does not answer."""
    out_rate: float | None = None
    """Messages sent to consumers per second, of the last 10 s."""
    has_confirmed: bool = False
    """Whether messages of its last epoch are acknowledged; False for RocketMQ's brokers, which do
    not report that.
    """


@dataclass(frozen=True, slots=True)
class BrokerGroupView:
    """One broker group; without controllers its epochs are 0."""

    name: str
    master: str | None
    master_epoch: int
    set_epoch: int
    replicas: tuple[ReplicaView, ...]

    @property
    def acting(self) -> ReplicaView | None:
        """The acting master, if any."""
        return next((replica for replica in self.replicas if replica.acting), None)

    def lag_bytes(self, replica: ReplicaView) -> int | None:
        """Return the bytes of the master's log that a replica lacks; None when one does not
        answer.
        """
        ends = {each.address: each.max_offset for each in self.replicas}
        end = ends.get(self.master or "")
        if end is None or replica.max_offset is None:
            return None
        return max(0, end - replica.max_offset)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All groups at one moment."""

    wall_ms: int
    controller_leader: str | None
    controllers: tuple[str, ...] = ()
    groups: tuple[BrokerGroupView, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One line of the timeline; `group` is empty when it is about the controllers."""

    wall_ms: int
    text: str
    group: str = ""

    def row(self) -> dict[str, object]:
        """Return the event for JSON."""
        return {"wall_ms": self.wall_ms, "group": self.group, "event": self.text}


@dataclass(slots=True)
class TopTimeline:
    """The changes since `top` started; those of one moment are in the order of the groups."""

    events: deque[TimelineEvent] = field(default_factory=lambda: deque(maxlen=EVENTS_MAX))
    count: int = 0
    """The number of all events, with those that were dropped."""
    _last: ClusterView | None = None

    def compare_view(self, view: ClusterView) -> None:
        """Compare a state with the one before and record the changes."""
        last, self._last = self._last, view
        if last is None:
            return
        found = []
        if view.controller_leader != last.controller_leader:
            found.append(("", f"controllers: leader {_arrow(last, view)}"))
        before = {group.name: group for group in last.groups}
        for group in view.groups:
            if group.name in before:
                found += [(group.name, text) for text in _changes(before[group.name], group)]
        self.events += [TimelineEvent(view.wall_ms, text, group) for group, text in found]
        self.count += len(found)


def _arrow(last: ClusterView, view: ClusterView) -> str:
    return f"{last.controller_leader or 'none'} -> {view.controller_leader or 'none'}"


def _changes(old: BrokerGroupView, new: BrokerGroupView) -> list[str]:
    texts = []
    if (old.master, old.master_epoch) != (new.master, new.master_epoch):
        masters = f"master {old.master or 'none'} -> {new.master or 'none'}"
        epochs = f", epoch {old.master_epoch} -> {new.master_epoch}"
        by_controllers = old.master_epoch or new.master_epoch
        texts.append(f"{new.name}: {masters}{epochs if by_controllers else ''}")
    texts += _acting_changes(old, new)
    known = {replica.address: replica for replica in old.replicas}
    for replica in new.replicas:
        was = known.get(replica.address)
        if was is None:
            texts.append(f"{new.name}: {replica.address} is new")
            continue
        if was.alive != replica.alive:
            texts.append(f"{new.name}: {replica.address} {'is back' if replica.alive else 'died'}")
        if None not in (was.in_sync, replica.in_sync) and was.in_sync != replica.in_sync:
            verb = "joined" if replica.in_sync else "left"
            texts.append(f"{new.name}: {replica.address} {verb} the sync-state set")
    return texts


def _acting_changes(old: BrokerGroupView, new: BrokerGroupView) -> list[str]:
    was, now = (group.acting.address if group.acting else None for group in (old, new))
    if was == now:
        return []
    ended = [f"{new.name}: {was} is not acting master any more"] if was else []
    return ended + ([f"{new.name}: {now} is acting master"] if now else [])
