"""Options of a broker that checks signatures and policies, and its first users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochmq.auth.credentials import Credentials
from epochmq.client.aio import PullConsumer
from epochmq.model.message import StoredMessage
from epochmq.model.topic import MessageQueue

if TYPE_CHECKING:
    from .group import Group

ADMIN = Credentials("admin", "admin-secret-1")
INNER = Credentials("inner", "inner-secret-1")
ADMIN_ENV = {"EPOCHMQ_ACCESS_KEY": ADMIN.access_key, "EPOCHMQ_SECRET_KEY": ADMIN.secret_key}
_JAVA = "org.apache.rocketmq.auth"
SECURE: dict[str, str | int | bool] = {
    "authenticationEnabled": True,
    "authorizationEnabled": True,
    "authenticationProvider": f"{_JAVA}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        f"{_JAVA}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationProvider": f"{_JAVA}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{_JAVA}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
    "initAuthenticationUser": '{"username":"admin","password":"admin-secret-1"}',
    "innerClientAuthenticationCredentials": ('{"accessKey":"inner","secretKey":"inner-secret-1"}'),
}
"""RocketMQ's brokers need the class names; both kinds of brokers start with these options."""
SERVER = {
    key: SECURE[key]
    for key in (
        "authenticationEnabled",
        "initAuthenticationUser",
        "innerClientAuthenticationCredentials",
    )
}
"""The same of our name servers and controllers."""


def user_options(user: Credentials) -> dict[str, str]:
    """Return the options with which a driver of a client signs as `user`."""
    return {"user": user.access_key, "secret": user.secret_key}


async def stored_messages(group: Group, topic: str) -> list[StoredMessage]:
    """Return all messages of a topic with one queue, read by the first user."""
    found: list[StoredMessage] = []
    async with PullConsumer(group.namesrv_addr, "g", credentials=ADMIN) as consumer:
        queue, offset = MessageQueue(topic, group.broker_name, 0), 0
        end = await consumer.max_offset(queue)
        while offset < end:
            result = await consumer.pull(queue, offset)
            found += result.messages
            offset = result.next_offset
    return found
