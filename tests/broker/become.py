"""Brings a broker into a role along the legal changes."""

from collections import deque

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.serving.roles import TRANSITIONS, Role


def become(node: BrokerContext, role: Role) -> None:
    """Change the role of `node` to `role`, over other roles where there is no direct change."""
    ways = deque([[node.serving.role]])
    while ways:
        way = ways.popleft()
        for following in sorted(TRANSITIONS[way[-1]], key=lambda one: one.value):
            if following is role:
                for step in (*way[1:], role):
                    node.serving.change_role(step)
                return
            if following not in way:
                ways.append([*way, following])
    raise AssertionError(f"no legal way from {node.serving.role} to {role}")
