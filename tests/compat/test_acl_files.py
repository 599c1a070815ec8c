"""RocketMQ's clients with accounts of plain_acl.yml (ACL 1.0, `aclEnable`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.tiers import choose

from epochmq.auth.credentials import Credentials
from epochmq.client.aio import Admin
from epochmq.model.topic import TopicConfig

from .clients import ALL, JAVA_4, OURS, Client
from .conftest import had
from .drivers.driver import Driver, ScenarioError
from .peers.cluster import Cluster
from .peers.epochmq import EpochCluster
from .peers.secure import user_options

COUNT = 5
OPERATOR = Credentials("operator", "operator-secret")
READER = Credentials("reader1", "reader1-secret")
WRITER = Credentials("writer1", "writer1-secret")
FILE = """
globalWhiteRemoteAddresses: []
accounts:
- accessKey: operator
  secretKey: operator-secret
  admin: true
- accessKey: writer1
  secretKey: writer1-secret
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms: [orders=PUB]
- accessKey: reader1
  secretKey: reader1-secret
  topicPerms: [orders=SUB]
  groupPerms: [readers=SUB]
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    file = tmp_path_factory.mktemp("acl") / "plain_acl.yml"
    file.write_text(FILE)
    with EpochCluster(broker_config={"aclEnable": True, "plainAclPath": str(file)}) as running:
        asyncio.run(create(running))
        yield running


async def create(cluster: Cluster) -> None:
    async with Admin(cluster.namesrv_addr, credentials=OPERATOR) as admin:
        for topic in ("orders", "secrets"):
            await admin.create_topic(TopicConfig(topic, 1, 1))


@pytest.fixture(scope="module", params=choose([JAVA_4, OURS], [*ALL, OURS]), ids=lambda it: it.name)
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


@pytest.fixture(scope="module")
def driver(client: Client) -> Iterator[Driver]:
    with had(client.build) as running:
        yield running


def test_each_account_does_what_the_file_allows(
    cluster: Cluster, client: Client, driver: Driver
) -> None:
    where = cluster.namesrv_addr
    with client.build() as consumer:
        consumer.start(
            "push", where, "orders", group="readers", count=COUNT, timeout_ms=40_000,
            **user_options(READER),
        )  # fmt: skip
        consumer.wait_event(lambda event: event["event"] == "started")
        sent = driver.run("send", where, "orders", count=COUNT, prefix="a", **user_options(WRITER))
        assert [event["status"] for event in sent.sent] == ["SEND_OK"] * COUNT
        assert len(consumer.finish(60).received) == COUNT


@pytest.mark.parametrize(
    ("user", "topic"),
    [
        (WRITER, "secrets"),
        (READER, "orders"),
        (Credentials("writer1", "wrong-secret"), "orders"),
        (Credentials("nobody1", "wrong-secret"), "orders"),
    ],
    ids=["another topic", "only reads", "wrong password", "unknown account"],
)
def test_everything_else_is_refused(
    cluster: Cluster, driver: Driver, user: Credentials, topic: str
) -> None:
    with pytest.raises(ScenarioError):
        driver.run(
            "send", cluster.namesrv_addr, topic, count=1, timeout_ms=3_000, **user_options(user)
        )
