"""Duplicate broker id: checks at start that no other broker has the same name and id (H20).

With two such brokers, name servers show clients the one that registered last, so each broker gets a
part of the messages. The check asks the name servers who is registered, and then asks that address;
a broker that only moved or died does not answer at its old address. In controller mode the check is
not needed: controllers give out the ids, and epochs decide who is right.
"""

import asyncio

from epochmq.base.errors import ConfigError, EpochError
from epochmq.base.java_properties import parse_properties
from epochmq.broker.config.broker_peers import broker_peers
from epochmq.broker.config.options import BrokerOptions
from epochmq.model.host import split_addresses
from epochmq.runtime.peers import Peers
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.bodies.namesrv_bodies import ClusterInfo
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request

Identity = tuple[str, str, int]
"""Cluster name, broker name, broker id."""


def who_is_registered() -> Command:
    """Build the request for the registered brokers; name servers of 4.x know it too."""
    return request(RequestCode.GET_BROKER_CLUSTER_INFO)


def registered(answer: Command, own: Identity) -> str | None:
    """Return the address that a name server's answer lists under the id of `own`; None when it
    lists none."""
    cluster, name, number = own
    if answer.code != ResponseCode.SUCCESS:
        return None
    try:
        group = decode_answer(ClusterInfo, answer.body).broker_addr_table.get(name)
    except EpochError:
        return None
    if group is None or group.cluster != cluster:
        return None
    return group.broker_addrs.get(number)


def who_are_you() -> Command:
    """Build the request that asks the registered address for its broker's configuration."""
    return request(RequestCode.GET_BROKER_CONFIG)


def is_duplicate_id(answer: Command, own: Identity) -> bool:
    """Return whether the broker that answered has the identity `own`."""
    if answer.code != ResponseCode.SUCCESS:
        return False
    try:
        said = parse_properties(bytes(answer.body).decode())
    except (ConfigError, UnicodeDecodeError):
        return False
    keys = ("brokerClusterName", "brokerName", "brokerId")
    return [said.get(key) for key in keys] == [own[0], own[1], str(own[2])]


def problem(address: str, own: Identity) -> str:
    """Return the text of the error that stops the start."""
    cluster, name, number = own
    return (
        f"option 'brokerId': another broker runs as id {number} of group {name} in {cluster}, at"
        f" {address}; stop it, or give this one a brokerName or brokerId of its own"
    )


# Name server peers ---------------------------------------------------------------------------
# Runs the check, before the broker registers.


TIMEOUT_MS = 1_000
"""How long the start waits for each name server, and for the broker that may have the same id, in
ms."""


async def check_id(options: BrokerOptions, address: str) -> None:
    """Raise `ConfigError` when a broker at another address answers with this broker's name and id.

    Name servers that do not answer are ignored; they do not prevent the start.
    """
    own = (options.broker_cluster_name, options.broker_name, options.broker_id)
    peers = broker_peers(options, connect_timeout_ms=TIMEOUT_MS)
    try:
        servers = split_addresses(options.namesrv_addr)
        answers = await asyncio.gather(*(_ask(peers, at, who_is_registered()) for at in servers))
        found = {registered(answer, own) for answer in answers if answer is not None}
        for other in sorted(at for at in found if at is not None and at != address):
            answer = await _ask(peers, other, who_are_you())
            if answer is not None and is_duplicate_id(answer, own):
                raise ConfigError([problem(other, own)])
    finally:
        await peers.close()


async def _ask(peers: Peers, address: str, command: Command) -> Command | None:
    try:
        return await peers.invoke(address, command, TIMEOUT_MS)
    except EpochError:
        return None
