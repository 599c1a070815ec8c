"""Requests about users and policies: what is sent, and that the client's credentials are used."""

from collections.abc import AsyncIterator

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.secure import ADMIN, SECURE

from epochmq.auth.credentials import Credentials
from epochmq.base.errors import Refused
from epochmq.client.aio import Admin, Producer
from epochmq.client.aio.admin_auth import policy_of
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.auth_bodies import UserInfo

ALICE = Credentials("alice", "alice-secret")


@pytest.fixture
async def cluster() -> AsyncIterator[EpochCluster]:
    with EpochCluster(broker_config=SECURE) as running:
        yield running


async def test_users_and_policies(cluster: EpochCluster) -> None:
    where, broker = cluster.namesrv_addr, cluster.broker_addr
    async with Admin(where, credentials=ADMIN) as admin:
        await admin.create_topic(TopicConfig("t", 1, 1))
        await admin.create_user(broker, UserInfo(username="alice", password="alice-secret"))
        found = await admin.user(broker, "alice")
        assert found is not None
        assert (found.user_type, found.password) == ("Normal", "******")
        assert await admin.user(broker, "nobody") is None
        assert [user.username for user in await admin.users(broker)] == ["admin", "alice"]
        async with Producer(where, credentials=ALICE) as producer:
            with pytest.raises(Refused, match="no permission for Pub on Topic:t") as refused:
                await producer.send(Message("t", b"x"))
            assert refused.value.code == 16
            await admin.put_acl(broker, policy_of("User:alice", ["Topic:t"], ["Pub"], "Allow"))
            await producer.send(Message("t", b"x"))
            await producer.send_batch([Message("t", b"y"), Message("t", b"z")])
            assert await admin.acl(broker, "User:nobody") is None
            assert [acl.subject for acl in await admin.acls(broker)] == ["User:alice"]
            await admin.update_user(broker, UserInfo(username="alice", user_status="disable"))
            with pytest.raises(Refused, match="the user or the signature is wrong"):
                await producer.send(Message("t", b"x"))
            await admin.update_user(broker, UserInfo(username="alice", user_status="enable"))
            await admin.delete_acl(broker, "User:alice", "Topic:t")
            with pytest.raises(Refused, match="no permission"):
                await producer.send(Message("t", b"x"))
        await admin.delete_user(broker, "alice")
    with pytest.raises(Refused, match="wrong"):
        async with Admin(where, credentials=ALICE) as stranger:
            await stranger.users(broker)
