"""Administration of consumer groups (subscription groups): 200, 201, 207, 225, 352, 353."""

import msgspec

from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, known_group, ok, watched_rows
from epochmq.broker.state.groups import check_group_config
from epochmq.model import names
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.topic import PERM_READ
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.group_bodies import SubscriptionGroupList
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.group_headers import (
    DeleteGroupHeader,
    GetGroupConfigHeader,
    GroupForbiddenHeader,
)
from epochmq.wire.session import Session


def handle_update(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Create or change a group (UPDATE_AND_CREATE_SUBSCRIPTIONGROUP 200)."""
    _put(node, [decode_body(SubscriptionGroupConfig, command.body)])
    return Reply()


def handle_update_list(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Create or change groups (UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST 225, from 5.3 on).

    If one is invalid, none is changed.
    """
    _put(node, decode_body(SubscriptionGroupList, command.body).group_config_list)
    return Reply()


def _put(node: BrokerContext, groups: list[SubscriptionGroupConfig]) -> None:
    for config in groups:
        check_group_config(config)
        if config.attributes:
            # RocketMQ has no group attributes either, and refuses all of them.
            text = f"unsupported key: {next(iter(config.attributes))[:64]}"
            raise Refused(ResponseCode.SYSTEM_ERROR, text)
    for config in groups:
        node.groups.put(config, node.clock.wall_ms())


def handle_get_all(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Answer all groups (GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201); a replica may wait for changes."""
    return watched_rows(node, command, session, now, node.groups)


def handle_get(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer one group (GET_SUBSCRIPTIONGROUP_CONFIG 352); creates it when allowed, else 26."""
    return ok(known_group(node, decode_header(GetGroupConfigHeader, command.ext).group))


def handle_delete(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Delete a group and, if asked, its offsets (DELETE_SUBSCRIPTIONGROUP 207)."""
    header = decode_header(DeleteGroupHeader, command.ext)
    wall = node.clock.wall_ms()
    node.groups.delete(header.groupName, wall)
    if header.cleans_offset:
        node.offsets.drop_group(header.groupName, wall)
        node.pop.drop_group(header.groupName)
    node.stats.forget(header.groupName)
    node.pop.driver.counts.forget(header.groupName)
    return Reply()


def handle_forbidden(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Set and answer whether a group may read a topic (UPDATE_AND_GET_GROUP_FORBIDDEN 353)."""
    header = decode_header(GroupForbiddenHeader, command.ext)
    names.check_group(header.group)
    names.check_topic(header.topic)
    bits = node.groups.forbidden(header.group, header.topic)
    if header.readable is not None:
        bits = bits & ~PERM_READ if header.readable else bits | PERM_READ
        node.groups.set_forbidden(header.group, header.topic, bits, node.clock.wall_ms())
    readable = not bits & PERM_READ
    answer = {"group": header.group, "topic": header.topic, "readable": readable}
    return Reply(body=msgspec.json.encode(answer))


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: handle_update,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: handle_update_list,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: handle_get_all,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: handle_delete,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: handle_get,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: handle_forbidden,
}
