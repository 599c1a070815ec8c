"""What the membership core wants done; carried out in order, disk before network."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from epochmq.broker.membership.broker_identity import Known, Temp
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
