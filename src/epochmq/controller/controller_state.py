"""The replicated state of the controllers: broker groups, replicas, sync-state sets and masters."""

import msgspec

from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.controller_bodies import SyncStateAddresses, SyncStateSet

Key = tuple[str, str]
"""(cluster, broker name) of a group. With the name alone, two clusters could share a group by
mistake."""


class BrokerReplica(msgspec.Struct):
    """One broker of a group, identified by its id and its incarnation; the address may change.

    Attributes:
        session: names its present process.
        floor: the size of the sync-state set below which it promised not to acknowledge.
        unclean: it restarted after a loss of unsynced data, and has not joined the set since
            (KIP-966).
    """

    id: int
    address: str
    check_code: str = ""
    incarnation: str = ""
    session: str = ""
    ha_address: str = ""
    learner: bool = False
    unclean: bool = False
    floor: int = 0


class BrokerGroup(msgspec.Struct):
    """One broker group. Epochs and ids only rise.

    Attributes:
        by_address: a group of 5.0 brokers, whose replicas are known by address.
        adopted: a group that the controllers once knew and forgot.
        members: the sync-state set, sorted.
        master: None before the first election, and when the master's process ended.
        candidates: replicas outside the set that hold everything that was acknowledged.
        unclean_epoch: the last epoch that began with an unclean election. A replica that holds more
            of older epochs must drop it.
    """

    cluster: str
    name: str
    by_address: bool = False
    adopted: bool = False
    next_id: int = 1
    replicas: dict[int, BrokerReplica] = {}
    members: list[int] = []
    set_epoch: int = 0
    master: int | None = None
    epoch: int = 0
    candidates: list[int] = []
    unclean_epoch: int = 0

    @property
    def key(self) -> Key:
        """(cluster, name) of the group."""
        return self.cluster, self.name

    @property
    def elected(self) -> bool:
        """Whether the group ever had a master."""
        return self.epoch > 0

    def by_addr(self, address: str) -> BrokerReplica | None:
        """Return the replica with this address, or None."""
        return next((r for r in self.replicas.values() if r.address == address), None)

    def master_replica(self) -> BrokerReplica | None:
        """Return the master, or None."""
        return None if self.master is None else self.replicas.get(self.master)


class ControllerState(msgspec.Struct):
    """The whole state, as a snapshot holds it. `settings` are switches that all leaders share."""

    version: int = 1
    groups: list[BrokerGroup] = []
    settings: dict[str, str] = {}


# Answers -------------------------------------------------------------------------------------
# Parts of answers that several handlers use.


def set_body(group: BrokerGroup) -> bytes:
    """Return the sync-state set by broker ids, for 5.1.1 and later."""
    return encode_body(SyncStateSet(group.members, group.set_epoch))


def address_set_body(group: BrokerGroup) -> bytes:
    """Return the sync-state set by addresses, for 5.0."""
    addresses = [group.replicas[number].address for number in group.members]
    return encode_body(SyncStateAddresses(addresses, group.set_epoch))


def shown_id(group: BrokerGroup, broker_id: int) -> int:
    """Return a broker id as 5.0 shows it: the master has id 0."""
    return 0 if broker_id == group.master else broker_id
