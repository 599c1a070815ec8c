"""What the membership core wants done; carried out in order, disk before network."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

from epochmq.broker.group.broker_identity import Known, Temp
from epochmq.wire.command import Command


class Question(Enum):
    """What was asked of a controller."""

    METADATA = auto()
    NEXT_ID = auto()
    APPLY_ID = auto()
    REGISTER = auto()
    ELECT = auto()
    REPLICA_INFO = auto()
    ALTER = auto()
    HEARTBEAT = auto()
    REPLICAS = auto()
    FLOOR = auto()
    """A registration again, with another minInSyncReplicas."""


@dataclass(frozen=True, slots=True)
class Tag:
    """Belongs to one request; comes back with its answer or its failure."""

    kind: Question
    address: str
    number: int
    sent_at_ms: int
    epoch: int = 0
    """The master epoch the request was made under."""


@dataclass(frozen=True, slots=True)
class SendCommand:
    """Send `command` to the controller at `address`; report `answered` or `failed` once."""

    address: str
    command: Command
    tag: Tag
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Tell:
    """Send one-way."""

    address: str
    command: Command


@dataclass(frozen=True, slots=True)
class SaveTemp:
    temp: Temp


@dataclass(frozen=True, slots=True)
class DropTemp:
    pass


@dataclass(frozen=True, slots=True)
class SaveIdentity:
    broker_id: int


@dataclass(frozen=True, slots=True)
class SaveKnown:
    known: Known


@dataclass(frozen=True, slots=True)
class BecomeMaster:
    """Report `role_done` when it is so, or cannot be."""

    epoch: int
    members: frozenset[int]
    set_epoch: int


@dataclass(frozen=True, slots=True)
class BecomeFollower:
    """Report `role_done`; `ha_address` is None while nobody has told it."""

    epoch: int
    master_id: int
    master_address: str
    ha_address: str | None
    learner: bool
    unclean_epoch: int = 0
    """The last epoch that an unclean election began: what this log holds more is given up."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Serve nothing until the next role."""

    reason: str


@dataclass(frozen=True, slots=True)
class SetCommitted:
    """The controller's sync-state set under the present epoch."""

    members: frozenset[int]
    set_epoch: int


@dataclass(frozen=True, slots=True)
class FloorChanged:
    """The controllers recorded minInSyncReplicas: this one holds from now on."""

    floor: int


@dataclass(frozen=True, slots=True)
class ReplicasTold:
    """The ids that the controllers have registered in this group."""

    ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class UncleanRecorded:
    """The controllers know that this start may have lost messages; the next one need not say it."""


@dataclass(frozen=True, slots=True)
class ProposalFailed:
    """A proposal came to nothing, as far as is known: its fate is open until a newer set is seen.

    `refused`: it is known that it will never be committed.
    """

    proposal: Any
    refused: bool = False


@dataclass(frozen=True, slots=True)
class MembershipReport:
    """One line for the log; said once, when something changes."""

    text: str
    problem: bool = False


Switch = BecomeMaster | BecomeFollower
Effect = (
    SendCommand
    | Tell
    | SaveTemp
    | DropTemp
    | SaveIdentity
    | SaveKnown
    | BecomeMaster
    | BecomeFollower
    | Fence
    | SetCommitted
    | FloorChanged
    | ReplicasTold
    | UncleanRecorded
    | ProposalFailed
    | MembershipReport
)


# Request numbers -----------------------------------------------------------------------------
# Numbers requests, and says things once.


class Asker:
    """Makes requests that can be told apart when their answers come, however late."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._count = 0

    @property
    def newest(self) -> int:
        """The number of the last request."""
        return self._count

    def tag(self, kind: Question, address: str, now: int, epoch: int) -> Tag:
        self._count += 1
        return Tag(kind, address, self._count, now, epoch)

    def ask(
        self, kind: Question, command: Command, address: str, now: int, epoch: int
    ) -> SendCommand:
        return SendCommand(address, command, self.tag(kind, address, now, epoch), self._timeout_ms)


class Voice:
    """Lines for the log, each only when it says something else than the last one on its matter."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def say(self, about: str, text: str, *, problem: bool = True) -> list[Effect]:
        """The line as an effect, or nothing; an empty text ends the matter."""
        if self._said.get(about, "") == text:
            return []
        self._said[about] = text
        return [MembershipReport(text, problem)] if text else []


# Proposals -----------------------------------------------------------------------------------
# Proposals of another sync-state set on their way to the controller (KIP-497).
#
# One is open at a time. It is asked again after a timeout, since a timeout decides nothing, and is
# closed by an answer or by a set at least as new as the one it would have made.


AGAIN_MS = 100


class Proposal(Protocol):
    """What is proposed; replication's `SetProposal` fits."""

    @property
    def members(self) -> frozenset[int]: ...

    @property
    def epoch(self) -> int: ...

    @property
    def set_epoch(self) -> int: ...


class Proposals:
    """The open proposal and the numbers of its attempts."""

    def __init__(self) -> None:
        self.open: Proposal | None = None
        self.due_at_ms = 0
        self._attempts: set[int] = set()
        self._asking = False

    def open_proposal(self, proposal: Proposal) -> list[Proposal]:
        """Open another one; the one it replaces."""
        replaced = self.drop()
        self.open = proposal
        self.due_at_ms = 0
        return replaced

    @property
    def next_at_ms(self) -> int | None:
        """When to ask for the open proposal; None while its answer is awaited, or for none."""
        return None if self.open is None or self._asking else self.due_at_ms

    def due(self, now: int) -> Proposal | None:
        """The proposal to ask for now."""
        if self._asking or now < self.due_at_ms:
            return None
        return self.open

    def sent(self, number: int) -> None:
        self._attempts.add(number)
        self._asking = True

    def answered(self, number: int) -> Proposal | None:
        """Close by the answer to attempt `number`; None when it belongs to a closed one."""
        if number not in self._attempts:
            return None
        proposal = self.open
        self.drop()
        return proposal

    @property
    def asked_once(self) -> bool:
        """Whether there was one attempt only, so that its refusal is the last word.

        With several an earlier one may still be on its way, and be carried out later.
        """
        return len(self._attempts) == 1

    def again(self, number: int, now: int) -> None:
        """Attempt `number` has no answer; its late answer would still count."""
        if number in self._attempts:
            self._asking = False
            self.due_at_ms = now + AGAIN_MS

    def set_committed(self, set_epoch: int) -> None:
        """A committed set is known: what would have come before it is history."""
        if self.open is not None and self.open.set_epoch < set_epoch:
            self.drop()

    def drop(self) -> list[Proposal]:
        """Close without a decision; what was open."""
        dropped = [] if self.open is None else [self.open]
        self.open = None
        self._attempts.clear()
        self._asking = False
        return dropped


def failures(proposals: Iterable[Proposal]) -> list[Effect]:
    """Each of these proposals has come to nothing."""
    return [ProposalFailed(proposal) for proposal in proposals]
