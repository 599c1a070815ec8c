"""What the controllers agree on: the broker groups, their replicas, sets and masters."""

import msgspec

from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.controller_bodies import SyncStateAddresses, SyncStateSet

Key = tuple[str, str]
"""(cluster, broker name): a group. The name alone would let two clusters share one by accident."""


class BrokerReplica(msgspec.Struct):
    """One broker of a group. The address is an attribute, the number and incarnation identify it.

    `session` names its present process, `floor` is the size of the set below which it promised not
    to acknowledge. `unclean`: it started after losing what it had not synced, and has not been
    taken into the set since (KIP-966).
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
    """One broker group. The numbers only rise; `members` is the sync-state set, in order.

    `master` is None before the first election and when its process ended. `candidates` are replicas
    outside the set that hold all that was acknowledged. `by_address` marks a group of 5.0 brokers,
    `adopted` one that the controllers once knew and forgot. `unclean_epoch` is the last one that an
    unclean election began: who holds more of older epochs must give it up.
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
        return self.cluster, self.name

    @property
    def elected(self) -> bool:
        """Whether it ever had a master."""
        return self.epoch > 0

    def by_addr(self, address: str) -> BrokerReplica | None:
        return next((r for r in self.replicas.values() if r.address == address), None)

    def master_replica(self) -> BrokerReplica | None:
        return None if self.master is None else self.replicas.get(self.master)


class ControllerState(msgspec.Struct):
    """All of it, as a snapshot has it. `settings` are switches on which all leaders must agree."""

    version: int = 1
    groups: list[BrokerGroup] = []
    settings: dict[str, str] = {}


# Answers -------------------------------------------------------------------------------------
# Pieces of answers that several handlers share.


def set_body(group: BrokerGroup) -> bytes:
    """The sync-state set by ids, for 5.1.1 and later."""
    return encode_body(SyncStateSet(group.members, group.set_epoch))


def address_set_body(group: BrokerGroup) -> bytes:
    """The sync-state set by addresses, for 5.0."""
    addresses = [group.replicas[number].address for number in group.members]
    return encode_body(SyncStateAddresses(addresses, group.set_epoch))


def shown_id(group: BrokerGroup, broker_id: int) -> int:
    """A replica's number as 5.0 shows it: the master's is 0."""
    return 0 if broker_id == group.master else broker_id
