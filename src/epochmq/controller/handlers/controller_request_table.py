"""The request handlers of the controller by code, and whether only the leader answers."""

from epochmq.controller.controller_core import ControllerCore, Handler
from epochmq.controller.handlers import (
    broker_heartbeat,
    clean,
    controller_config,
    elect_handlers,
    register_broker,
    replica_info,
    sync_state,
)
from epochmq.controller.protocol_version import ProtocolVersion, protocol_version_of
from epochmq.controller.steps import ControllerCall, Steps
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Reply


def handle_register(core: ControllerCore, call: ControllerCall) -> Reply | Steps:
    """Handle CONTROLLER_REGISTER_BROKER 1003; its fields show the protocol version."""
    if protocol_version_of(call.request) is ProtocolVersion.G1:
        return register_broker.handle_register_g1(core, call)
    return register_broker.handle_register(core, call)


HANDLERS: dict[int, tuple[Handler, bool]] = {
    RequestCode.BROKER_HEARTBEAT: (broker_heartbeat.handle_heartbeat, False),
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: (sync_state.handle_alter, True),
    RequestCode.CONTROLLER_ELECT_MASTER: (elect_handlers.handle_elect, True),
    RequestCode.CONTROLLER_REGISTER_BROKER: (handle_register, True),
    RequestCode.CONTROLLER_GET_REPLICA_INFO: (replica_info.handle_replica_info, True),
    RequestCode.CONTROLLER_GET_METADATA_INFO: (replica_info.handle_metadata, False),
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: (sync_state.handle_sync_state, True),
    RequestCode.UPDATE_CONTROLLER_CONFIG: (controller_config.handle_update_config, False),
    RequestCode.GET_CONTROLLER_CONFIG: (controller_config.handle_get_config, False),
    RequestCode.CLEAN_BROKER_DATA: (clean.handle_clean, True),
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: (register_broker.handle_next_id, True),
    RequestCode.CONTROLLER_APPLY_BROKER_ID: (register_broker.handle_apply_id, True),
    RequestCode.CONTROLLER_GET_TIMELINE: (controller_config.handle_timeline, True),
}
"""Keys are request codes; True means that only the leader answers."""

FREE = frozenset(
    {
        RequestCode.CONTROLLER_GET_METADATA_INFO,
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
        RequestCode.CONTROLLER_GET_TIMELINE,
    }
)
"""Requests that need no signature with authenticationEnabled: who leads, who is master, and what
happened. A controller does not know the users of the brokers."""
CHANGES = frozenset(
    {
        RequestCode.CONTROLLER_ELECT_MASTER,
        RequestCode.CLEAN_BROKER_DATA,
        RequestCode.UPDATE_CONTROLLER_CONFIG,
    }
)
"""Changes by administrators, for the audit log; brokers ask for elections too."""
