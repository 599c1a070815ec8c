"""CONTROLLER_REGISTER_BROKER 1003 of 5.1.1 and later: a broker with a number comes online.

A number that the controllers do not know is adopted: they may have been wiped (defects, part 2.9).
Nobody is elected by that alone. A master that registers is a new process, and its old epoch must
not go on (part 2.4): it is master no more, and the group is elected anew under a fresh epoch. While
the process before it may hold a lease the new one is refused; it asks again.
"""

from epochmq.base.errors import Refused
from epochmq.controller import replica_identity
from epochmq.controller.answers import set_body
from epochmq.controller.commands import ApplyBrokerId
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.controller_state import BrokerGroup, Key
from epochmq.controller.elect import LogReport
from epochmq.controller.machine import Refusal
from epochmq.controller.replica_identity import Told
from epochmq.controller.steps import ConfirmLeadership, ControllerCall, Steps, Write
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.headers.controller_headers import (
    RegisterBrokerToControllerHeader,
    RegisterBrokerToControllerResponseHeader,
)
from epochmq.wire.headers.header import decode_header

_CODES = {
    Refusal.OTHER_GENERATION: ResponseCode.CONTROLLER_INVALID_REQUEST,
    Refusal.ID_TAKEN: ResponseCode.CONTROLLER_BROKER_ID_INVALID,
    Refusal.FULL: ResponseCode.SYSTEM_BUSY,
}


def handle_register(core: ControllerCore, call: ControllerCall) -> Steps:
    header = decode_header(RegisterBrokerToControllerHeader, call.request.ext)
    key = header.clusterName, header.brokerName
    replica_identity.check_names(*key, header.brokerAddress)
    replica_identity.check_id(header.brokerId)
    told = _told(header)
    replica_identity.check_words(told)
    replica_identity.check_sole(core.context, key, told, call.session_id)
    replica_identity.check_successor(core.context, key, told)
    _check_newest(core, key, told, call.session_id)
    before = core.context.machine.groups.get(key)
    known = before is not None and told.broker_id in before.replicas
    yield from _adopt(core, key, told)
    yield from update(core, call, key, told)
    live = core.context.live.get(key, told.broker_id)
    if live is not None and not known:
        # What it told before was of an epoch that it has left only now (ADR 0044).
        live.report = LogReport()
    yield ConfirmLeadership()
    group = core.context.machine.groups.get(key)
    if group is None:
        raise Refused(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "it was cleaned")
    core.elections.soon(key)
    return Reply(header=_header(core, group), body=set_body(group))


def update(core: ControllerCore, call: ControllerCall, key: Key, told: Told) -> Steps:
    """Record what is new about a replica, and that it lives; the reply is of no use.

    Meanwhile nothing else is recorded about the replica, for that would be of before.
    """
    group = core.context.machine.groups[key]
    replica = group.replicas.get(told.broker_id)
    event = None if replica is None else replica_identity.update_of(group, replica, told)
    if event is not None:
        mark = key, told.broker_id
        core.recording.add(mark)
        try:
            outcome = yield Write(event)
        finally:
            core.recording.discard(mark)
        if not outcome.ok:
            raise Refused(ResponseCode.SYSTEM_ERROR, outcome.refusal.value)
    touch(core, call, key, told)
    return Reply()


def touch(core: ControllerCore, call: ControllerCall, key: Key, told: Told) -> None:
    """A request is a sign of life too, of a log not yet known."""
    context = core.context
    if told.session is None:
        context.live.forget(key, told.broker_id)  # what is known is of the process before
    else:
        context.live.forget_other(key, told.broker_id, told.session)
    live = context.live.heard(
        key, told.broker_id, call.session_id, context.now, context.times.timeout_ms
    )
    if live is not None:
        replica_identity.note(live, told)


def _check_newest(core: ControllerCore, key: Key, told: Told, session_id: int) -> None:
    """Refuse what the same process said before what it told over a newer connection."""
    live = core.context.live.get(key, told.broker_id)
    if live is not None and live.session == told.session:
        if core.context.live.is_late(key, told.broker_id, session_id):
            raise Refused(ResponseCode.SYSTEM_ERROR, "this process has a newer connection")


def _told(header: RegisterBrokerToControllerHeader) -> Told:
    return Told(
        header.brokerId,
        header.brokerAddress,
        ha_address=header.haAddress or "",
        incarnation=header.incarnation or "",
        session=header.session,
        clean_start=header.cleanStart,
        learner=header.learner,
        floor=header.minInSyncReplicas,
    )


def _adopt(core: ControllerCore, key: Key, told: Told) -> Steps:
    group = core.context.machine.groups.get(key)
    if group is not None and group.by_address:
        raise Refused(_CODES[Refusal.OTHER_GENERATION], Refusal.OTHER_GENERATION.value)
    if group is None or told.broker_id not in group.replicas:
        event = ApplyBrokerId(
            *key,
            broker_id=told.broker_id,
            address=told.address,
            incarnation=told.incarnation,
            learner=bool(told.learner),
            adopted=True,
        )
        outcome = yield Write(event)
        if not outcome.ok:
            code = _CODES.get(outcome.refusal, ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
            raise Refused(code, f"not registered: {outcome.refusal.value}")
    return Reply()


def _header(core: ControllerCore, group: BrokerGroup) -> RegisterBrokerToControllerResponseHeader:
    header = RegisterBrokerToControllerResponseHeader(
        clusterName=group.cluster,
        brokerName=group.name,
        masterEpoch=group.epoch,
        syncStateSetEpoch=group.set_epoch,
        uncleanEpoch=group.unclean_epoch or None,
    )
    master = group.master_replica()
    if master is not None and core.context.has_master(group):
        header.masterBrokerId = master.id
        header.masterAddress = master.address
        header.masterHaAddress = master.ha_address or None
    return header
