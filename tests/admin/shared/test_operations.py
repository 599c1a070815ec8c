"""Operations of both command lines, on brokers that are recorded here."""

import asyncio
from typing import Any

import pytest

from epochmq.admin.shared.operations import delete_group, reset_to_time, route_parts
from epochmq.base.errors import Refused
from epochmq.client.aio.admin_progress import Moved
from epochmq.model.topic import BrokerData, MessageQueue, QueueData, TopicRouteData

QUEUE = MessageQueue("orders", "broker-a", 0)


class RecordedAdmin:
    """Notes each change; `refusal` is what brokers say to a reset."""

    def __init__(self, refusal: Refused | None = None) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.refusal = refusal

    async def masters(self, cluster: str | None) -> dict[str, str]:
        return {"broker-a": "a:1", "broker-b": "b:1"}

    async def delete_group(self, address: str, group: str, *, clean_offsets: bool) -> None:
        self.calls.append((address, group, clean_offsets))

    async def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.calls.append((topic, cluster))

    async def reset_offsets(self, *given: object, force: bool) -> dict[MessageQueue, int]:
        if self.refusal is not None:
            raise self.refusal
        return {QUEUE: 7}

    async def reset_offline(self, *given: object, force: bool) -> list[Moved]:
        self.calls.append((*given, force))
        return [Moved(QUEUE, 9, 3, 5, 5)]


def test_a_broker_without_queues_has_no_part_in_a_route() -> None:
    brokers = [BrokerData("c", name, {0: f"{name}:1"}) for name in ("b", "empty", "a")]
    queues = [QueueData("a", 1, 1, 6, 0), QueueData("b", 2, 2, 6, 0)]
    parts = route_parts(TopicRouteData(queue_datas=queues, broker_datas=brokers))
    assert [(broker.broker_name, data.read_queue_nums) for broker, data in parts] == [
        ("a", 1),
        ("b", 2),
    ]


def test_a_group_goes_from_all_masters_before_its_topics_go() -> None:
    admin: Any = RecordedAdmin()

    async def work() -> list[tuple[str, str]]:
        return [each async for each in delete_group(admin, "g", "c", clean_offsets=True)]

    assert asyncio.run(work()) == [("broker-a", "a:1"), ("broker-b", "b:1")]
    assert admin.calls == [
        ("a:1", "g", True),
        ("b:1", "g", True),
        ("%RETRY%g", "c"),
        ("%DLQ%g", "c"),
    ]


def test_offsets_are_reset_by_brokers_or_by_clients() -> None:
    by_brokers: Any = RecordedAdmin()
    assert asyncio.run(reset_to_time(by_brokers, "g", "orders", 5)) == {QUEUE: 7}
    assert by_brokers.calls == []
    by_client: Any = RecordedAdmin(Refused(206, "no member"))
    moved = asyncio.run(reset_to_time(by_client, "g", "orders", 5, force=False))
    assert moved == [Moved(QUEUE, 9, 3, 5, 5)]
    assert by_client.calls == [("g", "orders", 5, False)]
    refused: Any = RecordedAdmin(Refused(1, "a slave"))
    with pytest.raises(Refused, match="a slave"):
        asyncio.run(reset_to_time(refused, "g", "orders", 5))
