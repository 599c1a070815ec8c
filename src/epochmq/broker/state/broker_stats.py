"""Broker statistics: all counters of a broker (RocketMQ's BrokerStatsManager), sampled in slices.

The hot paths keep the `StatsItem` they add to and never look it up by name; a full table counts
into one shared item nobody reads, so a flood of topics costs no memory (limits.STAT_ITEMS_MAX).
"""

from bisect import bisect_left
from collections import deque
from typing import NamedTuple

from epochmq.base.histogram import HistogramTable
from epochmq.base.limits import STAT_ITEMS_MAX, TOPICS_MAX

# Stat names ----------------------------------------------------------------------------------
# Names of the counted things, as RocketMQ's VIEW_BROKER_STATS_DATA spells them, and their keys.
#
# Keys: a topic's name; `topic@group`; `topic@queueId`; `topic@queueId@group`; a cluster's name.


TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"
QUEUE_PUT_NUMS = "QUEUE_PUT_NUMS"
QUEUE_PUT_SIZE = "QUEUE_PUT_SIZE"
GROUP_GET_NUMS = "GROUP_GET_NUMS"
GROUP_GET_SIZE = "GROUP_GET_SIZE"
QUEUE_GET_NUMS = "QUEUE_GET_NUMS"
QUEUE_GET_SIZE = "QUEUE_GET_SIZE"
SNDBCK_PUT_NUMS = "SNDBCK_PUT_NUMS"
DLQ_PUT_NUMS = "DLQ_PUT_NUMS"
BROKER_PUT_NUMS = "BROKER_PUT_NUMS"
BROKER_GET_NUMS = "BROKER_GET_NUMS"


# Item ----------------------------------------------------------------------------------------
# One counted thing with its samples, and the figures of a span made from them.
#
# Sampling follows RocketMQ: every 10 s for the last minute (7 samples), every 10 min for the last
# hour (7), every hour for the last day (25).


MINUTE_STEP_MS = 10_000
HOUR_STEP_MS = 600_000
DAY_STEP_MS = 3_600_000


class StatsSpan(NamedTuple):
    """Figures between the first and the last sample of a span."""

    sum: int
    times: int
    tps: float
    """`sum` a second."""
    avgpt: float
    """Average of the added values."""


Samples = deque[tuple[int, int, int]]
"""(now, times, value), oldest first."""


class StatsItem:
    """`value` is what was added up, `times` how often."""

    __slots__ = ("_day", "_hour", "_minute", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        self._minute: Samples = deque(maxlen=7)
        self._hour: Samples = deque(maxlen=7)
        self._day: Samples = deque(maxlen=25)

    def sample(self, now: int) -> None:
        """Add the samples that are due to the three series; called every 10 s."""
        for samples, step in (
            (self._minute, MINUTE_STEP_MS),
            (self._hour, HOUR_STEP_MS),
            (self._day, DAY_STEP_MS),
        ):
            if not samples or now - samples[-1][0] >= step:
                samples.append((now, self.times, self.value))

    def minute(self) -> StatsSpan:
        return _span(self._minute)

    def hour(self) -> StatsSpan:
        return _span(self._hour)

    def day(self) -> StatsSpan:
        return _span(self._day)


def _span(samples: Samples) -> StatsSpan:
    if len(samples) < 2:
        return StatsSpan(0, 0, 0.0, 0.0)
    first_at, first_times, first_value = samples[0]
    last_at, last_times, last_value = samples[-1]
    total, times = last_value - first_value, last_times - first_times
    elapsed = last_at - first_at
    tps = total * 1000 / elapsed if elapsed > 0 else 0.0
    return StatsSpan(total, times, tps, total / times if times else 0.0)


# Meter ---------------------------------------------------------------------------------------
# A total with its rates over 10 s, 1 min and 10 min, as RocketMQ prints them ("10.0 9.8 9.9").


WINDOWS_S = (10, 60, 600)
SAMPLE_MS = 1000


class Meter:
    """Counts up; one sample a second is kept for the longest window."""

    __slots__ = ("_samples", "total")

    def __init__(self) -> None:
        self.total = 0
        self._samples: deque[tuple[int, int]] = deque(maxlen=WINDOWS_S[-1] + 1)

    def sample(self, now: int) -> None:
        """Remember the total of this second; called once a second."""
        self._samples.append((now, self.total))

    def rate(self, window_s: int) -> float:
        """Counts a second over the newest `window_s` seconds, or over what there is of them."""
        samples = self._samples
        if len(samples) < 2:
            return 0.0
        now, total = samples[-1]
        before, base = samples[max(0, len(samples) - 1 - window_s)]
        return (total - base) * 1000 / (now - before) if now > before else 0.0

    def text(self) -> str:
        """The three rates, separated by spaces."""
        return " ".join(f"{self.rate(window):.6g}" for window in WINDOWS_S)


# Read stats ----------------------------------------------------------------------------------
# What groups read from queues: added up at each read, and moved to the statistics once a tick.


class QueueReads:
    """One group's reads of one queue since the last tick, and how far it has read.

    Args:
        topic, queue_id, group: what was read, by whom.
        is_retry: whether the messages were popped from the topic's retry topics; None for pulls.
    """

    __slots__ = ("bytes", "key", "messages", "next_offset", "times", "used")

    def __init__(self, topic: str, queue_id: int, group: str, is_retry: bool | None) -> None:
        self.key = topic, queue_id, group, is_retry
        self.used = False
        """Whether there are reads to move to the statistics."""
        self.times = self.messages = self.bytes = 0
        self.next_offset = 0
        """Queue offset after the last message pulled; 0 if none was pulled."""


class PopCount:
    """The messages that a group popped from one topic, or from its retry topics."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = self.bytes = 0


# Times ---------------------------------------------------------------------------------------
# How long it took to store messages, in RocketMQ's classes.


BOUNDS_MS = (0, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
"""The longest time of each class but the last."""

NAMES = (
    "<=0ms",
    "0~10ms",
    "10~50ms",
    "50~100ms",
    "100~200ms",
    "200~500ms",
    "500ms~1s",
    "1~2s",
    "2~3s",
    "3~4s",
    "4~5s",
    "5~10s",
    "10s~",
)


class PutTimes:
    """Counts messages by the time that their append took."""

    __slots__ = ("_counts", "longest_ms")

    def __init__(self) -> None:
        self._counts = [0] * len(NAMES)
        self.longest_ms = 0

    def add(self, took_ms: int, messages: int) -> None:
        """Messages that one append stored."""
        if took_ms <= 0:
            self._counts[0] += messages
            return
        self._counts[bisect_left(BOUNDS_MS, took_ms)] += messages
        self.longest_ms = max(self.longest_ms, took_ms)

    def text(self) -> str:
        """As RocketMQ prints it: "[<=0ms]:7 [0~10ms]:1 ..."."""
        return " ".join(
            f"[{name}]:{count}" for name, count in zip(NAMES, self._counts, strict=True)
        )


# Broker stats --------------------------------------------------------------------------------


MESSAGE_SIZE_BYTES = (1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20)
"""Bounds of the classes of message sizes: RocketMQ's."""
MESSAGE_TYPES = ("normal", "fifo", "delay", "transaction")
"""Types of messages: RocketMQ's names in its metrics, by the numbers of `send_properties.py`."""

SLICE_ITEMS = 500
"""Items sampled in one tick, well under a millisecond."""

DAY_MS = 86_400_000


class Stats:
    """Counters by (name, key), the broker's totals, and yesterday's and today's morning marks."""

    def __init__(self, now: int, wall: int, cluster: str = "") -> None:
        """`cluster` is the key of the broker's own counters."""
        self.put = Meter()
        self.put_failed = 0
        """Messages that the store did not take."""
        self.put_times = PutTimes()
        self.message_sizes: HistogramTable[tuple[str, str]] = HistogramTable(
            MESSAGE_SIZE_BYTES, TOPICS_MAX * len(MESSAGE_TYPES)
        )
        """Bytes of the records of sent messages, by topic and one of `MESSAGE_TYPES`."""
        self.put_bytes = Meter()
        self.get_found = Meter()
        """Messages handed to consumers."""
        self.pull_hits = Meter()
        """Pull requests answered with messages."""
        self.pull_misses = Meter()
        self.put_yesterday_morning = self.put_today_morning = 0
        self.get_yesterday_morning = self.get_today_morning = 0
        self._items: dict[str, dict[str, StatsItem]] = {}
        self._count = 0
        self._overflow = StatsItem()
        self._reads: dict[tuple[str, int, str, bool | None], QueueReads] = {}
        self._used_reads: list[QueueReads] = []
        self.pops: dict[tuple[str, str, bool], PopCount] = {}
        """What groups popped, by topic, group, and whether it came from the retry topics.

        The same messages are counted under `GROUP_GET_NUMS` and `GROUP_GET_SIZE`, too.
        """
        self._cluster = cluster
        self._queue: list[StatsItem] = []
        """Items still to be sampled in this round."""
        self._round_at = now
        self._second_at = now
        self._day = wall // DAY_MS

    def item(self, name: str, key: str) -> StatsItem:
        """The item to add to; made on first use."""
        items = self._items.get(name)
        if items is None:
            items = self._items[name] = {}
        item = items.get(key)
        if item is None:
            if self._count >= STAT_ITEMS_MAX:
                return self._overflow
            self._count += 1
            item = items[key] = StatsItem()
        return item

    def add(self, name: str, key: str, value: int, times: int = 1) -> None:
        item = self.item(name, key)
        item.value += value
        item.times += times

    def find(self, name: str, key: str) -> StatsItem | None:
        """The item when something was counted under it."""
        self._hand_over()
        return self._items.get(name, {}).get(key)

    def items(self, name: str) -> list[tuple[str, StatsItem]]:
        """Return (key, item) of everything that was counted under a name."""
        self._hand_over()
        return list(self._items.get(name, {}).items())

    def read(
        self,
        topic: str,
        queue_id: int,
        group: str,
        messages: int,
        size: int,
        *,
        next_offset: int = 0,
        is_retry: bool | None = None,
    ) -> None:
        """Count messages that were delivered to a group.

        Args:
            topic, queue_id, group: what was read, by whom; the topic itself for its retry topics.
            messages, size: how many, and the bytes of their records.
            next_offset: queue offset after the last message, for pulls.
            is_retry: for POP, whether the messages came from the retry topics.
        """
        reads = self._reads.get((topic, queue_id, group, is_retry))
        if reads is None:
            reads = QueueReads(topic, queue_id, group, is_retry)
            if len(self._reads) < STAT_ITEMS_MAX:
                self._reads[reads.key] = reads
        if not reads.used:
            reads.used = True
            self._used_reads.append(reads)
        reads.times += 1
        reads.messages += messages
        reads.bytes += size
        reads.next_offset = next_offset
        self.get_found.total += messages

    def pulled_to(self, topic: str, queue_id: int, group: str) -> int:
        """Return the queue offset after the last message that a group pulled; 0 if unknown."""
        reads = self._reads.get((topic, queue_id, group, None))
        return 0 if reads is None else reads.next_offset

    def forget_pulled(self, topic: str, group: str) -> None:
        """Forget the pull positions of a group in a topic, because its offset was changed."""
        for key, reads in self._reads.items():
            if key[0] == topic and key[2] == group:
                reads.next_offset = 0

    def _hand_over(self) -> None:
        """Add what was read to the items, and the broker's totals to its own."""
        used, self._used_reads = self._used_reads, []
        for reads in used:
            topic, queue_id, group, is_retry = reads.key
            of_group, of_queue = f"{topic}@{group}", f"{topic}@{queue_id}@{group}"
            for name, key, value in (
                (GROUP_GET_NUMS, of_group, reads.messages),
                (GROUP_GET_SIZE, of_group, reads.bytes),
                (QUEUE_GET_NUMS, of_queue, reads.messages),
                (QUEUE_GET_SIZE, of_queue, reads.bytes),
            ):
                self.add(name, key, value, reads.times)
            if is_retry is not None:
                self._count_pops((topic, group, is_retry), reads)
            reads.used = False
            reads.times = reads.messages = reads.bytes = 0
        own = ((BROKER_PUT_NUMS, self.put.total), (BROKER_GET_NUMS, self.get_found.total))
        for name, total in own:
            if total:
                item = self.item(name, self._cluster)
                item.value = item.times = total

    def _count_pops(self, key: tuple[str, str, bool], reads: QueueReads) -> None:
        count = self.pops.get(key)
        if count is None:
            if len(self.pops) >= STAT_ITEMS_MAX:
                return
            count = self.pops[key] = PopCount()
        count.messages += reads.messages
        count.bytes += reads.bytes

    def forget(self, part: str) -> None:
        """Drop the items of a deleted topic or group: those with `part` between the `@`s."""
        self._hand_over()
        for queue in [key for key in self._reads if part in (key[0], key[2])]:
            del self._reads[queue]
        for popped in [key for key in self.pops if part in key[:2]]:
            del self.pops[popped]
        self.message_sizes.forget(lambda key: key[0] == part)
        for name, items in self._items.items():
            if name not in (BROKER_PUT_NUMS, BROKER_GET_NUMS):
                gone = [key for key in items if part in key.split("@")]
                self._count -= len(gone)
                for key in gone:
                    del items[key]

    def tick(self, now: int, wall: int) -> None:
        """Take the samples that are due, at most a slice of the items."""
        if now >= self._second_at:
            self._second_at = now + SAMPLE_MS
            for meter in self._meters():
                meter.sample(now)
        if wall // DAY_MS != self._day:
            self._turn_day(wall)
        self._hand_over()
        if now >= self._round_at and not self._queue:
            self._round_at = now + MINUTE_STEP_MS
            self._queue = [item for items in self._items.values() for item in items.values()]
        for item in self._queue[:SLICE_ITEMS]:
            item.sample(now)
        del self._queue[:SLICE_ITEMS]

    def next_deadline(self, now: int) -> int:
        """Monotonic ms of the next tick that does something."""
        return now if self._queue else min(self._second_at, self._round_at)

    def statistics(self) -> dict[str, int]:
        return {"items": self._count, "put": self.put.total, "get": self.get_found.total}

    def _meters(self) -> tuple[Meter, ...]:
        return (self.put, self.put_bytes, self.get_found, self.pull_hits, self.pull_misses)

    def _turn_day(self, wall: int) -> None:
        self._day = wall // DAY_MS
        self.put_yesterday_morning, self.put_today_morning = self.put_today_morning, self.put.total
        self.get_yesterday_morning = self.get_today_morning
        self.get_today_morning = self.get_found.total
