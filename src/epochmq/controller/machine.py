"""The replicated state machine: it applies committed commands; nothing else changes the state.

It has no clock, randomness or I/O: all controllers that apply the same log have the same state.
Liveness is not part of it. A command that does not fit the state any more is refused with a
`Refusal` and changes nothing.
"""

import hashlib
from dataclasses import dataclass
from enum import Enum

import msgspec

from epochmq.base import limits
from epochmq.base.errors import StoreDamaged, check
from epochmq.controller import commands
from epochmq.controller.controller_state import BrokerGroup, BrokerReplica, ControllerState, Key


class Refusal(Enum):
    """Why a command changed nothing."""

    UNKNOWN_GROUP = "the group is not known"
    UNKNOWN_REPLICA = "a replica is not known"
    SAME_SET = "the set is the same as before"
    NOT_MASTER = "the sender is not the master"
    OTHER_EPOCH = "the master epoch is another one"
    OTHER_SET_EPOCH = "the sync-state set's epoch is another one"
    LEARNER = "a learner takes no part"
    WITHOUT_MASTER = "the master is not in the set"
    NOT_A_CANDIDATE = "the replica is not in the sync-state set"
    ID_TAKEN = "the number belongs to another broker"
    OTHER_GENERATION = "brokers of RocketMQ 5.0 and of later releases do not mix in a group"
    EMPTY_SET = "no member of the sync-state set would be left"
    FULL = "there is no room for more"


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The result of a command; `broker_id` is set for commands that give or name an id."""

    refusal: Refusal | None = None
    broker_id: int = 0
    changed: bool = True

    @property
    def ok(self) -> bool:
        """Whether the command was not refused."""
        return self.refusal is None


DONE = CommandOutcome()
NO_CHANGE = CommandOutcome(changed=False)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ControllerState).decode


class Machine:
    """Broker groups by key and by name; `applied` is the index of the last command."""

    def __init__(self) -> None:
        self.groups: dict[Key, BrokerGroup] = {}
        self.by_name: dict[str, list[Key]] = {}
        self.settings: dict[str, str] = {}
        self.applied = 0
        self._replicas = 0
        """Number of replicas of all groups."""

    def apply(self, index: int, data: bytes) -> CommandOutcome:
        """Apply the committed command at `index`; an empty one (a leader's first) does nothing."""
        check(index > self.applied, "INV-05: applied commands only move forward")
        self.applied = index
        if not data:
            return NO_CHANGE
        event = commands.decode(data)
        match event:
            case commands.ApplyBrokerId():
                return self._apply_id(event)
            case commands.SetSetting():
                return self._set(event)
        group = self.groups.get(event.key)
        if group is None:
            return CommandOutcome(Refusal.UNKNOWN_GROUP)
        match event:
            case commands.UpdateBroker():
                return _update(group, event)
            case commands.AlterSyncStateSet():
                return _alter(group, event)
            case commands.ElectMaster():
                return _elect(group, event)
            case commands.CleanBrokerData():
                return self._clean(group, event)

    def snapshot(self) -> bytes:
        """Return the state in the same order on all controllers (msgspec orders text keys only)."""
        groups = [_ordered(self.groups[key]) for key in sorted(self.groups)]
        return _encode(ControllerState(groups=groups, settings=dict(sorted(self.settings.items()))))

    def restore(self, index: int, snapshot: bytes) -> None:
        """Replace the state by a snapshot. Raises `StoreDamaged` if it cannot be decoded."""
        try:
            state = _decode(snapshot)
        except msgspec.DecodeError as error:
            raise StoreDamaged(f"the controller's snapshot cannot be read: {error}") from None
        if state.version != 1:
            raise StoreDamaged(f"the controller's snapshot has version {state.version}, not 1")
        self.groups, self.by_name = {}, {}
        self._replicas = sum(len(group.replicas) for group in state.groups)
        for group in state.groups:
            self._add(group)
        self.settings = state.settings
        self.applied = index

    def state_hash(self) -> str:
        """Return a hash that is equal on all controllers that applied the same commands
        (INV-04).
        """
        return hashlib.sha256(self.snapshot()).hexdigest()

    # Commands about groups --------------------------------------------------------------------

    def _add(self, group: BrokerGroup) -> None:
        self.groups[group.key] = group
        self.by_name.setdefault(group.name, []).append(group.key)
        self.by_name[group.name].sort()

    def _remove(self, group: BrokerGroup) -> None:
        del self.groups[group.key]
        self.by_name[group.name].remove(group.key)
        if not self.by_name[group.name]:
            del self.by_name[group.name]

    def _apply_id(self, event: commands.ApplyBrokerId) -> CommandOutcome:
        group = self.groups.get(event.key)
        if group is None:
            group = BrokerGroup(*event.key, by_address=event.by_address, adopted=event.adopted)
            group.replicas = {}
        refusal = _id_refusal(group, event)
        if refusal is not None:
            return CommandOutcome(refusal)
        if event.broker_id in group.replicas:
            return CommandOutcome(broker_id=event.broker_id, changed=False)
        if self._replicas >= limits.REPLICAS_TOTAL_MAX:
            return CommandOutcome(Refusal.FULL)
        self._replicas += 1
        group.replicas[event.broker_id] = BrokerReplica(
            event.broker_id,
            event.address,
            check_code=event.check_code,
            incarnation=event.incarnation,
            learner=event.learner,
        )
        group.next_id = max(group.next_id, event.broker_id + 1)
        if event.key not in self.groups:
            self._add(group)
        return CommandOutcome(broker_id=event.broker_id)

    def _clean(self, group: BrokerGroup, event: commands.CleanBrokerData) -> CommandOutcome:
        if not event.ids or set(group.replicas) <= set(event.ids):
            self._replicas -= len(group.replicas)
            self._remove(group)
            return DONE
        members = [number for number in group.members if number not in event.ids]
        if group.members and not members:
            return CommandOutcome(Refusal.EMPTY_SET)
        for number in event.ids:
            if group.replicas.pop(number, None) is not None:
                self._replicas -= 1
        group.candidates = [number for number in group.candidates if number not in event.ids]
        if members != group.members:
            group.members = members
            group.set_epoch += 1
        if group.master in event.ids:
            group.master = None
        return DONE

    def _set(self, event: commands.SetSetting) -> CommandOutcome:
        if self.settings.get(event.name) == event.value:
            return NO_CHANGE
        self.settings[event.name] = event.value
        return DONE


def _ordered(group: BrokerGroup) -> BrokerGroup:
    return msgspec.structs.replace(group, replicas=dict(sorted(group.replicas.items())))


def _id_refusal(group: BrokerGroup, event: commands.ApplyBrokerId) -> Refusal | None:
    if group.by_address != event.by_address:
        return Refusal.OTHER_GENERATION
    held = group.replicas.get(event.broker_id)
    if held is not None:
        same = event.adopted or (held.check_code == event.check_code and event.check_code != "")
        return None if same and _same_incarnation(held, event.incarnation) else Refusal.ID_TAKEN
    if len(group.replicas) >= limits.REPLICAS_MAX:
        return Refusal.FULL
    if event.adopted:
        return None
    # An id is given once (INV-09), in order; a late broker gets the next id (RIP-44).
    return None if event.broker_id == group.next_id else Refusal.ID_TAKEN


def _same_incarnation(held: BrokerReplica, incarnation: str) -> bool:
    return not held.incarnation or not incarnation or held.incarnation == incarnation


def _update(group: BrokerGroup, event: commands.UpdateBroker) -> CommandOutcome:
    replica = group.replicas.get(event.broker_id)
    if replica is None:
        return CommandOutcome(Refusal.UNKNOWN_REPLICA)
    before = msgspec.structs.astuple(replica)
    fresh = event.session != replica.session
    replica.address = event.address
    replica.ha_address = event.ha_address or replica.ha_address
    replica.incarnation = event.incarnation or replica.incarnation
    replica.session = event.session
    replica.learner = event.learner
    replica.floor = event.floor
    if group.master == replica.id and len(group.members) >= replica.floor:
        group.candidates = []  # the master may acknowledge without them from now on
    if event.ended and group.master == replica.id:
        group.master = None
    elif event.ended is False and msgspec.structs.astuple(replica) == before:
        return NO_CHANGE
    if fresh and event.lost_tail and group.elected:
        _mark_unclean(group, replica)
    if replica.learner and replica.id in group.members and group.members != [replica.id]:
        _leave(group, replica.id)
    return DONE


def _mark_unclean(group: BrokerGroup, replica: BrokerReplica) -> None:
    """Mark a replica as unclean and raise the epoch of the set.

    The epoch always rises, because what the master proposes now was seen before the restart.
    """
    replica.unclean = True
    group.candidates = [number for number in group.candidates if number != replica.id]
    if replica.id in group.members and len(group.members) > 1:
        _leave(group, replica.id)
    else:
        group.set_epoch += 1


def _leave(group: BrokerGroup, broker_id: int) -> None:
    group.members = [number for number in group.members if number != broker_id]
    group.set_epoch += 1
    if group.master == broker_id:
        group.master = None


def alter_refusal(group: BrokerGroup, event: commands.AlterSyncStateSet) -> Refusal | None:
    """Return why the state machine refuses a new set, in the order of RocketMQ's checks.

    The leader checks the liveness of members, after the unknown members and before the last check.
    """
    if sorted(set(event.members)) == group.members and not event.settle:
        return Refusal.SAME_SET
    if group.master is None or event.master != group.master:
        return Refusal.NOT_MASTER
    if event.epoch != group.epoch:
        return Refusal.OTHER_EPOCH
    if event.set_epoch != group.set_epoch:
        return Refusal.OTHER_SET_EPOCH
    for number in event.members:
        replica = group.replicas.get(number)
        if replica is None:
            return Refusal.UNKNOWN_REPLICA
        if replica.learner:
            return Refusal.LEARNER
    return None if group.master in event.members else Refusal.WITHOUT_MASTER


def _alter(group: BrokerGroup, event: commands.AlterSyncStateSet) -> CommandOutcome:
    refusal = alter_refusal(group, event)
    if refusal is not None:
        return CommandOutcome(refusal)
    old = group.members
    group.members = sorted(set(event.members))
    group.set_epoch += 1
    for number in group.members:
        if number not in old:
            group.replicas[number].unclean = False
    _keep_candidates(group, old)
    return DONE


def _elect(group: BrokerGroup, event: commands.ElectMaster) -> CommandOutcome:
    refusal = _elect_refusal(group, event)
    if refusal is not None:
        return CommandOutcome(refusal)
    old = group.members
    group.master = event.master
    group.epoch = event.new_epoch
    if event.unclean:
        group.unclean_epoch = event.new_epoch
    group.members = sorted({event.master, *event.members})
    group.set_epoch += 1
    group.adopted = False
    group.replicas[event.master].unclean = False
    _keep_candidates(group, old)
    return CommandOutcome(broker_id=event.master)


def _elect_refusal(group: BrokerGroup, event: commands.ElectMaster) -> Refusal | None:
    if event.epoch != group.epoch or event.new_epoch <= group.epoch:
        return Refusal.OTHER_EPOCH
    if event.set_epoch != group.set_epoch:
        return Refusal.OTHER_SET_EPOCH
    replica = group.replicas.get(event.master)
    if replica is None:
        return Refusal.UNKNOWN_REPLICA
    if replica.learner:
        return Refusal.LEARNER
    known = set(group.members) | set(group.candidates)
    if not event.unclean and group.elected and event.master not in known:
        return Refusal.NOT_A_CANDIDATE
    stay = set(event.members) - {event.master}
    return None if stay <= set(group.members) else Refusal.NOT_A_CANDIDATE


def _keep_candidates(group: BrokerGroup, old: list[int]) -> None:
    """Keep as candidates those that left a set which cannot acknowledge: they still hold everything
    (KIP-966).
    """
    assert group.master is not None
    floor = group.replicas[group.master].floor
    if len(group.members) >= floor:
        group.candidates = []
        return
    left = {*old, *group.candidates} - set(group.members)
    group.candidates = sorted(
        number
        for number in left & set(group.replicas)
        if not group.replicas[number].unclean and not group.replicas[number].learner
    )
