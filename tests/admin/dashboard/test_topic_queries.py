"""Topics of a real broker, as the pages show them."""

from collections.abc import AsyncIterator

import pytest
from tests.admin.world import OFFLINE, TOPIC, World

from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.paging import PAGE_ROWS, page_of
from epochmq.admin.dashboard.topic_queries import topic_detail, topic_list
from epochmq.base.errors import NotFound


@pytest.fixture
async def client(world: World) -> AsyncIterator[ClusterClient]:
    opened = ClusterClient("test", world.cluster.namesrv_addr, None)
    yield opened
    await opened.close()


def names(found: dict[str, object]) -> list[str]:
    rows = found["rows"]
    assert isinstance(rows, list)
    return [row["topic"] for row in rows]


async def test_topics_by_a_part_of_their_name(client: ClusterClient) -> None:
    found = await topic_list(client, "ORD", 0, with_system=False)
    rows = found["rows"]
    assert isinstance(rows, list)
    row = next(row for row in rows if row["topic"] == TOPIC)
    assert (row["queues"], row["messages"] >= 6, row["problem"]) == (2, True, None)
    assert names(await topic_list(client, "never-seen", 0, with_system=False)) == []
    assert names(await topic_list(client, "", 99, with_system=False)) == []


async def test_internal_topics_are_shown_on_request(client: ClusterClient) -> None:
    plain = names(await topic_list(client, "", 0, with_system=False))
    everything = names(await topic_list(client, "", 0, with_system=True))
    assert set(plain) < set(everything)
    assert not any(name.startswith(("%", "rmq_sys_")) for name in plain)


async def test_a_topic(client: ClusterClient) -> None:
    found = await topic_detail(client, TOPIC)
    queues, groups, configs = found["queues"], found["groups"], found["configs"]
    assert isinstance(queues, list)
    assert isinstance(groups, list)
    assert isinstance(configs, list)
    assert [(q["queue"], q["min_offset"], q["max_offset"] >= 3) for q in queues] == [
        (0, 0, True),
        (1, 0, True),
    ]
    assert OFFLINE in groups
    assert configs[0]["rights"] == "read and write"


async def test_a_mistyped_topic_is_told(client: ClusterClient) -> None:
    with pytest.raises(NotFound, match="did you mean 'orders'"):
        await topic_detail(client, "ordrs")


def test_pages_of_names() -> None:
    many = [f"t{number:03}" for number in range(120)]
    assert page_of(many, "", 0) == (many[:PAGE_ROWS], 120)
    assert page_of(many, "", 2) == (many[100:], 120)
    assert page_of(many, " T00 ", 0) == (many[:10], 10)
    assert page_of(many, "", 10**12) == ([], 120)
