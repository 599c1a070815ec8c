"""Effects of the controller core; the service and the simulator execute them."""

from dataclasses import dataclass

from epochmq.wire.command import Command, Reply


@dataclass(frozen=True, slots=True)
class SendReply:
    """Send `reply` to the sender of the request `token`."""

    token: int
    request: Command
    reply: Reply


@dataclass(frozen=True, slots=True)
class ProposeCommand:
    """Append `data` to the log; the result is reported with `ticket`."""

    ticket: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ReadBarrier:
    """Confirm that this controller still leads; the result is reported with `ticket`."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Notify:
    """Send `command` to the broker at `address`; if `acknowledged`, report
    `notified(ticket, ok)`.
    """

    ticket: int
    address: str
    command: Command
    acknowledged: bool


@dataclass(frozen=True, slots=True)
class Dial:
    """Try to connect to `address`, and report `dialed(ticket, refused)`."""

    ticket: int
    address: str


Effect = SendReply | ProposeCommand | ReadBarrier | Notify | Dial
