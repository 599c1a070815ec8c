"""The roles of a broker: the rights of each role, and the legal changes between roles.

A broker has one role at a time. `Serving` (`serving/serving_state.py`) holds the role and is the
only object that changes it. An ACTING_MASTER replaces a master that is gone: clients read from it
as from a master, and it accepts no sends (RIP-32).
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
    """Delayed, transactional and POP messages are processed here (written by the internal writer
    only)."""

    registers: bool
    """Name servers list this broker."""

    changes: bool
    """Clients may change topics and groups here, and requests that wait for no replica are
    answered: everything that this broker decides alone."""

    consumes: bool
    """Consumer offsets and locks are kept here, and messages can be popped."""


ROLES: dict[Role, RoleRow] = {
    Role.MASTER: RoleRow(
        writable=True,
        readable=True,
        read_needs_slave_read=False,
        secondary=True,
        registers=True,
        changes=True,
        consumes=True,
    ),
    Role.SLAVE: RoleRow(
        writable=False,
        readable=True,
        read_needs_slave_read=True,
        secondary=False,
        registers=True,
        changes=False,
        consumes=False,
    ),
    Role.ACTING_MASTER: RoleRow(
        writable=False,
        readable=True,
        read_needs_slave_read=True,
        secondary=True,
        registers=True,
        changes=False,
        consumes=True,
    ),
    Role.PRE_ONLINE: RoleRow(
        writable=False,
        readable=False,
        read_needs_slave_read=False,
        secondary=False,
        registers=False,
        changes=False,
        consumes=False,
    ),
    Role.FENCED: RoleRow(
        writable=False,
        readable=False,
        read_needs_slave_read=False,
        secondary=False,
        registers=False,
        changes=False,
        consumes=False,
    ),
    # No client reads from a learner, so no route lists it; the controllers know its address.
    Role.LEARNER: RoleRow(
        writable=False,
        readable=False,
        read_needs_slave_read=False,
        secondary=False,
        registers=False,
        changes=False,
        consumes=False,
    ),
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
"""The rights of a master past its lease while its whole set has all messages (ADR 0044). Sends and
reads go on, because every member has a message before it is acknowledged or shown; what one broker
would decide alone does not."""

_ELECTED = frozenset({Role.MASTER, Role.SLAVE, Role.LEARNER, Role.FENCED})
"""Controllers may give any of these roles at any time."""
TRANSITIONS: dict[Role, frozenset[Role]] = {
    # Without controllers a master that missed an acting master comes back through PRE_ONLINE.
    Role.MASTER: _ELECTED | {Role.PRE_ONLINE},
    Role.SLAVE: _ELECTED | {Role.ACTING_MASTER, Role.PRE_ONLINE},
    Role.ACTING_MASTER: frozenset({Role.SLAVE}),
    Role.PRE_ONLINE: frozenset({Role.MASTER, Role.SLAVE}),
    Role.FENCED: _ELECTED,
    Role.LEARNER: _ELECTED,
}
"""The roles that a broker may have next. Every broker starts as MASTER; in controller mode it is
FENCED before it serves anything."""


def transition_diagram() -> str:
    """Return the roles and their legal changes as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> MASTER"]
    for role, following in TRANSITIONS.items():
        others = sorted(after.name for after in following if after is not role)
        lines += [f"    {role.name} --> {name}" for name in others]
    return "\n".join(lines)
