"""INV-31: whatever the network, crashes and clocks do, no two clients hold a queue at one time.

Members are the real votes and ballots; the network between them delivers late, in any order, twice
or never; a crash forgets what was not saved. Every clock runs at a rate of its own. What a client
believes is counted on its clock, at the longest: 60 s from an answer that took a second.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.tiers import examples

from epochmq.broker.consume.queue_locks import VOTE_LIFE_MS, Attempt, QueueLocks
from epochmq.broker.group.lock_ballot import LockBallot, LockRequest, quorum_of
from epochmq.model.topic import MessageQueue

QUEUES = tuple(MessageQueue("T", "b", number) for number in range(2))
CLIENTS = ("one", "two", "three")
RATES = (0.97, 1.0, 1.03)
ANSWER_MS, BELIEF_MS = 1_000, 60_000


@dataclass
class Member:
    """One broker: its votes, what its disk has, and the ballots it leads."""

    rate: float
    locks: QueueLocks
    disk: bytes = b'{"locks": []}'
    asked: dict[tuple[MessageQueue, str], int | None] = field(default_factory=dict)
    """By which question each asker got what is on the disk, which does not say so."""
    ballots: dict[int, "Led"] = field(default_factory=dict)
    number: int = 0


@dataclass
class Led:
    """One client's request at the member that counts."""

    client: str
    asked_ms: float
    asking: LockRequest
    attempt: Attempt
    serial: int

    @property
    def ballot(self) -> LockBallot:
        return self.asking.ballot


class Strict(RuleBasedStateMachine):
    """Subclasses break one safeguard each."""

    replicas = 3
    life_ms = VOTE_LIFE_MS
    saves = True
    ordered_unlocks = True
    restores = True
    forgets_attempts = True

    @initialize(rates=st.lists(st.sampled_from(RATES), min_size=6, max_size=6))
    def begin(self, rates: list[float]) -> None:
        self.now = 0.0
        self.members = [
            Member(rates[number], QueueLocks(life_ms=self.life_ms))
            for number in range(self.replicas)
        ]
        self.client_rates = dict(zip(CLIENTS, rates[3:], strict=True))
        self.until: dict[tuple[str, MessageQueue], float] = {}
        self.network: list[Callable[[], object]] = []
        self.serial = 0
        self.given_back: dict[tuple[str, MessageQueue], int] = {}
        """An answer to what a client asked for before it gave the queue back is not looked at."""

    def _clock(self, member: Member) -> int:
        return int(self.now * member.rate)

    def _vote(
        self, member: Member, queues: list[MessageQueue], client: str, attempt: Attempt
    ) -> list[MessageQueue]:
        granted = member.locks.lock("g", queues, client, self._clock(member), attempt)
        self._save(member)
        return granted

    def _save(self, member: Member) -> None:
        if self.saves and member.locks.dirty:
            member.disk = member.locks.encode()
            member.asked = {
                (queue, asker): lease.number
                for queue, lock in member.locks._groups["g"].items()
                for asker, lease in lock.leases.items()
            }
            member.locks.dirty = False

    # What clients do -------------------------------------------------------------------------

    @rule(
        client=st.sampled_from(CLIENTS),
        at=st.integers(0, 2),
        queues=st.lists(st.sampled_from(QUEUES), min_size=1, unique=True),
    )
    def lock(self, client: str, at: int, queues: list[MessageQueue]) -> None:
        member = self.members[at % self.replicas]
        number = self._next(member)
        attempt = Attempt(str(at % self.replicas), number)
        now = self._clock(member)
        others = [n for n in range(self.replicas) if self.members[n] is not member]
        quorum = quorum_of(self.replicas)
        asking = LockRequest(member.locks, "g", client, queues, quorum, now)
        own = asking.begin(others, attempt, now)
        self._save(member)
        self.serial += 1
        led = Led(client, self.now, asking, attempt, self.serial)
        member.ballots[number] = led
        for other in others:
            self.network.append(self._question(member, number, other, own, led))
        self._decide(member, number, expired=False)

    def _next(self, member: Member) -> int:
        member.number += 1
        return member.number

    def _question(
        self, asker: Member, number: int, other: int, queues: list[MessageQueue], led: Led
    ) -> Callable[[], None]:
        def arrive() -> None:
            voted = self._vote(self.members[other], queues, led.client, led.attempt)
            self.network.append(lambda: self._answer(asker, number, other, voted))

        return arrive

    def _answer(self, asker: Member, number: int, other: int, voted: list[MessageQueue]) -> None:
        led = asker.ballots.get(number)
        if led is not None:
            led.ballot.voted(other, voted, exact=True)
            self._decide(asker, number, expired=False)

    def _decide(self, member: Member, number: int, *, expired: bool) -> None:
        led = member.ballots[number]
        ballot = led.ballot
        if not ballot.decided and not expired:
            return
        del member.ballots[number]
        undone = led.asking.end(self._clock(member))
        self._save(member)
        for other, queues in undone.items():
            self.network.append(self._undo(other, queues, led))
        waited = (self.now - led.asked_ms) * self.client_rates[led.client]
        if waited <= ANSWER_MS:
            believes = self.now + BELIEF_MS / self.client_rates[led.client]
            for queue in ballot.granted:
                if led.serial > self.given_back.get((led.client, queue), 0):
                    self.until[led.client, queue] = believes

    def _undo(self, other: int, queues: list[MessageQueue], led: Led) -> Callable[[], None]:
        def arrive() -> None:
            locks = self.members[other].locks
            if self.restores:
                locks.undo_locks("g", queues, led.client, led.attempt)
            else:
                locks.unlock("g", queues, led.client)

        return arrive

    @rule(client=st.sampled_from(CLIENTS), at=st.integers(0, 2), queue=st.sampled_from(QUEUES))
    def unlock(self, client: str, at: int, queue: MessageQueue) -> None:
        """The client stops before it says so."""
        self.until.pop((client, queue), None)
        self.given_back[client, queue] = self.serial
        member = self.members[at % self.replicas]
        attempt = Attempt(str(at % self.replicas), self._next(member))
        told = attempt if self.ordered_unlocks else None
        member.locks.unlock("g", [queue], client, told)
        for other in self.members:
            if other is not member:
                self.network.append(partial(self._free, other, queue, client, told))

    @staticmethod
    def _free(member: Member, queue: MessageQueue, client: str, told: Attempt | None) -> None:
        member.locks.unlock("g", [queue], client, told)

    # What happens to them --------------------------------------------------------------------

    @rule(data=st.data(), twice=st.booleans())
    def deliver(self, data: st.DataObject, twice: bool) -> None:
        if self.network:
            index = data.draw(st.integers(0, len(self.network) - 1))
            message = self.network[index] if twice else self.network.pop(index)
            message()

    @rule()
    def deliver_all(self) -> None:
        for _ in range(100):
            if self.network:
                self.network.pop(0)()

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        if self.network:
            self.network.pop(data.draw(st.integers(0, len(self.network) - 1)))

    @rule(at=st.integers(0, 2))
    def crash(self, at: int) -> None:
        member = self.members[at % self.replicas]
        member.ballots.clear()
        member.locks = QueueLocks(life_ms=self.life_ms, start_ms=self._clock(member))
        member.locks.load(msgspec.json.decode(member.disk))
        if not self.forgets_attempts:
            for queue, lock in member.locks._groups.get("g", {}).items():
                for asker, lease in lock.leases.items():
                    lease.number = member.asked[queue, asker]

    @rule(step=st.sampled_from([100, 900, 1_100, 20_000, 58_000, 61_500, 66_000]))
    def wait(self, step: int) -> None:
        self.now += step
        for member in self.members:
            member.locks.expire(self._clock(member))
            for number, led in list(member.ballots.items()):
                if self.now - led.asked_ms > ANSWER_MS:
                    self._decide(member, number, expired=True)

    @invariant()
    def one_holder(self) -> None:
        if not hasattr(self, "until"):
            return
        for queue in QUEUES:
            holders = [c for c in CLIENTS if self.until.get((c, queue), -1.0) >= self.now]
            assert len(holders) <= 1, (queue, holders, self.now)


class Two(Strict):
    """Both have to live."""

    replicas = 2


class Forgetful(Strict):
    """A vote lives in memory only."""

    saves = False


class Short(Strict):
    """A client's 60 s and no more: its answer took a second, and clocks differ."""

    life_ms = 60_000


class Unordered(Strict):
    """An unlock frees whatever it finds."""

    ordered_unlocks = False


class Careless(Strict):
    """Undoing frees the lock, also one that was held before."""

    restores = False


class Remembering(Strict):
    """Who asked for a vote is saved with it; renewals are not saved."""

    forgets_attempts = False


def test_never_two_holders() -> None:
    for machine in (Strict, Two):
        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            machine,
            settings=settings(
                max_examples=examples(150),
                stateful_step_count=40,
                suppress_health_check=list(HealthCheck),
            ),
        )


A = QUEUES[:1]


def crash_of_all(world: Strict) -> None:
    world.lock(client="one", at=0, queues=[*A])
    world.deliver_all()
    for number in range(3):
        world.crash(at=number)
    world.lock(client="two", at=0, queues=[*A])
    world.deliver_all()


def slow_answer(world: Strict) -> None:
    world.lock(client="one", at=0, queues=[*A])
    world.network.pop(0)()  # the vote of 1, at once
    world.wait(step=900)
    world.network.pop(1)()  # which is told late
    for step in (58_000, 1_100, 100):
        world.wait(step=step)
    world.network.clear()
    world.lock(client="two", at=0, queues=[*A])
    world.deliver_all()


def late_unlock(world: Strict) -> None:
    world.lock(client="one", at=0, queues=[*A])
    world.deliver_all()
    world.unlock(client="one", at=0, queue=A[0])
    world.lock(client="one", at=0, queues=[*A])
    unlock_1, unlock_2, vote_1, _lost = world.network
    world.network.clear()
    vote_1()
    world.deliver_all()
    unlock_1()
    unlock_2()
    world.lock(client="two", at=1, queues=[*A])
    world.deliver_all()


def failed_renewal(world: Strict) -> None:
    """Through another broker, as after a change of master; its members' answers are lost."""
    world.lock(client="one", at=0, queues=[*A])
    world.network.pop(0)()
    del world.network[0]
    world.deliver_all()
    world.lock(client="one", at=2, queues=[*A])
    for vote in (world.network.pop(0), world.network.pop(0)):
        vote()
    world.network.clear()
    world.wait(step=1_100)
    world.deliver_all()
    world.lock(client="two", at=0, queues=[*A])
    world.deliver_all()


def undo_after_a_crash(world: Strict) -> None:
    """A try failed; the next one, which needed no saving, worked; then the member died."""
    world.lock(client="one", at=0, queues=[*A])
    world.network.pop(0)()  # the vote of 1; its answer is lost
    world.network.clear()
    world.wait(step=1_100)
    undo = world.network.pop(0)
    world.network.clear()
    world.lock(client="one", at=0, queues=[*A])
    world.network.pop(0)()
    world.network.pop(1)()
    world.network.clear()
    world.crash(at=1)
    undo()
    world.lock(client="two", at=2, queues=[*A])
    world.deliver_all()


def unlock_after_a_crash(world: Strict) -> None:
    world.lock(client="one", at=0, queues=[*A])
    world.deliver_all()
    world.unlock(client="one", at=0, queue=A[0])
    world.lock(client="one", at=0, queues=[*A])
    unlock_1, unlock_2, vote_1, _lost = world.network
    world.network.clear()
    vote_1()
    world.deliver_all()
    world.crash(at=1)
    unlock_1()
    unlock_2()
    world.lock(client="two", at=2, queues=[*A])
    world.deliver_all()


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        (crash_of_all, Forgetful),
        (slow_answer, Short),
        (late_unlock, Unordered),
        (failed_renewal, Careless),
        (undo_after_a_crash, Remembering),
        (unlock_after_a_crash, Remembering),
    ],
)
def test_without_one_safeguard_there_are_two(
    story: Callable[[Strict], None], broken: type[Strict]
) -> None:
    for machine in (Strict, broken):
        world = machine()
        world.begin(rates=[1.0] * 6)
        story(world)
        holders = [c for c in CLIENTS if world.until.get((c, A[0]), -1.0) >= world.now]
        assert holders == (["one"] if machine is Strict else ["one", "two"])
