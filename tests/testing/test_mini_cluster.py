"""The test kit's cluster, used as the tests of an application would use it."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from epochmq import Message, MessageQueue, PushConsumer, StoredMessage, errors
from epochmq import Producer as AsyncProducer
from epochmq.client.sync import Producer
from epochmq.testing.mini_cluster import MiniCluster, broker_context

TOPIC = "orders"
HOUR_S = 3_600


def send(cluster: MiniCluster, *bodies: bytes, topic: str = TOPIC, **properties: str) -> None:
    with Producer(cluster.namesrv, "P") as producer:
        for body in bodies:
            message = Message(topic, body, properties=dict(properties))
            producer.send(message, timeout_ms=10_000)


def bodies(cluster: MiniCluster, topic: str = TOPIC) -> list[bytes]:
    return sorted(message.body for message in cluster.messages(topic))


def until(holds: object, timeout: float = 10) -> None:
    """Wait until `holds()` is true."""
    end = time.monotonic() + timeout
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end, "not in time"
        time.sleep(0.01)


# One broker ----------------------------------------------------------------------------------


def test_messages_are_stored_and_read() -> None:
    with MiniCluster() as cluster:
        assert cluster.servers == ["namesrv", "broker-1"]
        assert cluster.messages(TOPIC) == []
        send(cluster, b"a", b"b")
        assert bodies(cluster) == [b"a", b"b"]
        assert cluster.master == "broker-1"


def test_a_cluster_starts_and_stops_many_times_and_leaves_nothing() -> None:
    began = time.monotonic()
    for _ in range(5):
        cluster = MiniCluster()
        cluster.start()
        directory = cluster.directory
        assert directory.is_dir()
        cluster.stop()
        cluster.stop()
        assert not directory.exists()
    assert time.monotonic() - began < 30


def test_a_given_directory_stays(tmp_path: Path) -> None:
    with MiniCluster(directory=tmp_path) as cluster:
        send(cluster, b"a")
    with MiniCluster(directory=tmp_path) as cluster:
        assert bodies(cluster) == [b"a"]


def test_what_was_answered_outlives_a_kill() -> None:
    with MiniCluster() as cluster:
        send(cluster, *[b"%d" % n for n in range(50)])
        name = cluster.kill()
        assert name == "broker-1"
        assert cluster.servers == ["namesrv"]
        assert cluster.master is None
        with pytest.raises(errors.NotFound, match="no master runs; running: namesrv"):
            cluster.kill()
        abort = cluster.directory / name / "abort"
        assert abort.exists(), "a killed broker did not stop cleanly"
        cluster.start_server(name)
        assert len(bodies(cluster)) == 50


def test_a_clean_stop_leaves_no_mark_of_a_crash() -> None:
    with MiniCluster() as cluster:
        send(cluster, b"a")
        name = cluster.stop_server()
        assert not (cluster.directory / name / "abort").exists()
        cluster.start_server(name)
        assert bodies(cluster) == [b"a"]


def test_delayed_messages_arrive_when_the_clock_advances() -> None:
    with MiniCluster() as cluster:
        send(cluster, b"level", DELAY="18")  # 2 h
        send(cluster, b"timed", TIMER_DELAY_SEC=str(HOUR_S))
        assert bodies(cluster) == []
        cluster.advance_clock(HOUR_S + 1)
        until(lambda: bodies(cluster) == [b"timed"])
        cluster.advance_clock(HOUR_S + 1)
        until(lambda: bodies(cluster) == [b"level", b"timed"])


def test_options_topics_and_groups() -> None:
    with MiniCluster(options={"autoCreateTopicEnable": "false"}) as cluster:
        with pytest.raises(errors.NotFound) as caught:
            send(cluster, b"x")
        assert not caught.value.retriable
        assert caught.value.outcome is errors.Outcome.NOT_DONE
        cluster.create_topic(TOPIC, queues=2, type="FIFO")
        cluster.create_group("G", retries=3)
        config = broker_context(cluster).topics.get(TOPIC)
        assert config is not None
        assert (config.write_queue_nums, config.attributes["message.type"]) == (2, "FIFO")
        assert broker_context(cluster).groups.table["G"].retry_max_times == 3
        send(cluster, b"a")


def test_retries_and_dead_letters_can_be_looked_at() -> None:
    async def consume(cluster: MiniCluster) -> None:
        seen: list[int] = []
        async with PushConsumer(
            cluster.namesrv, "G", start="first", max_reconsume_times=1
        ) as consumer:

            @consumer.on_message
            async def fail(messages: list[StoredMessage]) -> None:
                seen.append(messages[0].reconsume_times)
                raise RuntimeError("broken")

            await consumer.subscribe(TOPIC)
            await consumer.start()
            while len(seen) < 2:
                cluster.advance_clock(10)
                await asyncio.sleep(0.05)
            while not await asyncio.to_thread(bodies, cluster, "%DLQ%G"):
                cluster.advance_clock(10)
                await asyncio.sleep(0.05)
        assert seen == [0, 1]

    with MiniCluster() as cluster:
        send(cluster, b"poison")
        asyncio.run(asyncio.wait_for(consume(cluster), 30))
        assert bodies(cluster, "%DLQ%G") == [b"poison"]


def test_a_paused_broker_answers_when_it_goes_on() -> None:
    with MiniCluster() as cluster, Producer(cluster.namesrv, "P") as producer:
        producer.send(Message(TOPIC, b"a"))
        name = cluster.pause()
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(producer.send, Message(TOPIC, b"b"), timeout_ms=20_000)
            with pytest.raises(TimeoutError):
                sending.result(0.3)
            with pytest.raises(errors.UsageError, match="broker-1 is paused; resume it first"):
                cluster.cut(name)
            cluster.resume(name)
            assert sending.result(20).msg_id
        assert bodies(cluster) == [b"a", b"b"]


def test_a_lost_answer_is_an_unknown_outcome_and_a_refused_connection_is_not() -> None:
    with MiniCluster() as cluster, Producer(cluster.namesrv, "P", retries=0) as producer:
        producer.send(Message(TOPIC, b"a"))
        name = cluster.pause()
        with pytest.raises(errors.NotReachable) as caught:
            producer.send(Message(TOPIC, b"b"), timeout_ms=300)
        assert caught.value.outcome is errors.Outcome.UNKNOWN
        assert caught.value.retriable
        cluster.resume(name)
        until(lambda: bodies(cluster) == [b"a", b"b"])  # it was stored after all
        cluster.kill()
        with pytest.raises(errors.NotReachable) as caught:
            producer.send(Message(TOPIC, b"c"), timeout_ms=300)
        assert caught.value.outcome is errors.Outcome.NOT_DONE


# Replicas ------------------------------------------------------------------------------------


@pytest.fixture
def replicas() -> Iterator[MiniCluster]:
    with MiniCluster(3) as cluster:
        yield cluster


def test_three_brokers_are_in_sync(replicas: MiniCluster) -> None:
    controllers = [f"controller-{n}" for n in (1, 2, 3)]
    brokers = [f"broker-{n}" for n in (1, 2, 3)]
    assert sorted(replicas.servers) == [*brokers, *controllers, "namesrv"]
    assert replicas.master in brokers
    assert len(broker_context(replicas).group_position.members) == 3
    assert broker_context(replicas, "slave") is not broker_context(replicas, "master")


@pytest.mark.parametrize("fault", ["kill", "pause", "cut"])
def test_a_fault_of_the_master_loses_nothing(replicas: MiniCluster, fault: str) -> None:
    send(replicas, *[b"%02d" % n for n in range(20)])
    name = getattr(replicas, fault)()
    send(replicas, b"20")
    assert replicas.wait_for_master() != name
    if fault == "kill":
        replicas.start_server(name)
    elif fault == "pause":
        replicas.resume(name)
    else:
        replicas.mend(name)
    replicas.wait_until_ready()
    send(replicas, b"21")
    assert bodies(replicas) == [b"%02d" % n for n in range(22)]


def test_a_majority_of_controllers_is_enough(replicas: MiniCluster) -> None:
    replicas.kill("controller-1")
    replicas.kill("master")
    send(replicas, b"a")
    replicas.start_server("controller-1")
    assert bodies(replicas) == [b"a"]


# Mistakes ------------------------------------------------------------------------------------


def test_mistakes_get_a_clear_error() -> None:
    with pytest.raises(errors.UsageError, match="brokers is 0; from 1 to 9 can be"):
        MiniCluster(0)
    with pytest.raises(errors.ConfigError, match="autoCreateTopicEnabled"):
        MiniCluster(options={"autoCreateTopicEnabled": "true"})
    cluster = MiniCluster()
    with pytest.raises(errors.UsageError, match="has not started"):
        _ = cluster.namesrv
    with cluster:
        with pytest.raises(errors.UsageError, match="was started before"):
            cluster.start()
        with pytest.raises(errors.UsageError, match="broker-1 runs"):
            cluster.start_server("broker-1")
        for wrong in ("broker-2", "controller-1", "x"):
            with pytest.raises(errors.NotFound):
                cluster.start_server(wrong)
        with pytest.raises(errors.NotFound, match="no slave runs"):
            cluster.kill("slave")


def test_two_clusters_at_a_time_know_nothing_of_each_other() -> None:
    with MiniCluster() as one, MiniCluster() as other:
        send(one, b"a")
        assert bodies(other) == []
        other.kill()
        assert bodies(one) == [b"a"]


def test_it_works_inside_an_event_loop() -> None:
    async def main() -> list[bytes]:
        async with MiniCluster() as cluster, AsyncProducer(cluster.namesrv, "P") as producer:
            result = await producer.send(Message(TOPIC, b"a"))
            assert isinstance(result.queue, MessageQueue)
            return await asyncio.to_thread(bodies, cluster)

    assert asyncio.run(main()) == [b"a"]
