"""Allocation strategies: each queue exactly once, and upstream's very numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import UsageError
from epochmq.model import allocate
from epochmq.model.allocate import Strategy
from epochmq.model.topic import MessageQueue

_sizes = st.integers(0, 40)
_clients = st.integers(1, 12).map(lambda count: sorted(f"10.0.0.{n}@{n}#7" for n in range(count)))


def _queues(count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue("T", broker, n) for n in range(count)]


def _numbers(strategy: Strategy, client: str, count: int, clients: list[str]) -> list[int]:
    return [queue.queue_id for queue in strategy(client, _queues(count), clients)]


@pytest.mark.parametrize("name", list(allocate.STRATEGIES))
@given(_sizes, _clients)
def test_each_queue_has_exactly_one_client(name: str, count: int, clients: list[str]) -> None:
    share = allocate.STRATEGIES[name]
    taken = [queue for client in clients for queue in share(client, _queues(count), clients)]
    assert sorted(taken) == _queues(count)


@pytest.mark.parametrize("name", [allocate.AVG, allocate.AVG_BY_CIRCLE])
@given(_sizes, _clients)
def test_shares_differ_by_one_at_most(name: str, count: int, clients: list[str]) -> None:
    share = allocate.STRATEGIES[name]
    sizes = {len(share(client, _queues(count), clients)) for client in clients}
    assert max(sizes) - min(sizes) <= 1


@given(_sizes, _clients)
def test_average_is_the_formula_of_the_fact_sheet(count: int, clients: list[str]) -> None:
    n, m = count, len(clients)
    for i, client in enumerate(clients):
        rest = n % m
        size = 1 if n <= m else n // m + (1 if rest > 0 and i < rest else 0)
        start = i * size if rest > 0 and i < rest else i * size + rest
        wanted = list(range(start, start + min(size, n - start)))
        assert _numbers(allocate.average, client, count, clients) == wanted


def test_known_shares() -> None:
    clients = ["a", "b", "c"]
    assert _numbers(allocate.average, "a", 8, clients) == [0, 1, 2]
    assert _numbers(allocate.average, "c", 8, clients) == [6, 7]
    assert _numbers(allocate.by_circle, "b", 8, clients) == [1, 4, 7]
    assert _numbers(allocate.average, "c", 2, clients) == []


@pytest.mark.parametrize(
    "share",
    [
        allocate.average,
        allocate.by_circle,
        allocate.consistent_hash(),
        allocate.machine_room(["r"]),
    ],
)
def test_a_client_that_is_not_in_the_group_gets_nothing(share: Strategy) -> None:
    assert share("stranger", _queues(4, "r@b"), ["a", "b"]) == []
    assert share("stranger", _queues(4, "r@b"), []) == []


def test_configured_queues_are_kept_whoever_else_is_there() -> None:
    own = _queues(2)
    share = allocate.configured(own)
    assert share("a", _queues(8), ["a", "b"]) == own
    assert share("a", _queues(8), ["a", "b"]) is not own


@given(_sizes, _clients)
def test_a_room_s_queues_are_shared_and_others_left(count: int, clients: list[str]) -> None:
    share = allocate.machine_room({"room"})
    near = _queues(count, "room@b")
    far = [MessageQueue("T", name, 0) for name in ("b", "far@b", "room@", "room@b@c")]
    taken = [queue for client in clients for queue in share(client, near + far, clients)]
    assert sorted(taken) == near


def test_the_ring_is_upstream_s() -> None:
    # The first four bytes of md5("a-0"), as md5sum prints them.
    share = allocate.consistent_hash(virtual_nodes=1)
    assert allocate._ring_hash("a-0") == 0xA165EFD1
    points = sorted((allocate._ring_hash(f"{client}-0"), client) for client in "abc")
    for queue in _queues(20):
        text = f"MessageQueue [topic=T, brokerName=b, queueId={queue.queue_id}]"
        at = allocate._ring_hash(text)
        owner = next((client for point, client in points if point >= at), points[0][1])
        assert queue in share(owner, [queue], ["a", "b", "c"])


def test_few_queues_move_when_a_client_leaves() -> None:
    share = allocate.consistent_hash()
    clients = [f"c{n}" for n in range(5)]
    for client in clients[:-1]:
        before = set(share(client, _queues(40), clients))
        assert before <= set(share(client, _queues(40), clients[:-1]))


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="virtual nodes"):
        allocate.consistent_hash(0)
