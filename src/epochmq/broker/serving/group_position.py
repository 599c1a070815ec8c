"""Where a broker stands in its group, and what handlers ask of membership and replication."""

from dataclasses import dataclass, field
from typing import Protocol

from epochmq.wire.bodies.controller_bodies import EpochEntryBody, HARuntimeInfo


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """The position of a broker in its group; replaced as a whole (`BrokerContext.move_to`)."""

    own_id: int = 0
    """This replica's own number, whatever it is called in routes; 0 for a configured master."""
    epoch: int = 0
    master_id: int | None = None
    master_address: str = ""
    """Where clients reach the master; empty while there is none, or it is this broker."""
    set_epoch: int = 0
    members: frozenset[int] = field(default_factory=frozenset)


class GroupStatus(Protocol):
    """What handlers ask of membership and replication; the service behind it fits."""

    def epochs(self) -> list[EpochEntryBody]:
        """The epochs of the log, ends filled in."""
        ...

    def ha_status(self) -> HARuntimeInfo: ...

    def role_changed(self, now: int) -> None:
        """Somebody says that this broker's role is another one (1008)."""
        ...

    def master_announced(self, master_address: str, ha_address: str, *, online: bool) -> None:
        """Somebody tells where the master is reached by replicas.

        `online`: a name server says so; without it the master may still be taking back what
        happened while it was gone, and its tables are not to be copied.
        """
        ...

    def master_returns(self, master_address: str, ha_address: str, *, hand_over: bool) -> bool:
        """A master tells where it is, and that it is coming back (906).

        With `hand_over` whoever stands in for it here steps down before this returns; whether
        nobody does.
        """
        ...

    def hint(self) -> None:
        """The group's smallest id may have changed (905), or somebody asks whether we serve."""
        ...

    @property
    def owes_progress(self) -> bool:
        """Whether this broker stood in for the master, which took nothing back yet."""
        ...

    def options_changed(self) -> None:
        """The node has other options: how many replicas a send waits for may be among them."""
        ...

    def figures(self) -> dict[str, str]:
        """For GET_BROKER_RUNTIME_INFO."""
        ...
