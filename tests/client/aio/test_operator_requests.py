"""What an operator asks of a running consumer, through a real broker."""

import asyncio

from tests.client.aio.collecting import Collector
from tests.client.aio.test_push_consumer import send
from tests.compat.peers.epochmq import EpochCluster

from epochmq.client.aio import Admin, PushConsumer


async def test_running_info_direct_consumption_and_reset(
    cluster: EpochCluster, namesrv: str, topic: str
) -> None:
    await send(namesrv, topic, 4)
    group = f"g_{topic}"
    collector = Collector(4)
    async with PushConsumer(namesrv, group, start="first") as consumer, Admin(namesrv) as admin:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        first = (await collector.wait())[0]
        client = consumer.instance.client_id
        info = await admin.running_info(group, client)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert {data.topic for data in info.subscription_set} == {topic, f"%RETRY%{group}"}
        result = await admin.consume_directly(
            cluster.broker_addr, group, client, topic, first.offset_msg_id
        )
        assert result.consume_result == "CR_SUCCESS"
        assert len(collector.accepted) == 5
        await admin.reset_offsets(group, topic, 0)
        async with asyncio.timeout(20):
            while len(collector.accepted) < 9:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
