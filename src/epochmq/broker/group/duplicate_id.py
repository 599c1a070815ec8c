"""Whether another broker runs under this one's name and id (H20).

Whoever registered last would be shown to clients, in turns: each of the two would have a part of
the messages. The name servers say who is registered; a broker that only moved, or died, does not
answer at its old address. With controllers numbers are given out, and epochs tell who is right.
"""

import asyncio

from epochmq.base.errors import ConfigError, EpochError
from epochmq.base.java_properties import parse_properties
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.config.replica_keys import addresses
from epochmq.runtime.peers import Peers
from epochmq.runtime.tls import client_tls
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.bodies.namesrv_bodies import ClusterInfo
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request

Identity = tuple[str, str, int]
"""Cluster, broker name, id."""


def who_is_registered() -> Command:
    """To be sent to each name server; name servers of 4.x know it too."""
    return request(RequestCode.GET_BROKER_CLUSTER_INFO)


def registered(answer: Command, own: Identity) -> str | None:
    """The address under `own` id by a name server's answer; None where there is none."""
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
    """To be sent to that address."""
    return request(RequestCode.GET_BROKER_CONFIG)


def is_duplicate_id(answer: Command, own: Identity) -> bool:
    """Whether the broker that answered says that it is `own`."""
    if answer.code != ResponseCode.SUCCESS:
        return False
    try:
        said = parse_properties(bytes(answer.body).decode())
    except (ConfigError, UnicodeDecodeError):
        return False
    keys = ("brokerClusterName", "brokerName", "brokerId")
    return [said.get(key) for key in keys] == [own[0], own[1], str(own[2])]


def problem(address: str, own: Identity) -> str:
    """Why this broker does not start."""
    cluster, name, number = own
    return (
        f"option 'brokerId': another broker runs as id {number} of group {name} in {cluster}, at"
        f" {address}; stop it, or give this one a brokerName or brokerId of its own"
    )


# Name server peers ---------------------------------------------------------------------------
# Asks, before a broker is seen, whether its id is somebody else's (namesake.py).


TIMEOUT_MS = 1_000
"""A start waits no longer for a name server, nor for the one that may have our id."""


async def check_id(options: BrokerOptions, address: str) -> None:
    """`ConfigError` when a broker at another address than ours answers under our name and id.

    Name servers that do not answer say nothing, and keep nobody from starting.
    """
    own = (options.broker_cluster_name, options.broker_name, options.broker_id)
    peers = Peers(connect_timeout_ms=TIMEOUT_MS, tls=client_tls(options))
    try:
        servers = addresses(options.namesrv_addr)
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
