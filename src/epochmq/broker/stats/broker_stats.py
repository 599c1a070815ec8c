"""All counters of a broker, sampled in slices so that no tick takes long.

The hot paths keep the `StatsItem` they add to and never look it up by name; a full table counts
into one shared item nobody reads, so a flood of topics costs no memory (limits.STAT_ITEMS_MAX).
"""

from epochmq.base.limits import STAT_ITEMS_MAX
from epochmq.broker.stats import stat_names as stat
from epochmq.broker.stats.item import MINUTE_STEP_MS, StatsItem
from epochmq.broker.stats.meter import SAMPLE_MS, Meter
from epochmq.broker.stats.read_stats import QueueReads
from epochmq.broker.stats.times import PutTimes

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
        self.put_bytes = Meter()
        self.get_found = Meter()
        """Messages handed to consumers."""
        self.pull_hits = Meter()
        """Pull requests answered with messages."""
        self.pull_misses = Meter()
        self.put_yesterday_morning = self.put_today_morning = 0
        self.get_yesterday_morning = self.get_today_morning = 0
        self._items: dict[tuple[str, str], StatsItem] = {}
        self._overflow = StatsItem()
        self._reads: dict[tuple[str, int, str], QueueReads] = {}
        self._used_reads: list[QueueReads] = []
        self._cluster = cluster
        self._queue: list[StatsItem] = []
        """Items still to be sampled in this round."""
        self._round_at = now
        self._second_at = now
        self._day = wall // DAY_MS

    def item(self, name: str, key: str) -> StatsItem:
        """The item to add to; made on first use."""
        item = self._items.get((name, key))
        if item is None:
            if len(self._items) >= STAT_ITEMS_MAX:
                return self._overflow
            item = self._items[(name, key)] = StatsItem()
        return item

    def add(self, name: str, key: str, value: int, times: int = 1) -> None:
        item = self.item(name, key)
        item.value += value
        item.times += times

    def find(self, name: str, key: str) -> StatsItem | None:
        """The item when something was counted under it."""
        self._hand_over()
        return self._items.get((name, key))

    def read(
        self, topic: str, queue_id: int, group: str, messages: int, size: int, next_offset: int
    ) -> None:
        """Messages were handed to a group; `next_offset` 0 where it has no order (POP)."""
        reads = self._reads.get((topic, queue_id, group))
        if reads is None:
            reads = QueueReads(topic, queue_id, group)
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
        """Behind the last message that a group pulled of a queue; 0 when none is known."""
        reads = self._reads.get((topic, queue_id, group))
        return 0 if reads is None else reads.next_offset

    def forget_pulled(self, topic: str, group: str) -> None:
        """The group begins elsewhere in the topic."""
        for key, reads in self._reads.items():
            if key[0] == topic and key[2] == group:
                reads.next_offset = 0

    def _hand_over(self) -> None:
        """Add what was read to the items, and the broker's totals to its own."""
        used, self._used_reads = self._used_reads, []
        for reads in used:
            topic, queue_id, group = reads.key
            of_group, of_queue = f"{topic}@{group}", f"{topic}@{queue_id}@{group}"
            for name, key, value in (
                (stat.GROUP_GET_NUMS, of_group, reads.messages),
                (stat.GROUP_GET_SIZE, of_group, reads.bytes),
                (stat.QUEUE_GET_NUMS, of_queue, reads.messages),
                (stat.QUEUE_GET_SIZE, of_queue, reads.bytes),
            ):
                self.add(name, key, value, reads.times)
            reads.used = False
            reads.times = reads.messages = reads.bytes = 0
        own = ((stat.BROKER_PUT_NUMS, self.put.total), (stat.BROKER_GET_NUMS, self.get_found.total))
        for name, total in own:
            if total:
                item = self.item(name, self._cluster)
                item.value = item.times = total

    def forget(self, part: str) -> None:
        """Drop the items of a deleted topic or group: those with `part` between the `@`s."""
        self._hand_over()
        for queue in [key for key in self._reads if part in (key[0], key[2])]:
            del self._reads[queue]
        own = (stat.BROKER_PUT_NUMS, stat.BROKER_GET_NUMS)
        gone = [at for at in self._items if part in at[1].split("@") and at[0] not in own]
        for at in gone:
            del self._items[at]

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
            self._queue = list(self._items.values())
        for item in self._queue[:SLICE_ITEMS]:
            item.sample(now)
        del self._queue[:SLICE_ITEMS]

    def next_deadline(self, now: int) -> int:
        """Monotonic ms of the next tick that does something."""
        return now if self._queue else min(self._second_at, self._round_at)

    def statistics(self) -> dict[str, int]:
        return {"items": len(self._items), "put": self.put.total, "get": self.get_found.total}

    def _meters(self) -> tuple[Meter, ...]:
        return (self.put, self.put_bytes, self.get_found, self.pull_hits, self.pull_misses)

    def _turn_day(self, wall: int) -> None:
        self._day = wall // DAY_MS
        self.put_yesterday_morning, self.put_today_morning = self.put_today_morning, self.put.total
        self.get_yesterday_morning = self.get_today_morning
        self.get_today_morning = self.get_found.total
