"""CLEAN_BROKER_DATA 1011: remove replicas that will not return, or a whole group.

With the flag for living brokers RocketMQ removes the whole group, whatever the request lists.
EpochMQ removes exactly what the request lists. The last member of the sync-state set stays while
there are other replicas, because without it the controllers could not tell who may be elected.
"""

from epochmq.base.errors import Refused
from epochmq.controller.commands import CleanBrokerData
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.controller_state import BrokerGroup
from epochmq.controller.protocol_version import ProtocolVersion, protocol_version_of
from epochmq.controller.steps import ControllerCall, Steps, Write
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers import controller_headers as g1
from epochmq.wire.headers import controller_headers as g2

_INVALID = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA


def handle_clean(core: ControllerCore, call: ControllerCall) -> Steps:
    """Remove the listed replicas, or the whole group if none is listed."""
    group, ids, living = _read(core, call)
    if not ids and not living and group.master is not None:
        raise Refused(_INVALID, "the group has a master: name the replicas to clean")
    if not living:
        for broker_id in ids:
            if broker_id in group.replicas:
                _check_dead(core, group, broker_id)
    outcome = yield Write(CleanBrokerData(*group.key, ids=ids))
    if not outcome.ok:
        raise Refused(_INVALID, f"not cleaned: {outcome.refusal.value}")
    for broker_id in ids:
        core.context.live.forget(group.key, broker_id)
    core.elections.soon(group.key)
    return Reply()


def _check_dead(core: ControllerCore, group: BrokerGroup, broker_id: int) -> None:
    """Refuse for a replica that lives or may live, which is unknown after a change of leader."""
    context = core.context
    if context.alive(group, broker_id):
        raise Refused(_INVALID, f"broker {broker_id} is alive")
    left_ms = context.may_live_until(group, broker_id) - context.now
    if left_ms > 0:
        raise Refused(
            _INVALID,
            f"broker {broker_id} may be alive: this controller has led for"
            f" {context.now - context.since} ms only and has not heard of it; try again in"
            f" {left_ms} ms",
        )


def _read(core: ControllerCore, call: ControllerCall) -> tuple[BrokerGroup, tuple[int, ...], bool]:
    by_address = protocol_version_of(call.request) is ProtocolVersion.G1
    header: g1.CleanBrokerDataHeaderV50 | g2.CleanBrokerDataHeader
    if by_address:
        header = decode_header(g1.CleanBrokerDataHeaderV50, call.request.ext)
        listed = header.brokerAddress or ""
    else:
        header = decode_header(g2.CleanBrokerDataHeader, call.request.ext)
        listed = header.brokerControllerIdsToClean or ""
    group = core.context.find(header.clusterName, header.brokerName, call.session_id)
    if group is None:
        raise Refused(_INVALID, f"broker group {header.brokerName} is not known")
    texts = [text.strip() for text in listed.split(";") if text.strip()]
    ids = [_by_addr(group, text) if by_address else _number(text) for text in texts]
    return group, tuple(sorted(set(ids))), header.isCleanLivingBroker


def _by_addr(group: BrokerGroup, address: str) -> int:
    replica = group.by_addr(address)
    if replica is None:
        raise Refused(_INVALID, f"{address} is not a replica of group {group.name}")
    return replica.id


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise Refused(_INVALID, f"'{text[:32]}' is not a broker id")
    return int(text)
