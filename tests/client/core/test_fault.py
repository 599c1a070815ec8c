"""Latency fault tolerance: RocketMQ's table and its edges."""

import pytest

from epochmq.client.core.send_policy import FaultTable, penalty_ms


@pytest.mark.parametrize(
    ("latency", "penalty"),
    [
        (0, 0),
        (99, 0),
        (549, 0),
        (550, 30_000),
        (1_000, 60_000),
        (14_999, 180_000),
        (15_000, 600_000),
    ],
)
def test_penalty_follows_the_table(latency: int, penalty: int) -> None:
    assert penalty_ms(latency) == penalty


def test_a_slow_broker_is_avoided_and_comes_back() -> None:
    table = FaultTable()
    table.answered("a", 600, now=1_000)
    assert not table.available("a", 30_999)
    assert table.available("a", 31_000)
    assert table.available("b", 0)


def test_a_fast_answer_clears_the_penalty() -> None:
    table = FaultTable()
    table.failed("a", now=0)
    assert table.statistics() == {"a": 600_000}
    table.answered("a", 3, now=1)
    assert table.available("a", 1)
