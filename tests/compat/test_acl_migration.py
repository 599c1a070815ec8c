"""A broker on the configuration of RocketMQ with ACL 1.0: its accounts become users."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochmq.auth.credentials import Credentials
from epochmq.base.errors import Refused
from epochmq.client.aio import Admin, Producer, PullConsumer
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.wire.codes import ResponseCode

from .peers.cluster import properties
from .peers.epochmq import EpochCluster
from .peers.secure import ADMIN, SECURE

WRITER = Credentials("orders-writer", "writer-secret")
READER = Credentials("orders-reader", "reader-secret")
OPERATOR = Credentials("operator", "operator-secret")
FILE = f"""
accounts:
  - accessKey: {WRITER.access_key}
    secretKey: {WRITER.secret_key}
    defaultTopicPerm: SUB
    topicPerms: ["orders=PUB"]
  - accessKey: {READER.access_key}
    secretKey: {READER.secret_key}
    topicPerms: ["orders=SUB"]
    groupPerms: ["billing=SUB"]
  - accessKey: {OPERATOR.access_key}
    secretKey: {OPERATOR.secret_key}
    admin: true
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EpochCluster]:
    conf = tmp_path / "rocketmq" / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(FILE)
    config = {**SECURE, "migrateAuthFromV1Enabled": True, "plainAclPath": str(conf)}
    with EpochCluster(tmp_path / "cluster", broker_config=config) as running:
        yield running


async def may(send: bool, namesrv: str, user: Credentials) -> bool:
    """Return whether `user` may send to, or else read from, the topic `orders`."""
    try:
        if send:
            async with Producer(namesrv, credentials=user) as producer:
                await producer.send(Message("orders", b"x"))
        else:
            async with PullConsumer(namesrv, "billing", credentials=user) as consumer:
                (queue, *_) = await consumer.queues("orders")
                await consumer.pull(MessageQueue("orders", queue.broker_name, 0), 0)
                await consumer.max_offset(queue)
    except Refused as error:
        if error.code != ResponseCode.NO_PERMISSION:
            raise
        return False
    return True


async def test_accounts_of_acl_1_become_users_once(cluster: EpochCluster) -> None:
    where = cluster.namesrv_addr
    async with Admin(where, credentials=OPERATOR) as admin:
        await admin.create_topic(TopicConfig("orders", 1, 1))
        master = next(iter((await admin.masters()).values()))
        names = {user.username for user in await admin.users(master)}
        assert names == {ADMIN.access_key, *(u.access_key for u in (WRITER, READER, OPERATOR))}
    assert await may(True, where, WRITER)
    assert not await may(False, where, WRITER)
    assert await may(False, where, READER)
    assert not await may(True, where, READER)
    async with Admin(where, credentials=ADMIN) as admin:
        await admin.delete_user(master, READER.access_key)
    await asyncio.to_thread(cluster.restart_broker)
    assert not await may(False, where, READER)
    assert await may(True, where, WRITER)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "cannot be read"),
        ("accounts: [{accessKey: alice, secretKey: hunter2, amin: true}]", "unknown key 'amin'"),
        ("accounts: [{accessKey: alice, secretKey: hunter2", "no YAML"),
    ],
)
def test_a_file_that_cannot_be_used_stops_the_start(
    tmp_path: Path, text: str | None, problem: str
) -> None:
    file = tmp_path / "plain_acl.yml"
    if text is not None:
        file.write_text(text)
    config = {
        **SECURE,
        "migrateAuthFromV1Enabled": True,
        "plainAclPath": str(file),
        "storePathRootDir": str(tmp_path / "store"),
        "listenPort": 0,
    }
    (tmp_path / "broker.conf").write_text(properties(config))
    ran = subprocess.run(
        [sys.executable, "-m", "epochmq", "broker", "-c", str(tmp_path / "broker.conf")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2
    assert problem in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "hunter2" not in ran.stderr + ran.stdout
