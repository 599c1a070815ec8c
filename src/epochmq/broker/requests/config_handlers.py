"""Broker configuration and maintenance: UPDATE_BROKER_CONFIG 25, GET_BROKER_CONFIG 26, and others.

Only options of the allow-list can be changed; secrets are never shown; a change is written to one
fixed file of the store (CVE-2023-33246, CVE-2023-37582).
"""

import logging
from collections.abc import Mapping
from functools import partial

import msgspec

from epochmq.base.errors import ConfigError, EnvironmentFault, Refused
from epochmq.base.java_properties import parse_properties
from epochmq.base.options import render_properties
from epochmq.broker.config.ignored_keys import IGNORED, NOT_SERVED
from epochmq.broker.config.options import BrokerOptions, change_options
from epochmq.broker.config.overrides import write_overrides
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, ok
from epochmq.broker.state.broker_stats import StatsSpan
from epochmq.model import names
from epochmq.runtime.logging_setup import set_level
from epochmq.runtime.server_log_options import LOG_LEVEL
from epochmq.wire.bodies.namesrv_bodies import TopicList
from epochmq.wire.bodies.runtime_bodies import BrokerStatsData, BrokerStatsItem
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import GetBrokerConfigResponseHeader, ViewBrokerStatsHeader
from epochmq.wire.session import Session

_TEXT_BYTES_MAX = 64 * 1024
NEVER = frozenset({"brokerConfigPath", "configBlackList", "rocketmqHome"})
"""Options without effect here that are used to attack RocketMQ: their change is refused."""

log = logging.getLogger(__name__)


def _never(key: str) -> bool:
    """Return whether a change of this option must be refused and not ignored.

    These are paths, access rights, and options of parts that EpochMQ does not have. The answer must
    not look as if the option had changed.
    """
    return key in NEVER or key in NOT_SERVED or (key in IGNORED and "path" in key.lower())


def handle_update(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Change options, all of them or none (UPDATE_BROKER_CONFIG 25).

    The change is saved before it takes effect, so that a restart cannot undo an answered change.
    Raises `Refused` 16 for an option that cannot be changed.
    """
    changes = _parse(command)
    if not changes:
        return Reply()
    problems = [f"option '{key}' cannot be changed by request" for key in changes if _never(key)]
    if problems:
        raise Refused(ResponseCode.NO_PERMISSION, "; ".join(problems))
    for key in [key for key in changes if key in IGNORED]:
        # Ignored as in the file: RocketMQ's tools set the same options on all brokers of a cluster.
        log.warning(
            "%(peer)s: option '%(key)s' has no effect in EpochMQ and is ignored",
            {"peer": session.peer, "key": key},
        )
        del changes[key]
    if not changes:
        return Reply()
    _changed(node, changes)

    def written(error: EnvironmentFault | None) -> None:
        reply = Reply()
        try:
            if error is not None:
                raise Refused(ResponseCode.SYSTEM_ERROR, f"the change cannot be saved: {error}")
            _adopt(node, _changed(node, changes), changes)  # apply to the options as they are now
            log.warning(
                "%(peer)s changed options: %(changes)s",
                {"peer": session.peer, "changes": ", ".join(sorted(changes))},
            )
        except Refused as refusal:
            reply = Reply(refusal.code, refusal.remark)
        session.answer(command, reply)

    node.ports.write_in_background(partial(write_overrides, node.disk, changes), written)
    return HELD


def _changed(node: BrokerContext, changes: Mapping[str, str]) -> BrokerOptions:
    try:
        return change_options(node.options, changes, node.clock.wall_ms())
    except ConfigError as error:
        raise Refused(ResponseCode.NO_PERMISSION, str(error)) from None


def _adopt(node: BrokerContext, options: BrokerOptions, changes: Mapping[str, str]) -> None:
    permission_changed = options.broker_permission != node.options.broker_permission
    if LOG_LEVEL in changes:
        set_level(options.log_level)
    node.adopt_options(options)
    if permission_changed:
        node.topics.register_all(node.clock.wall_ms())


def _parse(command: Command) -> dict[str, str]:
    if len(command.body) > _TEXT_BYTES_MAX:
        text = f"a change of options has at most {_TEXT_BYTES_MAX} bytes"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    try:
        return parse_properties(bytes(command.body).decode())
    except (ConfigError, UnicodeDecodeError) as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"not a properties text: {error}") from None


def handle_get(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the effective options as properties, without secrets (GET_BROKER_CONFIG 26)."""
    version = msgspec.json.encode(node.options.version).decode()
    body = render_properties([node.options]).encode()
    return Reply(header=GetBrokerConfigResponseHeader(version), body=body)


# Admin handlers ------------------------------------------------------------------------------
# Maintenance commands and single statistics: 305, 306, 315, 316, 329.


def handle_system_topics(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """Answer the names of the system topics (GET_SYSTEM_TOPIC_LIST_FROM_BROKER 305)."""
    return ok(TopicList(sorted(names.SYSTEM_TOPICS | node.topics.system)))


def handle_stats(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer one statistic per minute, hour and day (VIEW_BROKER_STATS_DATA 315); 1 if unknown."""
    header = decode_header(ViewBrokerStatsHeader, command.ext)
    item = node.stats.find(header.statsName, header.statsKey)
    if item is None:
        text = f"The stats <{header.statsName}> <{header.statsKey}> not exist"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    spans = (item.minute(), item.hour(), item.day())
    return ok(BrokerStatsData(*map(_stats_item, spans)))


def _stats_item(span: StatsSpan) -> BrokerStatsItem:
    return BrokerStatsItem(span.sum, span.tps, span.avgpt)


def handle_clean_queues(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Do nothing: queue files follow the log by themselves (CLEAN_EXPIRED_CONSUMEQUEUE 306)."""
    return Reply()


def handle_clean_log(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Delete expired log files now and not at deleteWhen (DELETE_EXPIRED_COMMITLOG 329)."""
    node.store.retention.by_hand = True
    return Reply()


def handle_clean_topics(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Delete the queues of topics without configuration (CLEAN_UNUSED_TOPIC 316)."""
    node.store.clean_unused(set(node.topics.table))
    return Reply()


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.UPDATE_BROKER_CONFIG: handle_update,
    RequestCode.GET_BROKER_CONFIG: handle_get,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: handle_system_topics,
    RequestCode.VIEW_BROKER_STATS_DATA: handle_stats,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: handle_clean_queues,
    RequestCode.DELETE_EXPIRED_COMMITLOG: handle_clean_log,
    RequestCode.CLEAN_UNUSED_TOPIC: handle_clean_topics,
}
