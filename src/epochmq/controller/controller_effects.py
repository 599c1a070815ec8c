"""What the core wants done; the service and the simulator carry it out."""

from dataclasses import dataclass

from epochmq.wire.command import Command, Reply


@dataclass(frozen=True, slots=True)
class SendReply:
    """Send `reply` to whoever made the request `token`."""

    token: int
    request: Command
    reply: Reply


@dataclass(frozen=True, slots=True)
class ProposeCommand:
    """Put `data` into the log; its fate comes back under `ticket`."""

    ticket: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ReadBarrier:
    """Make sure that we lead still; the result comes back under `ticket`."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell the broker at `address`; with `acknowledged` report `notified(ticket, ok)`."""

    ticket: int
    address: str
    command: Command
    acknowledged: bool


@dataclass(frozen=True, slots=True)
class Dial:
    """Try to connect to `address`; report `dialed(ticket, refused)`."""

    ticket: int
    address: str


Effect = SendReply | ProposeCommand | ReadBarrier | Notify | Dial
