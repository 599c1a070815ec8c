"""One tree of errors: our bug, the peer's fault and the environment kept apart.

Every message says what happened, why, and what to do next; the shells print it as it is, so no
traceback reaches a user.
"""


class EpochError(Exception):
    """Root of all errors that EpochMQ raises on purpose."""


class OurBug(EpochError):
    """An invariant of ours broke; the node stops rather than go on wrong."""


class PeerError(EpochError):
    """The other side sent what the protocol does not allow; cuts that connection, nothing else."""


class HeaderError(PeerError):
    """A well-framed request whose header fields are missing or unreadable; answered, not cut."""


class Refused(EpochError):
    """A request is refused: the response `code` and `remark` go back to the client."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark


class UsageError(EpochError):
    """The caller asked for something that makes no sense; exit code 2 in the CLI."""


class EnvironmentFault(EpochError):
    """Disk, port, network or configuration: the world is not as needed."""


class ConfigError(EnvironmentFault):
    """A configuration cannot be used; `problems` holds one clear line for each fault in it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class DiskFull(EnvironmentFault):
    """No space is left; writes are refused, reads go on, and it heals by itself."""


class OutOfResources(DiskFull):
    """No file descriptor or no memory is left: writes are refused as by a full disk, and it heals
    by itself."""


class DiskFailed(EnvironmentFault):
    """A write or a read failed for another reason than space."""


class SyncFailed(DiskFailed):
    """fsync failed: what it covered may be lost for good, so the store is fenced (fsyncgate)."""


class StoreInUse(EnvironmentFault):
    """Another process holds the store's lock file."""


class StoreDamaged(EnvironmentFault):
    """The files cannot be opened safely; the message names the file and what to do."""


class PortInUse(EnvironmentFault):
    """A listening port is taken."""


class NotReachable(EnvironmentFault):
    """A peer cannot be reached or did not answer in time; exit code 3 in the CLI."""


class NotFound(EpochError):
    """The named topic, group or message does not exist; exit code 5 in the CLI."""


# Check ---------------------------------------------------------------------------------------
# Checks that stay on in production; a breach is our bug and stops the node (INV-11 and others).


def check(condition: bool, rule: str) -> None:
    """Raise `OurBug` naming `rule` unless `condition` holds."""
    if not condition:
        raise OurBug(f"invariant broken: {rule}")
