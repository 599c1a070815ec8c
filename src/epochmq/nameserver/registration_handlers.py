"""Request handlers for brokers: registration, heartbeats, members, and the cluster."""

from collections.abc import Generator

from epochmq.base import limits
from epochmq.base.errors import HeaderError, Refused
from epochmq.model.crc import crc32
from epochmq.model.data_version import DataVersion
from epochmq.model.names import check_shown
from epochmq.nameserver.kv_config import ORDER_TOPIC_CONFIG
from epochmq.nameserver.name_server_node import NameServerNode
from epochmq.nameserver.route_table import Registration
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.namesrv_bodies import (
    BrokerMemberGroup,
    BrokerMemberGroupBody,
    ClusterInfo,
    KVTable,
    RegisterBrokerBody,
    decode_compressed,
)
from epochmq.wire.bodies.topic_bodies import TopicConfigTable
from epochmq.wire.codes import VERSION_3_0_11, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers import namesrv_headers as headers
from epochmq.wire.json_tolerant import dumps_bare
from epochmq.wire.session import Session

Steps = Generator[None, None, Reply]
"""A request that is handled in steps; the generator returns the answer."""

_ZLIB_BEST = b"\x78\xda"
_FEW_OBJECTS = 1_000


def handle_register(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply | Held:
    """Handle REGISTER_BROKER 103; a large registration takes several turns of the loop."""
    steps = _register(node, request, session, now)
    try:
        next(steps)
    except StopIteration as done:
        reply: Reply = done.value
        return reply
    node.go_on(session, request, steps)
    return HELD


def _register(node: NameServerNode, request: Command, session: Session, now: int) -> Steps:
    header = decode_header(headers.RegisterBrokerHeader, request.ext)
    names = [header.brokerName, header.clusterName, header.brokerAddr]
    for name in [*names, header.groupAddr] if header.groupAddr else names:
        if not 0 < len(name) <= limits.NAME_LENGTH_MAX:
            raise HeaderError(f"a broker's names have 1 to {limits.NAME_LENGTH_MAX} characters")
        check_shown(name)
    if header.bodyCrc32 not in (0, crc32(request.body)):
        raise Refused(ResponseCode.SYSTEM_ERROR, "crc32 not match: the body came damaged")
    known = node.table.is_from(header.clusterName, header.brokerAddr, session.id)
    body = yield from _register_body(request, header.compressed, known)
    if len(body.filter_server_list) > limits.REGISTER_FILTERS_MAX:
        raise HeaderError(f"more than {limits.REGISTER_FILTERS_MAX} filter servers")
    wrapper = body.topic_config_serialize_wrapper
    told = Registration(
        cluster=header.clusterName,
        name=header.brokerName,
        broker_id=header.brokerId,
        addr=header.brokerAddr,
        ha_addr=header.haServerAddr,
        zone=header.zoneName,
        timeout_ms=header.heartbeatTimeoutMillis,
        acting=header.enableActingMaster,
        version=wrapper.data_version,
        topics=wrapper.topic_config_table,
        mappings=wrapper.topic_queue_mapping_info_map,
        filter_servers=body.filter_server_list,
        session_id=session.id,
        group_addr=header.groupAddr or None,
        is_part=bool(header.isPart),
    )
    result = yield from node.table.register_steps(told, now)
    node.watch(session)
    answer = headers.RegisterBrokerResponseHeader(result.ha_addr, result.master_addr)
    return Reply(header=answer, body=_order_table(node))


def _register_body(
    request: Command, compressed: bool, known: bool
) -> Generator[None, None, RegisterBrokerBody]:
    """Decode the body; `known` says that the broker is registered over this connection."""
    if len(request.body) == 0:
        return RegisterBrokerBody()
    if compressed or request.body[:2] == _ZLIB_BEST:
        # RocketMQ's brokers (5.0 to 5.3) compress the body and do not set the field for it.
        first_max, later_max = limits.REGISTER_FIRST_BYTES_MAX, limits.REGISTER_BODY_BYTES_MAX
        body = yield from decode_compressed(request.body, later_max if known else first_max)
        return body
    _check_json(bytes(request.body))
    if request.version >= VERSION_3_0_11:
        return decode_body(RegisterBrokerBody, request.body)
    return RegisterBrokerBody(decode_body(TopicConfigTable, request.body))


def _check_json(body: bytes) -> None:
    """Refuse a body that cannot be a registration, before it is parsed at once."""
    if len(body) > limits.REGISTER_FIRST_BYTES_MAX:
        raise HeaderError(
            f"a registration of {len(body)} bytes is larger than {limits.REGISTER_FIRST_BYTES_MAX};"
            " let the broker register its topics in parts, as RocketMQ's brokers do with"
            " enableSplitRegistration=true"
        )
    objects = body.count(b"{") + body.count(b"[")
    if objects > _FEW_OBJECTS + len(body) // limits.REGISTER_JSON_ENTRY_BYTES_MIN:
        raise HeaderError(f"{objects} objects in a registration of {len(body)} bytes are too many")


def _order_table(node: NameServerNode) -> bytes:
    if not node.options.return_order_topic_config_to_broker:
        return b""
    table = node.kv.list(ORDER_TOPIC_CONFIG)
    return b"" if table is None else encode_body(KVTable(table))


def handle_unregister(node: NameServerNode, request: Command, session: Session, now: int) -> Reply:
    """Remove a broker at its own request (104)."""
    header = decode_header(headers.UnregisterBrokerHeader, request.ext)
    node.table.leaves(header.clusterName, header.brokerName, header.brokerAddr, session.id)
    return Reply()


def handle_heartbeat(node: NameServerNode, request: Command, session: Session, now: int) -> Reply:
    """Keep a registration alive (904)."""
    header = decode_header(headers.BrokerHeartbeatHeader, request.ext)
    node.table.heartbeat(header.clusterName, header.brokerAddr, now)
    return Reply()


def handle_query_version(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply:
    """Return whether the broker must register again (322). It also counts as a heartbeat."""
    header = decode_header(headers.QueryDataVersionHeader, request.ext)
    version = decode_body(DataVersion, request.body)
    changed, known = node.table.query_version(header.clusterName, header.brokerAddr, version, now)
    body = b"" if known is None else encode_body(known)
    return Reply(header=headers.QueryDataVersionResponseHeader(changed), body=body)


def handle_member_group(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply:
    """Return the members of a broker group (901)."""
    header = decode_header(headers.GetBrokerMemberGroupHeader, request.ext)
    group = node.table.brokers.groups.get(header.brokerName)
    addrs = {} if group is None else dict(sorted(group.addrs.items()))
    member = BrokerMemberGroup(header.clusterName, header.brokerName, addrs)
    return Reply(body=dumps_bare(BrokerMemberGroupBody(member)))


def handle_cluster_info(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply:
    """Return all broker groups and clusters (106)."""
    brokers = node.table.brokers
    info = ClusterInfo(
        {name: group.as_data() for name, group in brokers.groups.items()},
        {cluster: sorted(names) for cluster, names in brokers.clusters.items()},
    )
    return Reply(body=dumps_bare(info))
