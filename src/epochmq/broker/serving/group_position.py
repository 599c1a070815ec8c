"""A broker's position in its group, and what request handlers ask of membership and replication."""

from dataclasses import dataclass, field
from typing import Protocol

from epochmq.wire.bodies.controller_bodies import EpochEntryBody, HARuntimeInfo


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """The position of a broker in its group; replaced as a whole (`BrokerContext.move_to`)."""

    own_id: int = 0
    """This replica's own broker id, whatever id routes show; 0 for a configured master."""
    epoch: int = 0
    master_id: int | None = None
    master_address: str = ""
    """Where clients reach the master; empty when there is none, or this broker is the master."""
    set_epoch: int = 0
    members: frozenset[int] = field(default_factory=frozenset)


class GroupStatus(Protocol):
    """What request handlers ask of membership and replication; both kinds of members implement
    it."""

    def epochs(self) -> list[EpochEntryBody]:
        """Return the epochs of the log, each with its end."""
        ...

    def ha_status(self) -> HARuntimeInfo: ...

    def role_changed(self, now: int) -> None:
        """Handle a notice (1008) that this broker's role changed."""
        ...

    def master_announced(self, master_address: str, ha_address: str, *, online: bool) -> None:
        """Note the master's addresses for clients and for replicas.

        `online`: a name server lists the master. Without it the master may still be copying the
        progress made while it was gone, and its tables must not be copied.
        """
        ...

    def master_returns(self, master_address: str, ha_address: str, *, hand_over: bool) -> bool:
        """Handle a 906: a master announces its addresses, and that it is coming back.

        With `hand_over` an acting master here stops acting before this returns. Returns whether no
        broker here is acting master.
        """
        ...

    def hint(self) -> None:
        """Note that the group's smallest id may have changed (905), or that a member asks whether
        this broker serves."""
        ...

    @property
    def owes_progress(self) -> bool:
        """Whether this broker acted for the master, which has not copied its progress yet."""
        ...

    @property
    def is_in_sync(self) -> bool:
        """Whether this replica is in the sync-state set, as far as it knows.

        Always true without controllers, where no replica knows the set.
        """
        ...

    @property
    def copy_problem(self) -> str:
        """Why this replica copies nothing from its master, until someone acts; else empty."""
        ...

    def options_changed(self) -> None:
        """Apply changed options of the node, for example how many replicas a send waits for."""
        ...

    def figures(self) -> dict[str, str]:
        """Return the figures for GET_BROKER_RUNTIME_INFO."""
        ...
