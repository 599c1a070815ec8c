"""Reading and changing the configuration: 25 and 26.

Only what the allow-list marks may change; secrets are never shown; the change is written to one
fixed file of the store (CVE-2023-33246, CVE-2023-37582).
"""

import logging
from collections.abc import Mapping
from functools import partial

import msgspec

from epochmq.base.errors import ConfigError, EnvironmentFault, Refused
from epochmq.base.java_properties import parse_properties
from epochmq.base.options import render_properties
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.handlers.common import NodeHandler
from epochmq.broker.ignored_keys import IGNORED, NOT_SERVED
from epochmq.broker.options import BrokerOptions, change_options
from epochmq.broker.overrides import write_overrides
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.headers.admin_headers import GetBrokerConfigResponseHeader
from epochmq.wire.session import Session

_TEXT_BYTES_MAX = 64 * 1024
NEVER = frozenset({"brokerConfigPath", "configBlackList", "rocketmqHome"})
"""Without effect here, but an attack on RocketMQ: whoever sends them is refused."""

log = logging.getLogger(__name__)


def _never(key: str) -> bool:
    """Whether no answer to a request may look as if this had changed: paths, access, parts that
    are not served."""
    return key in NEVER or key in NOT_SERVED or (key in IGNORED and "path" in key.lower())


def handle_update(node: BrokerNode, command: Command, session: Session, now: int) -> Reply | Held:
    """UPDATE_BROKER_CONFIG 25: all of the changes or none; 16 for what may not change.

    Written before it takes effect, so that a restart cannot take back what was answered.
    """
    changes = _parse(command)
    if not changes:
        return Reply()
    problems = [f"option '{key}' cannot be changed by request" for key in changes if _never(key)]
    if problems:
        raise Refused(ResponseCode.NO_PERMISSION, "; ".join(problems))
    for key in [key for key in changes if key in IGNORED]:
        # As in the file: RocketMQ's tools set them on all brokers of a cluster alike.
        log.warning("%s: option '%s' has no effect in EpochMQ and is ignored", session.peer, key)
        del changes[key]
    if not changes:
        return Reply()
    _changed(node, changes)

    def written(error: EnvironmentFault | None) -> None:
        reply = Reply()
        try:
            if error is not None:
                raise Refused(ResponseCode.SYSTEM_ERROR, f"the change cannot be saved: {error}")
            _adopt(node, _changed(node, changes))  # others may have changed meanwhile
            log.warning("%s changed options: %s", session.peer, ", ".join(sorted(changes)))
        except Refused as refusal:
            reply = Reply(refusal.code, refusal.remark)
        session.answer(command, reply)

    node.write_in_background(partial(write_overrides, node.disk, changes), written)
    return HELD


def _changed(node: BrokerNode, changes: Mapping[str, str]) -> BrokerOptions:
    try:
        return change_options(node.options, changes, node.clock.wall_ms())
    except ConfigError as error:
        raise Refused(ResponseCode.NO_PERMISSION, str(error)) from None


def _adopt(node: BrokerNode, options: BrokerOptions) -> None:
    permission_changed = options.broker_permission != node.options.broker_permission
    node.adopt_options(options)
    if permission_changed:
        # It goes into every topic's permission at the name servers.
        node.topics.step_version(node.clock.wall_ms())


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
