"""Effects of the replication cores; they are executed in order, disk before network."""

from dataclasses import dataclass

from epochmq.base.ports import Buffer

OWN_LINK = 0
"""The link of a copying broker to its master; the links of a master have numbers from 1 up."""


@dataclass(frozen=True, slots=True)
class SetProposal:
    """A change of the sync-state set, for the controller."""

    members: frozenset[int]
    epoch: int
    """The master's epoch."""
    set_epoch: int
    """The epoch of the set that it is based on."""
    number: int = 0
    """Counts the proposals of a master."""


@dataclass(frozen=True, slots=True)
class SendData:
    """Write `data` to a link."""

    link: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close a link."""

    link: int
    reason: str


@dataclass(frozen=True, slots=True)
class ProposeSyncStateSet:
    """Ask the controller for another set."""

    proposal: SetProposal


@dataclass(frozen=True, slots=True)
class AskReplicas:
    """Ask the controllers for the registered ids of this group, then call `replicas_told`."""


@dataclass(frozen=True, slots=True)
class AdvanceConfirmed:
    """Let readers see the log up to `offset`."""

    offset: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """Report a problem to an operator."""

    text: str


@dataclass(frozen=True, slots=True)
class AppendData:
    """Append these bytes to the log, whose end is at `offset`."""

    offset: int
    data: Buffer


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log at `offset` durably, then the epochs; then call `resumed`."""

    offset: int
    reason: str
    operator: bool = False
    """The cut may be below the confirmed offset."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Let the empty log begin at `offset`; then call `resumed`."""

    offset: int


@dataclass(frozen=True, slots=True)
class Persist:
    """Make the entries of these epochs durable; then call `resumed` (INV-14, rocketmq#9689)."""

    entries: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Call `acknowledge` when all effects before it are done."""


@dataclass(frozen=True, slots=True)
class AwaitSync:
    """Call `synced` when the log is on the device up to `offset`."""

    offset: int


Effect = (
    SendData
    | Close
    | ProposeSyncStateSet
    | AskReplicas
    | AdvanceConfirmed
    | Trouble
    | AppendData
    | Truncate
    | Reset
    | Persist
    | Acknowledge
    | AwaitSync
)
Effects = list[Effect]
