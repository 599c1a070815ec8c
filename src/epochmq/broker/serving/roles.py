"""What a broker runs, lets read and lets write in each role: one value, one row, no flags.

A broker has exactly one role at a time. Whoever wants to know whether
something is allowed asks the row; a change of role is one swap of the row.
An ACTING_MASTER stands in for a master that is gone: it reads as one, writes as a slave (RIP-32).
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

    __hash__ = object.__hash__
    """Each role is one object. `Enum.__hash__` is a Python call; every request looks roles up."""


@dataclass(frozen=True, slots=True)
class RoleRow:
    """The rights of one role."""

    writable: bool
    """Clients may send, or send back, messages here."""

    readable: bool
    """Clients may pull here at all."""

    read_needs_slave_read: bool
    """Reading is allowed only with the option `slaveReadEnable`."""

    secondary: bool
    """Delayed, transactional and POP messages are moved on here (through the internal writer
    only)."""

    registers: bool
    """Name servers are told about this broker."""

    changes: bool
    """Clients may change topics and groups here, and messages that wait for no replica are
    answered: all that goes by this broker's word alone."""

    consumes: bool
    """Consumers' offsets and locks are kept here, and messages popped."""


ROLES: dict[Role, RoleRow] = {
    Role.MASTER: RoleRow(True, True, False, True, True, True, True),
    Role.SLAVE: RoleRow(False, True, True, False, True, False, False),
    Role.ACTING_MASTER: RoleRow(False, True, True, True, True, False, True),
    Role.PRE_ONLINE: RoleRow(False, False, False, False, False, False, False),
    Role.FENCED: RoleRow(False, False, False, False, False, False, False),
    # No client reads at a learner, so no route shows it; the controllers know where it is.
    Role.LEARNER: RoleRow(False, False, False, False, False, False, False),
}
HELD_MASTER = RoleRow(
    writable=True,
    readable=True,
    read_needs_slave_read=False,
    secondary=False,
    registers=True,
    changes=False,
    consumes=False,
)
"""A master past its lease whose whole set is behind it (ADR 0044): messages go on, for every member
holds them before they are acknowledged or shown; what one broker alone decides does not."""
