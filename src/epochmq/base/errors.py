"""All errors of EpochMQ: faults of EpochMQ itself, of peers, of users, and of the environment.

Each error text says what happened, why, and what to do next. The services print it as it is, so
users see no traceback.
"""

from enum import Enum


class Outcome(Enum):
    """What is known about the request of a call that raised an error."""

    NOT_DONE = "not done"
    """The request had no effect."""
    UNKNOWN = "unknown"
    """The request may have had its effect, or may have it yet: its answer was lost."""


class EpochError(Exception):
    """Base class of all errors that EpochMQ raises on purpose.

    Attributes:
        retriable: whether the same call may succeed later, without a change of its arguments.
        outcome: whether the request had no effect, or may have had one.
    """

    retriable: bool = False
    outcome: Outcome = Outcome.NOT_DONE


class OurBug(EpochError):
    """An invariant of EpochMQ is broken; the node stops instead of continuing with wrong data."""


class PeerError(EpochError):
    """A peer sent what the protocol does not allow; its connection is closed."""


class HeaderError(PeerError):
    """A well-framed request with missing or unreadable header fields; it is answered
    with an error.
    """


SYSTEM_BUSY, SLAVE_NOT_AVAILABLE, SERVICE_NOT_AVAILABLE, GO_AWAY = 2, 11, 14, 1500
"""Response codes of servers that are busy, or not in charge now (wire/codes.py)."""
_RETRIABLE = frozenset({SYSTEM_BUSY, SLAVE_NOT_AVAILABLE, SERVICE_NOT_AVAILABLE, GO_AWAY})


class Refused(EpochError):
    """A request is refused; `code` and `remark` are those of the answer.

    `outcome` is UNKNOWN for a broker that lost its right to acknowledge what it had stored
    (SERVICE_NOT_AVAILABLE), unless the caller knows better.
    """

    def __init__(self, code: int, remark: str, outcome: Outcome | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.retriable: bool = code in _RETRIABLE
        if outcome is None and code == SERVICE_NOT_AVAILABLE:
            outcome = Outcome.UNKNOWN
        self.outcome: Outcome = outcome or Outcome.NOT_DONE


class UsageError(EpochError):
    """The caller passed an impossible argument or request; exit code 2 of the command line."""


class EnvironmentFault(EpochError):
    """A problem of disk, port, network or configuration."""


class ConfigError(EnvironmentFault):
    """A configuration cannot be used; `problems` has one line for each fault."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class DiskFull(EnvironmentFault):
    """No space is left. Writes are refused, reads go on, and writes go on when there is space."""


class OutOfResources(DiskFull):
    """No file descriptor or no memory is left. Writes are refused as with a full disk, and go on
    later.
    """


class DiskFailed(EnvironmentFault):
    """A write or a read failed for another reason than space."""


class OtherFileSystem(DiskFailed):
    """A rename would lead to another file system, which is not possible."""


class SyncFailed(DiskFailed):
    """fsync failed: the data may be lost, so the store is fenced (fsyncgate)."""


class StoreInUse(EnvironmentFault):
    """Another process holds the lock file of the store."""


class StoreDamaged(EnvironmentFault):
    """The files cannot be opened safely; the text names the file and what to do."""


class PortInUse(EnvironmentFault):
    """Another process listens on `port`; 0 means that the error is about several ports."""

    def __init__(self, text: str, port: int = 0) -> None:
        super().__init__(text)
        self.port = port


class NotReachable(EnvironmentFault):
    """A peer cannot be reached or did not answer in time; exit code 3 of the command line.

    `outcome` is UNKNOWN if a request was sent and its answer did not arrive.
    """

    retriable = True

    def __init__(self, text: str, outcome: Outcome = Outcome.NOT_DONE) -> None:
        super().__init__(text)
        self.outcome = outcome


class NotFound(EpochError):
    """A topic, group or message does not exist; exit code 5 of the command line."""


def copy_of(error: BaseException) -> BaseException:
    """Copy the error: one object raised to thousands would collect a traceback of each."""
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    copied.__cause__, copied.__suppress_context__ = error.__cause__, error.__suppress_context__
    return copied


# Check ---------------------------------------------------------------------------------------
# Checks of invariants that stay on in production (INV-11 and others); a failure stops the node.


def check(condition: bool, rule: str) -> None:
    """Raise `OurBug` that names `rule` unless `condition` is true."""
    if not condition:
        raise OurBug(f"invariant broken: {rule}")
