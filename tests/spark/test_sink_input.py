"""The end of the rows, and the end of who sends them."""

import socket
from collections.abc import Iterator

import pyarrow as pa
import pytest

from epochmq.base.errors import EnvironmentFault
from epochmq.spark.sink_input import is_hung_up, whole

BATCH = pa.RecordBatch.from_pydict({"body": [b"x"]})
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture(params=["unix", "tcp"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """(the worker's, Spark's) ends of a connection that a daemon took."""
    if request.param == "unix":
        ours, sparks = socket.socketpair()
        with ours, sparks:
            yield ours, sparks
        return
    daemon = socket.create_server(("127.0.0.1", 0))
    with daemon, socket.create_connection(daemon.getsockname()) as sparks:
        ours, _ = daemon.accept()
        with ours:
            yield ours, sparks


def test_rows_end_while_spark_is_there(pair: Pair) -> None:
    _, sparks = pair
    assert list(whole(iter([BATCH, BATCH]))) == [BATCH, BATCH]
    sparks.send(b"\xff")
    assert list(whole(iter([BATCH]))) == [BATCH]


def ending(sparks: socket.socket) -> Iterator[pa.RecordBatch]:
    yield BATCH
    sparks.shutdown(socket.SHUT_RDWR)


def test_rows_end_because_spark_hung_up(pair: Pair) -> None:
    rows = whole(ending(pair[1]))
    assert next(rows) == BATCH
    with pytest.raises(EnvironmentFault, match="before all of its rows"):
        next(rows)


def test_what_was_closed_before_does_not_count(pair: Pair) -> None:
    ours, sparks = pair
    sparks.close()
    assert is_hung_up(ours)
    assert list(whole(iter([BATCH]))) == [BATCH]


def test_a_connection_to_a_broker_that_goes_is_none_of_sparks() -> None:
    broker = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(broker.getsockname()):
        brokers, _ = broker.accept()
        broker.close()
        with brokers:
            assert list(whole(ending(brokers))) == [BATCH]
