"""Decides whether a broker may serve and acknowledge now: its role, and the lease of a master."""

from collections.abc import Callable

from epochmq.base.errors import check
from epochmq.base.ports import Clock
from epochmq.base.unbounded import FOREVER
from epochmq.broker.serving.roles import HELD_MASTER, ROLES, TRANSITIONS, Role, RoleRow


class Serving:
    """Whether this broker may serve and acknowledge at this moment.

    Every request, every acknowledgement and every driver of delayed, transactional and POP
    messages asks this object. Its invariants:

    - `rights` never allows more than the row of the role in `ROLES`.
    - A master whose lease is over has no rights (INV-25). It has those of `HELD_MASTER` while every
      member of its sync-state set has all of its messages (ADR 0044).
    - The role changes only by `change_role`, and only as `TRANSITIONS` allows.
    """

    def __init__(self, clock: Clock, on_change: Callable[[Role], None]) -> None:
        """Start as MASTER without a lease.

        Args:
            clock: monotonic time, in which leases are given.
            on_change: called with the new role after each change.
        """
        self._clock = clock
        self._on_change = on_change
        self.role = Role.MASTER
        self.role_changes = 0
        """Counts role changes, so that callers can detect a change between two reads."""
        self.lease_until_ms = FOREVER
        """A master serves until then (monotonic ms); FOREVER where no leases are given."""
        self.set_has_all: Callable[[int], bool] = _never
        """Whether every member of the sync-state set has all messages, at a time (ms)."""
        self.delivers_from: int | None = None
        """A new master delivers no delayed message before its log is confirmed up to this log
        offset; None once it is."""

    @property
    def rights(self) -> RoleRow:
        """The rights that the role gives now. After the lease: none, or `HELD_MASTER`.

        The clock is read here instead of using the turn's time: the process may have been paused
        since the turn began (S17).
        """
        until = self.lease_until_ms
        if until != FOREVER and (now := self._clock.now_ms()) >= until:
            return HELD_MASTER if self.set_has_all(now) else ROLES[Role.FENCED]
        return ROLES[self.role]

    @property
    def delivers(self) -> bool:
        """Whether delayed messages are delivered here, now."""
        return self.rights.secondary and self.delivers_from is None

    @property
    def rests(self) -> bool:
        """Whether it would deliver, but its lease is over and may still be renewed."""
        return ROLES[self.role].secondary and self.delivers_from is None and not self.delivers

    @property
    def escapes(self) -> bool:
        """Whether its deliveries go to another group's master: it is an acting master (RIP-32)."""
        rights = self.rights
        return rights.secondary and not rights.writable

    @property
    def is_master(self) -> bool:
        """Whether the role is MASTER, with or without a running lease."""
        return self.role is Role.MASTER

    def change_role(self, role: Role) -> None:
        """Change the role, and call `on_change`."""
        check(role in TRANSITIONS[self.role], f"{self.role.name} does not become {role.name}")
        self.role = role
        self.role_changes += 1
        self._on_change(role)

    def grant_lease(self, until_ms: int) -> None:
        """Serve as master until `until_ms` (monotonic); 0 ends the lease, FOREVER needs none."""
        self.lease_until_ms = until_ms

    def trust_set(self, set_has_all: Callable[[int], bool]) -> None:
        """Set the function that is asked after a lease: whether the whole set has all messages at
        `now_ms`."""
        self.set_has_all = set_has_all

    def deliver_from(self, offset: int | None) -> None:
        """Deliver nothing before the log is confirmed up to `offset`; None: deliver at once."""
        self.delivers_from = offset


def _never(now: int) -> bool:
    return False
