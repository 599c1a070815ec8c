"""Who is connected."""

import asyncio

from tests.admin.world import ONLINE, PRODUCERS, TOPIC, World

from epochmq.client.aio import Producer


def test_members(world: World) -> None:
    with world.member() as client_id:
        lines = world.mqadmin("consumerConnection", "-g", ONLINE).lines
        same = world.mqadmin("consumerConnection", "-g", ONLINE, "-b", world.broker).lines
        first = world.mqadmin("consumerConnection", "-g", ONLINE, "-o", "json").rows[0]
    assert lines == same
    assert (
        lines[0]
        == "#ClientId                            #ClientAddr            #Language  #Version"
    )
    name, address, language, version = lines[1].split()
    assert (name, language, version) == (client_id, "PYTHON", "V5_0_0")
    assert lines[2:5] == ["", "Below is subscription:", "#Topic               #SubExpression"]
    assert f"{TOPIC:<20} odd" in lines
    assert lines[-4:] == [
        "",
        "ConsumeType: CONSUME_PASSIVELY",
        "MessageModel: CLUSTERING",
        "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET",
    ]
    assert (first["client"], first["address"]) == (client_id, address)


def test_nobody(world: World) -> None:
    assert world.mqadmin("consumerConnection", "-g", "nosuch").code == 5


def test_all_producers_of_a_broker(world: World) -> None:
    async def with_producer() -> list[str]:
        async with Producer(world.cluster.namesrv_addr, PRODUCERS) as producer:
            await producer.queues(TOPIC)
            ran = await asyncio.to_thread(world.mqadmin, "producer", "-b", world.broker)
            assert f"clientId={producer.instance.client_id}," in ran.out
            return ran.lines

    lines = asyncio.run(with_producer())
    assert any(
        line.startswith(f"producer group ({PRODUCERS}) instance : clientId=") for line in lines
    )


def test_producers(world: World) -> None:
    async def with_producer() -> str:
        async with Producer(world.cluster.namesrv_addr, PRODUCERS) as producer:
            await producer.queues(TOPIC)
            args = ("producerConnection", "-g", PRODUCERS, "-t", TOPIC)
            ran = await asyncio.to_thread(world.mqadmin, *args)
            assert ran.out.startswith(f"0001  {producer.instance.client_id:<32} 127.0.0.1:")
            return ran.out

    assert asyncio.run(with_producer()).rstrip().endswith("PYTHON   V5_0_0")
