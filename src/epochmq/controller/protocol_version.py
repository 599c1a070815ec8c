"""The protocol version of a request to a controller, and the codes of its answers.

G1 is RocketMQ 5.0 and 5.1.0: the address identifies a replica. G2 is 5.1.1 and later: the id
identifies it. Codes 2010 to 2012 have different meanings in the two versions, so an answer depends
on the version of the request.
"""

from enum import Enum

from epochmq.controller.machine import Refusal
from epochmq.wire.codes import RequestCode
from epochmq.wire.codes import ResponseCode as Code
from epochmq.wire.command import Command

VERSION_5_1_1 = 435


class ProtocolVersion(Enum):
    """The protocol version of a request; the value is the first RocketMQ release with it."""

    G1 = "5.0"
    G2 = "5.1.1"


class Failure(Enum):
    """Failures whose codes differ between the protocol versions."""

    ALTER = "alter"
    ELECT = "elect"
    REGISTER = "register"
    STILL_MASTER = "still master"
    UNREGISTERED = "unregistered"


_NUMBERS: dict[ProtocolVersion, dict[Failure, int]] = {
    ProtocolVersion.G1: {
        Failure.ALTER: 2010,
        Failure.ELECT: Code.CONTROLLER_MASTER_NOT_AVAILABLE,
        Failure.REGISTER: 2012,
        Failure.STILL_MASTER: 2011,
        Failure.UNREGISTERED: 2011,
    },
    ProtocolVersion.G2: {
        Failure.ALTER: Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
        Failure.ELECT: Code.CONTROLLER_ELECT_MASTER_FAILED,
        Failure.REGISTER: Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
        Failure.STILL_MASTER: Code.CONTROLLER_MASTER_STILL_EXIST,
        Failure.UNREGISTERED: Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    },
}
"""In 5.0, an election in an unknown group and an election without change are both
"failed", 2011."""


def number(protocol_version: ProtocolVersion, failure: Failure) -> int:
    """Return the response code of a failure in this protocol version."""
    return int(_NUMBERS[protocol_version][failure])


_ALTER = {
    Refusal.NOT_MASTER: Code.CONTROLLER_INVALID_MASTER,
    Refusal.OTHER_EPOCH: Code.CONTROLLER_FENCED_MASTER_EPOCH,
    Refusal.OTHER_SET_EPOCH: Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
    Refusal.UNKNOWN_REPLICA: Code.CONTROLLER_INVALID_REPLICAS,
    Refusal.LEARNER: Code.CONTROLLER_INVALID_REPLICAS,
}


def alter_number(protocol_version: ProtocolVersion, refusal: Refusal) -> int:
    """Return the code of a refused change of the sync-state set."""
    code = _ALTER.get(refusal)
    return number(protocol_version, Failure.ALTER) if code is None else int(code)


_G1_FIELDS = {
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: ("masterAddress", "masterBrokerId"),
    RequestCode.CONTROLLER_ELECT_MASTER: ("brokerAddress", "brokerId"),
    RequestCode.CONTROLLER_REGISTER_BROKER: ("brokerAddress", "brokerId"),
    RequestCode.CONTROLLER_GET_REPLICA_INFO: ("brokerAddress", ""),
    RequestCode.CLEAN_BROKER_DATA: ("brokerAddress", "brokerControllerIdsToClean"),
}
"""By request: the field that only 5.0 sends, unless the second field is there as well."""


def protocol_version_of(request: Command) -> ProtocolVersion:
    """Return the protocol version of a request, by its fields or by its version number.

    5.1.0 may send a `brokerId` in heartbeats although it identifies replicas by address.
    """
    ext = request.ext or {}
    if request.code == RequestCode.BROKER_HEARTBEAT:
        old = "brokerId" not in ext or (
            request.language == "JAVA" and request.version < VERSION_5_1_1
        )
        return ProtocolVersion.G1 if old else ProtocolVersion.G2
    first, second = _G1_FIELDS.get(RequestCode(request.code), ("", ""))
    return ProtocolVersion.G1 if first in ext and second not in ext else ProtocolVersion.G2
