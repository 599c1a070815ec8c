"""INV-27 says when a message of a delay level is late, also where a clock went back."""

from types import SimpleNamespace
from typing import Any

import pytest
from sim.kernel.oracle import Oracle
from sim.kernel.violation import Violation
from sim.secondary.inv_27 import LATE_MS, STAND_MS, Delayed, Due, due_in_level
from tests.broker.broker_harness import WALL, BrokerHarness, send

DELAY_MS = 1_000
"""Of level 1."""


class Stage:
    """A broker that delivers, and what the checker hears of it."""

    def __init__(self, skew_us: int | None = None) -> None:
        self.harness = BrokerHarness()
        self.harness.topic("T")
        self.client = self.harness.client()
        self.oracle = Oracle()
        self.checker = Delayed(self.oracle, skew_us)
        self.broker: Any = SimpleNamespace(
            host=SimpleNamespace(name="b1", wall=WALL),
            world=SimpleNamespace(time_us=0),
            store=self.harness.store,
            owned=self.harness.node,
        )
        self.checker.calm["b1"] = WALL - 10_000
        self.set_clock(0)

    def set_clock(self, wall_ms: int) -> None:
        self.harness.clock.wall = self.broker.host.wall = WALL + wall_ms

    def put(self, number: int) -> None:
        self.oracle.call(number, "p1", ("T", 0), 0)
        self.checker.delayed(self.broker, number, DELAY_MS)
        self.client.put(send(b"%d:" % number, properties={"DELAY": "1"}))
        self.harness.turn()

    def plain(self) -> None:
        """One that is not delayed; the store times of others do not go back behind its own."""
        self.client.put(send(b"0:", queue_id=1))
        self.harness.turn()

    def out_at(self, wall_ms: int) -> list[bytes]:
        """What is out by then; all of it is judged."""
        self.set_clock(wall_ms)
        self.harness.node.delivery.tick(self.harness.clock.wall)
        found = [message.body for message in self.harness.stored("T")]
        for body in found:
            self.checker.check_late(self.broker, int(body[:-1]))
        return found

    def is_late_from(self, number: int, wall_ms: int) -> None:
        self.set_clock(wall_ms - 1)
        self.checker.check_late(self.broker, number)
        self.set_clock(wall_ms)
        with pytest.raises(Violation, match=f"message {number} is .* late"):
            self.checker.check_late(self.broker, number)


def test_a_message_of_a_level_is_late_after_its_time() -> None:
    stage = Stage()
    stage.put(1)
    assert stage.out_at(DELAY_MS) == [b"1:"]
    stage.is_late_from(1, DELAY_MS + LATE_MS + 1)


def test_store_times_stand_still_for_a_clock_that_went_back_a_little() -> None:
    stage = Stage()
    stage.plain()
    stage.set_clock(1 - STAND_MS)
    stage.put(1)
    assert stage.out_at(DELAY_MS - 1) == []
    assert stage.out_at(DELAY_MS) == [b"1:"]
    stage.is_late_from(1, DELAY_MS + LATE_MS + 1)


def test_a_level_delivers_in_order_when_a_clock_went_back_further() -> None:
    stage = Stage()
    stage.set_clock(-DELAY_MS)
    stage.put(1)
    stage.set_clock(0)
    stage.plain()
    stage.set_clock(-STAND_MS - 500)
    stage.put(2)
    assert stage.out_at(-1) == []
    assert stage.out_at(0) == [b"1:", b"2:"]
    stage.is_late_from(2, LATE_MS + 1)


def test_where_no_clock_is_set_nothing_is_later_for_it() -> None:
    stage = Stage(skew_us=0)
    stage.plain()
    stage.set_clock(1 - STAND_MS)
    stage.put(1)
    stage.is_late_from(1, 1 - STAND_MS + DELAY_MS + LATE_MS + 1)


def test_a_store_time_that_stands_still_for_longer_is_no_excuse() -> None:
    due = {1: Due("b1", WALL + DELAY_MS, 0, DELAY_MS)}
    assert due_in_level([(1, WALL + 10_000)], due, 1) == WALL + STAND_MS + DELAY_MS


def test_what_is_behind_in_a_level_is_no_excuse() -> None:
    due = {n: Due("b1", WALL + n + DELAY_MS, 0, DELAY_MS) for n in (1, 2)}
    level = [(1, WALL + 1), (2, WALL + 2)]
    assert due_in_level(level, due, 1) == WALL + 1 + DELAY_MS
    assert due_in_level(level, due, 3) == 0
