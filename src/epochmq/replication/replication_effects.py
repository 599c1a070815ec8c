"""What the cores of replication ask for; carried out in order, disk before network."""

from dataclasses import dataclass

from epochmq.base.ports import Buffer

OWN_LINK = 0
"""The link of a copying broker to its master; those of a master are numbered from 1."""


@dataclass(frozen=True, slots=True)
class SetProposal:
    """A change of the sync-state set that the controller is asked for."""

    members: frozenset[int]
    epoch: int
    """The master's."""
    set_epoch: int
    """Of the set that it is meant to follow."""
    number: int = 0
    """Counts a master's proposals."""


@dataclass(frozen=True, slots=True)
class SendData:
    """Write `data` to a link."""

    link: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Cut a link."""

    link: int
    reason: str


@dataclass(frozen=True, slots=True)
class ProposeSyncStateSet:
    """Ask the controller for another set."""

    proposal: SetProposal


@dataclass(frozen=True, slots=True)
class AskReplicas:
    """Ask the controllers whose ids are registered in this group; then `replicas_told`."""


@dataclass(frozen=True, slots=True)
class AdvanceConfirmed:
    """Readers may see the log up to `offset`."""

    offset: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something a person should know."""

    text: str


@dataclass(frozen=True, slots=True)
class AppendData:
    """Put these bytes at the end of the log, which is at `offset`."""

    offset: int
    data: Buffer


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log at `offset`, durably, then the epochs; then `resumed`."""

    offset: int
    reason: str
    operator: bool = False
    """Even below what was confirmed."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The log is empty: let it begin at `offset`; then `resumed`."""

    offset: int


@dataclass(frozen=True, slots=True)
class Persist:
    """Make the entries of these epochs durable; then `resumed` (INV-14, rocketmq#9689)."""

    entries: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Now that all before it is done, ask `acknowledge` what to tell the master."""


@dataclass(frozen=True, slots=True)
class AwaitSync:
    """Tell `synced` once the log is on the device up to `offset`."""

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
