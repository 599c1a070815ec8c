"""Whether another broker runs under this one's name and id (H20).

Whoever registered last would be shown to clients, in turns: each of the two would have a part of
the messages. The name servers say who is registered; a broker that only moved, or died, does not
answer at its old address. With controllers numbers are given out, and epochs tell who is right.
"""

from epochmq.base.errors import ConfigError, EpochError
from epochmq.base.java_properties import parse_properties
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
