"""What a broker runs, lets read and lets write in each role: one value, one row, no flags.

A broker has exactly one role at a time (design.md section 4). Whoever wants to know whether
something is allowed asks the row; a change of role is one swap of the row (design.md, walk 4).
Only MASTER is reached today; the other rows hold what acting-master and controller mode need.
"""

from dataclasses import dataclass
from enum import Enum, auto


class Role(Enum):
    """The one role of a broker."""

    MASTER = auto()
    SLAVE = auto()
    ACTING_MASTER = auto()
    PRE_ONLINE = auto()
    FENCED = auto()
    LEARNER = auto()


@dataclass(frozen=True, slots=True)
class RoleRow:
    """The rights of one role."""

    writable: bool
    """Clients may send, commit through send-back and change metadata here."""

    readable: bool
    """Clients may pull here at all."""

    read_needs_slave_read: bool
    """Reading is allowed only with the option `slaveReadEnable`."""

    secondary: bool
    """Delayed, transactional and POP messages are moved on here (through the outlet only)."""

    registers: bool
    """Name servers are told about this broker."""


ROLES: dict[Role, RoleRow] = {
    Role.MASTER: RoleRow(True, True, False, True, True),
    Role.SLAVE: RoleRow(False, True, True, False, True),
    Role.ACTING_MASTER: RoleRow(False, True, True, True, True),
    Role.PRE_ONLINE: RoleRow(False, False, False, False, False),
    Role.FENCED: RoleRow(False, False, False, False, False),
    Role.LEARNER: RoleRow(False, False, False, False, True),
}
