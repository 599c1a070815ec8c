"""CONTROLLER_GET_NEXT_BROKER_ID 1012 and CONTROLLER_APPLY_BROKER_ID 1013: numbers for new replicas.

Two brokers may be shown the same number; who applies first has it, the other asks again.
"""

from epochmq.base.errors import Refused
from epochmq.controller import replica_identity
from epochmq.controller.commands import ApplyBrokerId
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.machine import Refusal
from epochmq.controller.steps import ConfirmLeadership, ControllerCall, Steps, Write
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.headers.controller_headers import (
    ApplyBrokerIdHeader,
    ApplyBrokerIdResponseHeader,
    GetNextBrokerIdHeader,
    GetNextBrokerIdResponseHeader,
)
from epochmq.wire.headers.header import decode_header

_CODES = {
    Refusal.OTHER_GENERATION: ResponseCode.CONTROLLER_INVALID_REQUEST,
    Refusal.FULL: ResponseCode.SYSTEM_BUSY,
}


def handle_next_id(core: ControllerCore, call: ControllerCall) -> Steps:
    header = decode_header(GetNextBrokerIdHeader, call.request.ext)
    yield ConfirmLeadership()
    group = core.context.machine.groups.get((header.clusterName, header.brokerName))
    next_id = 1 if group is None else group.next_id
    return Reply(
        header=GetNextBrokerIdResponseHeader(header.clusterName, header.brokerName, next_id)
    )


def handle_apply_id(core: ControllerCore, call: ControllerCall) -> Steps:
    header = decode_header(ApplyBrokerIdHeader, call.request.ext)
    replica_identity.check_names(header.clusterName, header.brokerName, header.registerCheckCode)
    replica_identity.check_word(header.incarnation or "")
    replica_identity.check_id(header.appliedBrokerId)
    event = ApplyBrokerId(
        header.clusterName,
        header.brokerName,
        broker_id=header.appliedBrokerId,
        address=header.registerCheckCode.partition(";")[0],
        check_code=header.registerCheckCode,
        incarnation=header.incarnation or "",
        learner=bool(header.learner),
    )
    outcome = yield Write(event)
    if not outcome.ok:
        code = _CODES.get(outcome.refusal, ResponseCode.CONTROLLER_BROKER_ID_INVALID)
        raise Refused(code, f"no such number for this broker: {outcome.refusal.value}")
    return Reply(header=ApplyBrokerIdResponseHeader(header.clusterName, header.brokerName))
