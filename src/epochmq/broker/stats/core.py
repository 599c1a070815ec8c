"""All counters of a broker, sampled in slices so that no tick takes long.

The hot paths keep the `Item` they add to and never look it up by name; a full table counts into
one shared item nobody reads, so a flood of topics costs no memory (limits.STAT_ITEMS_MAX).
"""

from epochmq.base.limits import STAT_ITEMS_MAX
from epochmq.broker.stats.item import MINUTE_STEP_MS, Item
from epochmq.broker.stats.meter import SAMPLE_MS, Meter

SLICE_ITEMS = 500
"""Items sampled in one tick, well under a millisecond."""

DAY_MS = 86_400_000


class Stats:
    """Counters by (name, key), the broker's totals, and yesterday's and today's morning marks."""

    def __init__(self, now: int, wall: int) -> None:
        self.put = Meter()
        self.put_bytes = Meter()
        self.get_found = Meter()
        """Messages handed to consumers."""
        self.pull_hits = Meter()
        """Pull requests answered with messages."""
        self.pull_misses = Meter()
        self.put_yesterday_morning = self.put_today_morning = 0
        self.get_yesterday_morning = self.get_today_morning = 0
        self._items: dict[tuple[str, str], Item] = {}
        self._overflow = Item()
        self._queue: list[Item] = []
        """Items still to be sampled in this round."""
        self._round_at = now
        self._second_at = now
        self._day = wall // DAY_MS

    def item(self, name: str, key: str) -> Item:
        """The item to add to; made on first use."""
        item = self._items.get((name, key))
        if item is None:
            if len(self._items) >= STAT_ITEMS_MAX:
                return self._overflow
            item = self._items[(name, key)] = Item()
        return item

    def add(self, name: str, key: str, value: int, times: int = 1) -> None:
        item = self.item(name, key)
        item.value += value
        item.times += times

    def find(self, name: str, key: str) -> Item | None:
        """The item when something was counted under it."""
        return self._items.get((name, key))

    def forget(self, part: str) -> None:
        """Drop the items of a deleted topic or group: those with `part` between the `@`s."""
        gone = [at for at in self._items if part in at[1].split("@")]
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
