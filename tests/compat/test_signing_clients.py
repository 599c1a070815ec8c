"""Each client with credentials: right and wrong ones, with and without the permission.

RocketMQ's broker has to decide the same with the same options.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.tiers import choose

from epochmq.auth.credentials import Credentials
from epochmq.client.aio import Admin
from epochmq.client.aio.admin_auth import policy_of
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.auth_bodies import UserInfo

from .clients import ALL, OURS, Client
from .conftest import had
from .drivers.driver import Driver, ScenarioError
from .peers.cluster import Cluster
from .peers.epochmq import EpochCluster
from .peers.java import JavaCluster
from .peers.secure import ADMIN, SECURE, user_options

ALICE = Credentials("alice", "alice-secret-1")
BOB = Credentials("bob", "bob-secret-1")
CAROL = Credentials("carol", "carol-secret-1")
TOPIC, OTHER, GROUP = "signed", "other", "signers"
RULES = {
    f"Topic:{TOPIC}-*": ["Pub", "Sub", "Get"],
    f"Group:{GROUP}-*": ["Sub", "Get"],
}
COUNT = 5
CLIENTS = (*ALL, OURS)
QUICK = {"timeout_ms": 3_000}


@pytest.fixture(
    scope="module",
    params=choose([EpochCluster], [EpochCluster, JavaCluster]),
    ids=lambda kind: kind.kind,
)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with request.param(broker_config=SECURE) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def users(cluster: Cluster) -> None:
    """Create alice, who may use the topics of the clients, bob, who may nothing, and carol, who may
    do what alice may, but is disabled.
    """

    async def create() -> None:
        broker = cluster.broker_addr
        async with Admin(cluster.namesrv_addr, credentials=ADMIN) as admin:
            for topic in (OTHER, *(f"{TOPIC}-{each.name}" for each in CLIENTS)):
                await admin.create_topic(TopicConfig(topic, 1, 1))
            for user in (ALICE, BOB, CAROL):
                info = UserInfo(username=user.access_key, password=user.secret_key)
                await admin.create_user(broker, info)
            for resource, actions in RULES.items():
                for name in ("alice", "carol"):
                    await admin.put_acl(
                        broker, policy_of(f"User:{name}", [resource], actions, "Allow")
                    )
            await admin.update_user(broker, UserInfo(username="carol", user_status="disable"))

    asyncio.run(create())


@pytest.fixture(scope="module", params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


@pytest.fixture(scope="module")
def driver(client: Client) -> Iterator[Driver]:
    with had(client.build) as running:
        yield running


def test_a_user_with_permission_sends_and_consumes(
    cluster: Cluster, client: Client, driver: Driver
) -> None:
    where, group = cluster.namesrv_addr, f"{GROUP}-{client.name}"
    topic = f"{TOPIC}-{client.name}"
    options = user_options(ALICE)
    with client.build() as consumer:
        # The C++ client begins at the end of a queue, so that the consumer is there before.
        consumer.start("push", where, topic, group=group, count=COUNT, timeout_ms=40_000, **options)
        consumer.wait_event(lambda event: event["event"] == "started")
        sent = driver.run("send", where, topic, count=COUNT, prefix=client.name, **options)
        assert [event["status"] for event in sent.sent] == ["SEND_OK"] * COUNT
        received = consumer.finish(60)
    assert len(received.received) == COUNT


@pytest.mark.parametrize(
    ("user", "topic"),
    [
        (ALICE, OTHER),
        (BOB, ""),
        (CAROL, ""),
        (Credentials("alice", "wrong-secret-1"), ""),
        (Credentials("nobody", "wrong-secret-1"), ""),
        (None, ""),
    ],
    ids=[
        "another topic",
        "no policy",
        "disabled",
        "wrong password",
        "unknown user",
        "no signature",
    ],
)
def test_everyone_else_is_refused(
    cluster: Cluster, client: Client, driver: Driver, user: Credentials | None, topic: str
) -> None:
    topic = topic or f"{TOPIC}-{client.name}"
    options = {} if user is None else user_options(user)
    with pytest.raises(ScenarioError):
        driver.run("send", cluster.namesrv_addr, topic, count=1, **QUICK, **options)
