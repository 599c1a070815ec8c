"""Effects of the membership core: what it asks the service to do, in order, disk before network."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

from epochmq.broker.group.broker_identity import Known, Temp
from epochmq.wire.command import Command


class Question(Enum):
    """The kinds of requests to a controller."""

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
    """A repeated registration, with another minInSyncReplicas."""


@dataclass(frozen=True, slots=True)
class Tag:
    """Identifies one request; passed back with its answer or its failure."""

    kind: Question
    address: str
    number: int
    sent_at_ms: int
    epoch: int = 0
    """The master epoch under which the request was made."""


@dataclass(frozen=True, slots=True)
class SendCommand:
    """Send `command` to the controller at `address`; report `answered` or `failed` once."""

    address: str
    command: Command
    tag: Tag
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Tell:
    """Send `command` one-way to the controller at `address`."""

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
    """Become master of `epoch`; report `role_done` when it is done or has failed."""

    epoch: int
    members: frozenset[int]
    set_epoch: int


@dataclass(frozen=True, slots=True)
class BecomeFollower:
    """Follow the master; report `role_done`. `ha_address` is None while it is unknown."""

    epoch: int
    master_id: int
    master_address: str
    ha_address: str | None
    learner: bool
    unclean_epoch: int = 0
    """The last epoch that an unclean election began: messages that only this log has are given
    up."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Serve nothing until the next role is given."""

    reason: str


@dataclass(frozen=True, slots=True)
class SetCommitted:
    """The controllers' sync-state set under the current epoch."""

    members: frozenset[int]
    set_epoch: int


@dataclass(frozen=True, slots=True)
class FloorChanged:
    """The controllers recorded minInSyncReplicas: `floor` applies from now on."""

    floor: int


@dataclass(frozen=True, slots=True)
class ReplicasTold:
    """The broker ids that the controllers have registered in this group."""

    ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class UncleanRecorded:
    """The controllers know that this start may have lost messages; the next start need not report
    it."""


@dataclass(frozen=True, slots=True)
class ProposalFailed:
    """A proposal failed as far as is known; until a newer set comes it may still be carried out.

    `refused`: it is certain that the proposal will never be committed.
    """

    proposal: Any
    refused: bool = False


@dataclass(frozen=True, slots=True)
class MembershipReport:
    """One line for the log, emitted once when something changes."""

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
# Numbers requests, and suppresses repeated log lines.


class Asker:
    """Makes requests with numbers, so that late answers can be matched to them."""

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
    """Emits a log line only when it differs from the last one on its subject."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def say(self, about: str, text: str, *, problem: bool = True) -> list[Effect]:
        """Return the line as an effect, or nothing when it is a repeat; an empty text clears the
        subject."""
        if self._said.get(about, "") == text:
            return []
        self._said[about] = text
        return [MembershipReport(text, problem)] if text else []


# Proposals -----------------------------------------------------------------------------------
# Proposals of another sync-state set to the controller (KIP-497).
#
# One proposal is open at a time. It is sent again after a timeout, because a timeout decides
# nothing. An answer closes it, or a set that is at least as new as the one it would have made.


AGAIN_MS = 100


class Proposal(Protocol):
    """A proposed set; replication's `SetProposal` implements it."""

    @property
    def members(self) -> frozenset[int]: ...

    @property
    def epoch(self) -> int: ...

    @property
    def set_epoch(self) -> int: ...


class Proposals:
    """The open proposal, and the numbers of its requests."""

    def __init__(self) -> None:
        self.open: Proposal | None = None
        self.due_at_ms = 0
        self._attempts: set[int] = set()
        self._asking = False

    def open_proposal(self, proposal: Proposal) -> list[Proposal]:
        """Open `proposal`; return the one that it replaces, if any."""
        replaced = self.drop()
        self.open = proposal
        self.due_at_ms = 0
        return replaced

    @property
    def next_at_ms(self) -> int | None:
        """When to send the open proposal (ms); None while its answer is awaited, or when none is
        open."""
        return None if self.open is None or self._asking else self.due_at_ms

    def due(self, now: int) -> Proposal | None:
        """Return the proposal to send now, or None."""
        if self._asking or now < self.due_at_ms:
            return None
        return self.open

    def sent(self, number: int) -> None:
        self._attempts.add(number)
        self._asking = True

    def answered(self, number: int) -> Proposal | None:
        """Close the proposal by the answer to request `number`, and return it; None when the
        request belongs to a closed proposal."""
        if number not in self._attempts:
            return None
        proposal = self.open
        self.drop()
        return proposal

    @property
    def asked_once(self) -> bool:
        """Whether there was only one request, so that its refusal is final.

        With several requests an earlier one may still be on its way, and be carried out later.
        """
        return len(self._attempts) == 1

    def again(self, number: int, now: int) -> None:
        """Note that request `number` has no answer; a late answer still counts."""
        if number in self._attempts:
            self._asking = False
            self.due_at_ms = now + AGAIN_MS

    def set_committed(self, set_epoch: int) -> None:
        """Close the proposal when a set newer than its base was committed."""
        if self.open is not None and self.open.set_epoch < set_epoch:
            self.drop()

    def drop(self) -> list[Proposal]:
        """Close the open proposal without a decision; return it in a list."""
        dropped = [] if self.open is None else [self.open]
        self.open = None
        self._attempts.clear()
        self._asking = False
        return dropped


def failures(proposals: Iterable[Proposal]) -> list[Effect]:
    """Return a `ProposalFailed` for each of these proposals."""
    return [ProposalFailed(proposal) for proposal in proposals]
