"""The state machine against a model written without it, under commands in any order.

The model keeps the history of a group as plain facts and answers from the rules of RIP-44 and
docs/INVARIANTS.md; besides, INV-07, INV-08 and INV-09 are looked at after every step.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.tiers import examples

from epochmq.controller.commands import (
    AlterSyncStateSet,
    AnyEvent,
    ApplyBrokerId,
    CleanBrokerData,
    ElectMaster,
    UpdateBroker,
    encode,
)
from epochmq.controller.machine import Machine

KEY = ("c", "b")
ids = st.integers(1, 4)
sets = st.frozensets(ids, max_size=4)
owners = st.sampled_from("wxyz")


@dataclass
class Model:
    """What must hold of one group."""

    owner: dict[int, str] = field(default_factory=dict)
    learners: set[int] = field(default_factory=set)
    sessions: dict[int, int] = field(default_factory=dict)
    dirty: set[int] = field(default_factory=set)
    issued: int = 0
    master: int | None = None
    epochs: list[int] = field(default_factory=lambda: [0])
    sets: list[frozenset[int]] = field(default_factory=lambda: [frozenset()])

    @property
    def epoch(self) -> int:
        return self.epochs[-1]

    @property
    def members(self) -> frozenset[int]:
        return self.sets[-1]

    @property
    def set_epoch(self) -> int:
        return len(self.sets) - 1

    def shrink(self, number: int) -> None:
        self.sets.append(self.members - {number})
        if self.master == number:
            self.master = None


class MachineAgainstModel(RuleBasedStateMachine):
    """Epochs and set epochs that commands carry are right, or off by a little."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.native = Machine()
        self.model: Model | None = None
        self.index = 0
        self.before = (0, 0)
        self.clock = 0

    def run(self, event: AnyEvent) -> bool:
        self.index += 1
        data = encode(event)
        ok = self.machine.apply(self.index, data).ok
        self.native.apply(self.index, data)
        return ok

    @rule(number=ids, owner=owners, learner=st.booleans())
    def apply_id(self, number: int, owner: str, learner: bool) -> None:
        model = self.model or Model()
        held = model.owner.get(number)
        expected = held == owner if held else number == model.issued + 1
        event = ApplyBrokerId(
            *KEY, broker_id=number, address=f"{owner}:1", check_code=owner, learner=learner
        )
        assert self.run(event) == expected
        if expected and not held:
            self.model = model
            model.owner[number] = owner
            model.issued = number
            if learner:
                model.learners.add(number)

    @rule(number=ids, members=sets, off=st.sampled_from([0, 0, 0, 1, -1]), jump=st.integers(1, 3))
    def elect(self, number: int, members: frozenset[int], off: int, jump: int) -> None:
        model = self.model
        epoch, set_epoch = (model.epoch, model.set_epoch) if model else (0, 0)
        expected = (
            model is not None
            and off == 0
            and number in model.owner
            and number not in model.learners
            and (model.epoch == 0 or number in model.members)
            and members - {number} <= model.members
        )
        event = ElectMaster(
            *KEY,
            epoch=epoch,
            set_epoch=set_epoch + off,
            master=number,
            new_epoch=epoch + jump,
            members=tuple(members),
        )
        assert self.run(event) == expected
        if expected and model is not None:
            model.master = number
            model.epochs.append(epoch + jump)
            model.sets.append(members | {number})
            model.dirty.discard(number)

    @rule(sender=ids, members=sets, off=st.sampled_from([0, 0, 0, 1, -1]))
    def alter(self, sender: int, members: frozenset[int], off: int) -> None:
        model = self.model
        epoch, set_epoch = (model.epoch, model.set_epoch) if model else (0, 0)
        expected = (
            model is not None
            and off == 0
            and sender == model.master
            and members != model.members
            and members <= set(model.owner)
            and not members & model.learners
            and sender in members
        )
        event = AlterSyncStateSet(
            *KEY, master=sender, epoch=epoch, set_epoch=set_epoch + off, members=tuple(members)
        )
        assert self.run(event) == expected
        if expected and model is not None:
            model.dirty -= members - model.members
            model.sets.append(members)

    @rule(number=ids, clean=st.booleans())
    def restart(self, number: int, clean: bool) -> None:
        """A new process of a replica comes online."""
        model = self.model
        self.clock += 1
        known = model is not None and number in model.owner
        event = UpdateBroker(
            *KEY,
            broker_id=number,
            address="moved:1",
            session=str(self.clock),
            learner=known and model is not None and number in model.learners,
            lost_tail=not clean,
            ended=known and model is not None and model.master == number,
        )
        assert self.run(event) == known
        if not known or model is None:
            return
        if model.master == number:
            model.master = None
        if not clean and model.epoch:
            model.dirty.add(number)
            if number in model.members and len(model.members) > 1:
                model.shrink(number)
            else:
                model.sets.append(model.members)

    @rule(gone=sets)
    def clean(self, gone: frozenset[int]) -> None:
        model = self.model
        whole = model is not None and (not gone or set(model.owner) <= gone)
        left = frozenset() if model is None else model.members - gone
        expected = model is not None and (whole or not model.members or bool(left))
        assert self.run(CleanBrokerData(*KEY, ids=tuple(gone))) == expected
        if not expected or model is None:
            return
        if whole:
            self.model, self.before = None, (0, 0)
            return
        for number in gone:
            model.owner.pop(number, None)
            model.learners.discard(number)
            model.dirty.discard(number)
        if left != model.members:
            model.sets.append(left)
        if model.master in gone:
            model.master = None

    @rule()
    def snapshot(self) -> None:
        """A controller that starts from a snapshot goes on like the others."""
        fresh = Machine()
        fresh.restore(self.index, self.machine.snapshot())
        self.native = fresh

    @invariant()
    def they_agree(self) -> None:
        assert self.machine.state_hash() == self.native.state_hash()
        group = self.machine.groups.get(KEY)
        assert (group is None) == (self.model is None)
        if group is None or self.model is None:
            return
        model = self.model
        assert group.epoch == model.epoch
        assert group.set_epoch == model.set_epoch
        assert frozenset(group.members) == model.members
        assert group.master == model.master
        assert {n: r.check_code for n, r in group.replicas.items()} == model.owner
        assert {n for n, r in group.replicas.items() if r.unclean} == model.dirty
        assert group.next_id == model.issued + 1

    @invariant()
    def the_rules_hold(self) -> None:
        group = self.machine.groups.get(KEY)
        if group is None:
            return
        assert (group.epoch, group.set_epoch) >= self.before
        assert group.epoch >= self.before[0], "INV-07"
        assert group.set_epoch >= self.before[1], "INV-07"
        self.before = (group.epoch, group.set_epoch)
        assert group.master is None or group.master in group.members, "INV-08"
        assert not group.elected or group.members, "INV-08"
        assert group.members == sorted(set(group.members))
        assert set(group.members) <= set(group.replicas)
        assert not any(group.replicas[number].learner for number in group.members)


TestMachineAgainstModel = MachineAgainstModel.TestCase
TestMachineAgainstModel.settings = settings(max_examples=examples(80), stateful_step_count=40)
