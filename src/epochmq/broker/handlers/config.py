"""Reading and changing the configuration: 25 and 26 (facts/security.md).

Only what the allow-list marks may change; secrets are never shown; the change is written to one
fixed file of the store (CVE-2023-33246, CVE-2023-37582).
"""

import logging

import msgspec

from epochmq.base.errors import ConfigError, Refused
from epochmq.base.java_properties import parse_properties
from epochmq.base.options import render_properties
from epochmq.broker.handlers.common import NodeHandler
from epochmq.broker.node import BrokerNode
from epochmq.broker.options import change_options
from epochmq.broker.overrides import write_overrides
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.headers.admin import GetBrokerConfigResponseHeader
from epochmq.wire.session import Session

_TEXT_BYTES_MAX = 64 * 1024

log = logging.getLogger(__name__)


def handle_update(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """UPDATE_BROKER_CONFIG 25: all of the changes or none; 16 for what may not change.

    Written before it takes effect, so that a restart cannot take back what was answered.
    """
    changes = _parse(command)
    if not changes:
        return Reply()
    wall = node.clock.wall_ms()
    try:
        options = change_options(node.options, changes, wall)
    except ConfigError as error:
        raise Refused(ResponseCode.NO_PERMISSION, str(error)) from None
    write_overrides(node.disk, changes)
    log.warning("%s changed options: %s", session.peer, ", ".join(sorted(changes)))
    permission_changed = options.broker_permission != node.options.broker_permission
    node.adopt_options(options)
    if permission_changed:
        # It goes into every topic's permission at the name servers.
        node.topics.step_version(wall)
    return Reply()


def _parse(command: Command) -> dict[str, str]:
    if len(command.body) > _TEXT_BYTES_MAX:
        text = f"a change of options has at most {_TEXT_BYTES_MAX} bytes"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    try:
        return parse_properties(bytes(command.body).decode())
    except (ConfigError, UnicodeDecodeError) as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"not a properties text: {error}") from None


def handle_get(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """GET_BROKER_CONFIG 26: the effective options as properties, secrets hidden."""
    version = msgspec.json.encode(node.options.version).decode()
    body = render_properties([node.options]).encode()
    return Reply(header=GetBrokerConfigResponseHeader(version), body=body)


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.UPDATE_BROKER_CONFIG: handle_update,
    RequestCode.GET_BROKER_CONFIG: handle_get,
}
