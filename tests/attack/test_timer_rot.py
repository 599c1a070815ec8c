"""Flipped bits of a timer's files, after a clean stop and after a crash: nothing is lost, early
or late, and nothing ends the broker. What is damaged is created again from the log."""

from collections import Counter
from functools import cache

import pytest
from sim.kernel.disk import SimDisk
from tests.broker.delay.timers import TimerBroker

from epochmq.broker.delay.timer_metrics import TimerMetrics
from epochmq.store.timer.timer_checkpoint import FILE as CHECKPOINT
from epochmq.store.timer.timer_log import FOLDER
from epochmq.store.timer.wheel import FILE as WHEEL

LOG = f"{FOLDER}/{0:020d}"
STEP_MS, LATE_MS = 2500, 15_000
SLOT_BYTES = 32
STRIDE = 29
"""One bit in so many. All bits of a unit, a slot, a checkpoint: `tests/store/timer/`."""


class Played:
    """A broker as it was when its process ended, and what is due of it."""

    def __init__(self, *, stopped: bool) -> None:
        broker = TimerBroker()
        self.due: dict[bytes, int] = {}
        self._put(broker, b"over", 1500)
        broker.run(2000)
        broker.clock.wall -= 4000  # pairs of before a clock went back
        broker.tick(2)
        broker.save()
        broker.tick(2)
        self._put(broker, b"a", 3200)
        self._put(broker, b"b", 3900)
        self._put(broker, b"far", 65_000)
        self._put(broker, b"c", 5000, UNIQ_KEY="K1")
        broker.put(b"x", TIMER_DELIVER_MS=self.due.pop(b"c"), TIMER_DEL_UNIQKEY="K1")
        broker.run(1300)
        broker.save()
        if stopped:
            broker.store.sync()
            broker.timer.save_now(broker.clock.wall)
        else:
            self._put(broker, b"d", 3500)
            broker.run(100)
        self.broker = broker
        self.disk = broker.disk.kill()

    def _put(self, broker: TimerBroker, body: bytes, delay_ms: int, **more: object) -> None:
        self.due[body] = broker.clock.wall + delay_ms
        broker.put(body, TIMER_DELIVER_MS=self.due[body], **more)

    def files(self) -> dict[str, bytes]:
        """All of the timer's files, whole."""
        names = [CHECKPOINT, WHEEL, TimerMetrics.file, LOG]
        found = {name: self.disk.read_file(name) for name in names}
        return {name: data for name, data in found.items() if data}

    def goes_on(self, disk: SimDisk) -> Counter[bytes]:
        """The next process plays to the end; how often each message came."""
        broker = self.broker.again(disk)
        broker.run(15_000, STEP_MS)
        broker.run(60_000, 15_000)
        found: Counter[bytes] = Counter()
        for queue in range(4):
            for message in broker.stored("T", queue):
                late = int(message.properties["TIMER_DEQUEUE_MS"]) - self.due[message.body]
                assert 0 <= late <= LATE_MS, (message.body, late)
                found[message.body] += 1
        return found


@cache
def played(*, stopped: bool) -> Played:
    return Played(stopped=stopped)


def bits_of(data: bytes) -> list[int]:
    """Those of all that is in use, and some of what is not."""
    used = [
        at
        for at in range(len(data))
        if any(data[at // SLOT_BYTES * SLOT_BYTES :][:SLOT_BYTES]) or at % 509 == 0
    ]
    return [8 * at + bit for at in used for bit in range(8)]


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("name", [CHECKPOINT, WHEEL, LOG, TimerMetrics.file])
def test_no_flipped_bit_loses_a_message_or_moves_its_time(name: str, stopped: bool) -> None:
    before = played(stopped=stopped)
    assert set(before.goes_on(before.disk.kill()).values()) == {1}
    data = before.files()[name]
    for bit in bits_of(data)[::STRIDE]:
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        disk = before.disk.kill()
        disk.write_file(name, bytes(flipped))
        found = before.goes_on(disk)
        assert set(found) == set(before.due), bit
        assert found.total() == len(found) or name == CHECKPOINT, bit


@pytest.mark.parametrize("backup", [None, b"{}"])
def test_counts_that_are_damaged_are_created_again(backup: bytes | None) -> None:
    """They stopped the broker's start; the log has all that they say."""
    before = played(stopped=True)
    disk = before.disk.kill()
    disk.write_file(TimerMetrics.file, b'{"timingCount')
    if backup is not None:
        disk.write_file(f"{TimerMetrics.file}.bak", backup)
    broker = before.broker.again(disk)
    broker.tick(2)
    assert broker.timer.driver.metrics.total == 5  # a, b, c, far, and what cancels c
    broker.run(75_000, STEP_MS)
    assert broker.timer.driver.metrics.total == 0
