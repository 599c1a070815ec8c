"""Pieces of answers that several handlers share."""

from epochmq.controller.controller_state import BrokerGroup
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.controller_bodies import SyncStateSet
from epochmq.wire.bodies.controller_v50_bodies import SyncStateAddresses


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
