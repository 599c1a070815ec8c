"""What the core of an acting slave wants done."""

from dataclasses import dataclass

from epochmq.wire.command import Command


@dataclass(frozen=True, slots=True)
class Beat:
    """Tell the name server at `address` that we live.

    `asked`: it answers whether it knows what we registered; report that to `beaten`.
    """

    address: str
    command: Command
    asked: bool


@dataclass(frozen=True, slots=True)
class Poll:
    """Ask the name server at `address` for the group's members; report `polled` once."""

    address: str
    command: Command


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask the master itself; report `probed` once, with the same effect."""

    address: str
    command: Command
    sent_at_ms: int


@dataclass(frozen=True, slots=True)
class RegisterFully:
    """Register fully at this name server, now: it does not know us (H2)."""

    address: str


@dataclass(frozen=True, slots=True)
class Act:
    """Take the acting role."""

    why: str


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """Fetch the progress of those members that were acting master; report `took` once."""

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cease:
    """Be an ordinary slave again, at once."""

    why: str


@dataclass(frozen=True, slots=True)
class Return:
    """As a master: come back through the group, for somebody may have stood in meanwhile.

    `address`: of the member that says so, if one does.
    """

    why: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class ActingReport:
    """One line for the log, when something changed."""

    text: str


Effect = Beat | Poll | Probe | RegisterFully | Act | FetchProgress | Cease | Return | ActingReport
