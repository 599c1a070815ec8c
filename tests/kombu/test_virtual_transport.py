"""The transport below kombu's connections, and below a worker of Celery that is killed."""

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue
from kombu.exceptions import OperationalError

import epochmq.kombu  # noqa: F401 -- names the transport
from epochmq import Message
from epochmq.base.errors import UsageError
from epochmq.client.sync import Producer
from epochmq.testing import MiniCluster
from epochmq.testing.mini_cluster import broker_context

OPTIONS = {"visibility_timeout": 5}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MiniCluster]:
    with MiniCluster() as made:
        yield made


@pytest.fixture
def connection(cluster: MiniCluster) -> Iterator[Any]:
    with connected(cluster) as made:
        yield made


def connected(cluster: MiniCluster) -> Any:
    return Connection(f"epochmq://{cluster.namesrv}", transport_options=OPTIONS)


class Received:
    """The messages that a consumer of `connection` got."""

    def __init__(self, connection: Any, queue: Any, *, no_ack: bool = False) -> None:
        self.messages: list[Any] = []
        self._connection = connection
        self.consumer = connection.Consumer(
            queue, callbacks=[lambda _, message: self.messages.append(message)], no_ack=no_ack
        )
        self.consumer.consume()

    def wait_for(self, count: int, timeout: float = 20) -> list[Any]:
        """Wait until `count` messages are here; returns their payloads."""
        end = time.monotonic() + timeout
        while len(self.messages) < count:
            self._connection.drain_events(timeout=end - time.monotonic())
        return [message.payload for message in self.messages]

    def get_no_more(self, seconds: float = 1.5) -> None:
        with pytest.raises(TimeoutError):
            self._connection.drain_events(timeout=seconds)


# Queues --------------------------------------------------------------------------------------


def test_a_simple_queue_gives_what_was_put(connection: Any) -> None:
    queue = connection.SimpleQueue("simple")
    for number in range(3):
        queue.put({"n": number})
    assert queue.qsize() == 3
    taken = [queue.get(timeout=10) for _ in range(3)]
    assert sorted(message.payload["n"] for message in taken) == [0, 1, 2]
    for message in taken:
        message.ack()
    assert queue.qsize() == 0
    queue.close()


def test_a_prefetch_limit_holds(connection: Any) -> None:
    queue = Queue("limited")
    producer = connection.Producer()
    for number in range(5):
        producer.publish(number, routing_key="limited", declare=[queue])
    received = Received(connection, queue)
    received.consumer.qos(prefetch_count=2)
    received.wait_for(2)
    received.get_no_more()
    received.messages[0].ack()
    received.wait_for(3)
    received.get_no_more()


def test_a_rejected_message_is_dropped_and_a_requeued_one_is_delivered_again(
    connection: Any,
) -> None:
    queue = Queue("rejects")
    producer = connection.Producer()
    producer.publish("drop", routing_key="rejects", declare=[queue])
    producer.publish("again", routing_key="rejects")
    received = Received(connection, queue)
    assert sorted(received.wait_for(2)) == ["again", "drop"]
    for message in received.messages:
        if message.payload == "again":
            message.requeue()
        else:
            message.reject()
    assert received.wait_for(3)[2] == "again"
    assert received.messages[2].delivery_info["redelivered"]
    received.messages[2].ack()
    received.get_no_more()


# Priorities ----------------------------------------------------------------------------------


def publish(connection: Any, queue: Any, *messages: tuple[str, int]) -> None:
    producer = connection.Producer()
    for body, priority in messages:
        producer.publish(body, routing_key=queue.name, declare=[queue], priority=priority)


def test_the_most_urgent_message_is_first_and_equal_ones_keep_their_order(connection: Any) -> None:
    queue = Queue("urgency", max_priority=10)
    mixed = [("first", 3), ("second", 6), ("third", 3), ("fourth", 9), ("fifth", 0)]
    publish(connection, queue, *mixed)
    received = Received(connection, queue)
    assert received.wait_for(5) == ["fourth", "second", "first", "third", "fifth"]
    for message in received.messages:
        message.ack()
    received.get_no_more()


def test_priorities_beyond_the_maximum_are_the_maximum(connection: Any) -> None:
    queue = Queue("two-levels", max_priority=1)
    publish(connection, queue, ("low", 0), ("high", 1), ("beyond", 9))
    assert Received(connection, queue).wait_for(3) == ["high", "beyond", "low"]


def test_simple_queues_have_priorities(connection: Any) -> None:
    with closing(connection.SimpleQueue("simply", queue_opts={"max_priority": 10})) as queue:
        for body, priority in (("first", 1), ("second", 7), ("third", 1)):
            queue.put(body, priority=priority)
        taken = [queue.get(timeout=10) for _ in range(3)]
        assert [message.payload for message in taken] == ["second", "first", "third"]


def test_single_messages_are_asked_for_by_priority(connection: Any) -> None:
    queue = Queue("singly", max_priority=10)
    publish(connection, queue, ("low", 1), ("high", 8))
    bound = queue(connection.channel())
    assert [bound.get(no_ack=True).payload for _ in range(2)] == ["high", "low"]
    assert bound.get() is None


def test_requeued_messages_are_sorted_with_new_ones(connection: Any) -> None:
    queue = Queue("sorted-again", max_priority=10)
    publish(connection, queue, ("first", 3), ("second", 6), ("third", 3))
    received = Received(connection, queue)
    assert received.wait_for(3) == ["second", "first", "third"]
    received.consumer.cancel()
    for message in received.messages:
        message.requeue()
    publish(connection, queue, ("fourth", 9))
    assert Received(connection, queue).wait_for(4) == ["fourth", "second", "first", "third"]


def test_a_message_that_comes_while_the_consumer_waits_is_delivered(connection: Any) -> None:
    queue = Queue("late", max_priority=10)
    received = Received(connection, queue)
    received.get_no_more()
    for number in range(3):
        publish(connection, queue, (str(number), number))
        assert received.wait_for(number + 1)[-1] == str(number)


def test_a_maximum_that_is_no_number_is_refused(connection: Any) -> None:
    queue = Queue("odd", queue_arguments={"x-max-priority": "ten"})
    with pytest.raises(UsageError, match="x-max-priority of queue 'odd' is 'ten'"):
        publish(connection, queue, ("never", 1))


# Acknowledgements ----------------------------------------------------------------------------


def test_without_acknowledgement_each_message_is_delivered_once(cluster: MiniCluster) -> None:
    queue = Queue("careless")
    with connected(cluster) as connection:
        connection.Producer().publish("once", routing_key="careless", declare=[queue])
        assert Received(connection, queue, no_ack=True).wait_for(1) == ["once"]
        assert connection.default_channel.queue_declare("careless").message_count == 0
    with connected(cluster) as connection:
        connection.Producer().publish("twice", routing_key="careless", declare=[queue])
        message = connection.default_channel.basic_get("careless", no_ack=True)
        assert message.payload == "twice"
        assert connection.default_channel.queue_declare("careless").message_count == 0


def test_what_a_closed_connection_did_not_acknowledge_is_delivered_again(
    cluster: MiniCluster,
) -> None:
    queue = Queue("handed-over")
    with connected(cluster) as first:
        first.Producer().publish("task", routing_key="handed-over", declare=[queue])
        assert Received(first, queue).wait_for(1) == ["task"]
    with connected(cluster) as second:
        received = Received(second, queue)
        assert received.wait_for(1) == ["task"]
        received.messages[0].ack()


def test_a_cancelled_consumer_still_acknowledges(connection: Any) -> None:
    queue = Queue("cancelled")
    connection.Producer().publish("task", routing_key="cancelled", declare=[queue])
    received = Received(connection, queue)
    received.wait_for(1)
    received.consumer.cancel()
    received.messages[0].ack()
    assert connection.default_channel.queue_declare("cancelled").message_count == 0


def test_a_queue_is_purged_and_deleted(cluster: MiniCluster, connection: Any) -> None:
    queue = Queue("short-lived", Exchange("direct"), routing_key="short-lived")
    producer = connection.Producer()
    for number in range(4):
        producer.publish(
            number, exchange=queue.exchange, routing_key="short-lived", declare=[queue]
        )
    bound = queue(connection.default_channel)
    assert bound.purge() == 4
    assert bound.get() is None
    bound.delete()
    assert "short-lived" not in broker_context(cluster).topics.table
    bound.delete()
    with pytest.raises(connection.channel_errors):
        bound.queue_declare(passive=True)


def test_a_message_of_another_program_is_delivered(cluster: MiniCluster, connection: Any) -> None:
    queue = Queue("foreign")
    queue(connection.default_channel).declare()
    bodies = [
        b"\xff\x00 plain",
        b"[1]",
        b"[" * 10_000,
        b'{"body": "", "headers": {}, "properties": 7}',
        b'{"body": 1, "headers": {}, "properties": {"delivery_info": {}}}',
    ]
    with Producer(cluster.namesrv, "P") as producer:
        for body in bodies:
            producer.send(Message("foreign", body, properties={"color": "red"}), timeout_ms=10_000)
    received = Received(connection, Queue("foreign", accept=["application/data"]))
    end = time.monotonic() + 20
    while len(received.messages) < len(bodies) and time.monotonic() < end:
        connection.drain_events(timeout=10)
    assert sorted(bytes(m.body) for m in received.messages) == sorted(bodies)
    assert received.messages[0].headers["color"] == "red"
    for message in received.messages:
        message.ack()


def test_a_fanout_reaches_each_bound_queue(cluster: MiniCluster) -> None:
    news = Exchange("news", "fanout")
    with connected(cluster) as one, connected(cluster) as other, connected(cluster) as sender:
        received = [
            Received(each, Queue(name, news)) for each, name in [(one, "n1"), (other, "n2")]
        ]
        for each in received:
            each.get_no_more()  # a new queue begins at the end, once its first pop was answered
        for number in range(3):
            sender.Producer().publish(number, exchange=news, declare=[news])
        for each in received:
            assert sorted(each.wait_for(3)) == [0, 1, 2]


def test_a_fanout_queue_gets_what_is_sent_after_its_declaration(cluster: MiniCluster) -> None:
    """In whichever channel it is declared, and before anybody consumes from it."""
    exchange = Exchange("early-news", type="fanout")
    one, other = Queue("early-1", exchange=exchange), Queue("early-2", exchange=exchange)
    with connected(cluster) as connection, connection.channel() as channel:
        producer = connection.Producer(channel, exchange=exchange)
        one(channel).declare()
        producer.publish("first")
        other(channel).declare()
        producer.publish("second")
        assert sorted(Received(connection, one).wait_for(2)) == ["first", "second"]
        received = Received(connection, other)
        assert received.wait_for(1) == ["second"]
        received.get_no_more()


def test_a_message_that_has_expired_is_not_delivered(connection: Any) -> None:
    with closing(connection.SimpleQueue("expiring")) as simple:
        simple.put("old", expiration=0.2)
        simple.put("fresh", expiration=60)
        simple.put("for ever")
        time.sleep(0.5)
        assert sorted(simple.get(timeout=10).payload for _ in range(2)) == ["for ever", "fresh"]
        with pytest.raises(simple.Empty):
            simple.get(timeout=1)
        simple.put("also old", expiration=0.2)
        time.sleep(0.5)
        with pytest.raises(simple.Empty):
            simple.get_nowait()


def test_a_message_that_is_asked_for_and_requeued_comes_at_once(cluster: MiniCluster) -> None:
    with connected(cluster) as connection, closing(connection.SimpleQueue("again")) as simple:
        simple.put("x")
        queue = simple.queue
        message = queue.get()
        message.requeue()
        again = queue.get()
        assert (again.payload, again.delivery_info["redelivered"]) == ("x", True)
        again.reject(requeue=True)
        # Nobody asks here: another connection gets it soon.
        with connected(cluster) as other, closing(other.SimpleQueue("again")) as elsewhere:
            taken = elsewhere.get(timeout=20)
            assert taken.payload == "x"
            taken.ack()
        assert queue.get() is None


def test_a_closed_channel_leaves_its_group(cluster: MiniCluster, connection: Any) -> None:
    connection.Producer().publish("task", routing_key="left", declare=[Queue("left")])
    consumers = broker_context(cluster).consumers
    channel = connection.channel()
    delivered: list[Any] = []
    consumer = connection.Consumer(
        Queue("left"), channel=channel, callbacks=[lambda _, message: delivered.append(message)]
    )
    with consumer:
        while not delivered:
            connection.drain_events(timeout=20)
        assert consumers.group("left") is not None
        delivered[0].ack()
    channel.close()
    assert consumers.group("left") is None


# Errors --------------------------------------------------------------------------------------


def test_the_user_of_the_url_signs_the_requests() -> None:
    options = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": '{"username":"shop","password":"s3cret word"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"shop","secretKey":"s3cret word"}',
    }
    with MiniCluster(options=options) as cluster:
        with Connection(f"epochmq://shop:s3cret%20word@{cluster.namesrv}") as connection:
            queue = connection.SimpleQueue("secure")
            queue.put("task")
            message = queue.get(timeout=10)
            assert message.payload == "task"
            message.ack()
            queue.close()
        stranger = Connection(f"epochmq://shop:wrong@{cluster.namesrv}")
        with stranger, pytest.raises(stranger.channel_errors, match="signature is wrong"):
            stranger.SimpleQueue("secure").put("task")


def test_a_broker_that_is_not_there_is_an_operational_error(free_tcp_port: int) -> None:
    with (
        pytest.raises(OperationalError, match=str(free_tcp_port)),
        Connection(f"epochmq://127.0.0.1:{free_tcp_port}") as connection,
    ):
        connection.ensure_connection(max_retries=1, interval_start=0)


@pytest.mark.parametrize("seconds", [4, 301])
def test_a_visibility_timeout_out_of_bounds_is_refused(seconds: int) -> None:
    with (
        pytest.raises(UsageError, match=f"visibility_timeout is {seconds}; from 5 to 300"),
        Connection("epochmq://", transport_options={"visibility_timeout": seconds}) as connection,
    ):
        connection.connect()


# Celery --------------------------------------------------------------------------------------


@contextmanager
def worker(
    directory: Path, environment: dict[str, str], *options: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """A Celery worker with two child processes, in a process group of its own."""
    argv = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-c", "2", "-l", "INFO"]
    argv += options
    with (directory / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            argv,
            cwd=Path(__file__).parent,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def wait_for_text(path: Path, text: str, timeout: float = 30) -> None:
    end = time.monotonic() + timeout
    while not (path.exists() and path.read_text() == text):
        assert time.monotonic() < end, path.read_text() if path.exists() else "no file"
        time.sleep(0.02)


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module `celery_app`, whose tasks go to a cluster of its own."""
    results = tmp_path / "results"
    results.mkdir()
    with MiniCluster() as cluster:
        monkeypatch.setenv("EPOCHMQ_NAMESRV", cluster.namesrv)
        monkeypatch.setenv("EPOCHMQ_RESULTS", str(results))
        monkeypatch.syspath_prepend(Path(__file__).parent)
        monkeypatch.delitem(sys.modules, "celery_app", raising=False)
        made = importlib.import_module("celery_app")  # reads the environment
        yield made
        made.app.pool.force_close_all()


def test_celery_finishes_its_tasks_though_a_worker_is_killed(
    tmp_path: Path, application: Any
) -> None:
    notes = tmp_path / "notes"
    with worker(tmp_path, dict(os.environ)) as first:
        sums = [application.add.delay(n, n) for n in range(10)]
        assert [each.get(timeout=30) for each in sums] == [2 * n for n in range(10)]
        inner = application.add_by_another_task.delay(3, 4).get(timeout=30)
        assert application.app.AsyncResult(inner).get(timeout=30) == 7
        assert [list(each.values()) for each in application.app.control.ping(timeout=2)] == [
            [{"ok": "pong"}]
        ]
        # Longer than the visibility timeout: the task runs once all the same.
        application.note_begin_and_end.delay(str(notes), 8).get(timeout=30)
        assert notes.read_text() == "begin\nend\n"
        notes.unlink()
        task = application.note_begin_and_end.delay(str(notes), 2)
        wait_for_text(notes, "begin\n")
        os.killpg(first.pid, signal.SIGKILL)
    with worker(tmp_path, dict(os.environ)) as second:
        task.get(timeout=40)
        assert notes.read_text() == "begin\nbegin\nend\n"
        second.terminate()
        assert second.wait(20) == 0


def test_celery_runs_urgent_tasks_first(tmp_path: Path, application: Any) -> None:
    notes = tmp_path / "notes"
    tasks = [
        application.note.apply_async(
            (str(notes), f"{priority} "), queue="urgent", priority=priority
        )
        for priority in (0, 5, 9, 5)
    ]
    with worker(tmp_path, dict(os.environ), "-c", "1", "-Q", "urgent"):
        for task in tasks:
            task.get(timeout=30)
    assert notes.read_text() == "9 5 5 0 "
