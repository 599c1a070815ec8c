"""A small store on a simulated disk, a scripted workload, and what must hold after a crash."""

from collections.abc import Callable, Iterator
from random import Random

import msgspec
from sim.kernel.disk import PowerCut, SimDisk

from epochmq.model.record import decode, properties_at, sys_flag_at
from epochmq.model.sys_flag import INNER_BATCH, NEED_UNWRAP
from epochmq.model.tags import tags_code
from epochmq.store.batch_queue import inner_count
from epochmq.store.draft import Appended, Draft
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))

SMALL = StoreOptions(
    commit_log_file_bytes=4096,
    consume_queue_file_bytes=200,
    batch_queue_file_bytes=460,
    index_slots=16,
    index_items=24,
    queue_write_interval_ms=20,
    queue_sync_interval_ms=100,
    index_sync_interval_ms=150,
    checkpoint_interval_ms=30,
    disk_check_interval_ms=10,
    disk_used_ratio=1.0,
    disk_warning_ratio=1.0,
    disk_forcibly_ratio=1.0,
)


TOPICS = ("T0", "T1", "T2")
BATCH_TOPICS = ("Batch0", "Batch1", "T2")


def has_batch_queues(topic: str) -> bool:
    """What a broker's topics say: those that begin with Batch keep batches as one record."""
    return topic.startswith("Batch")


def inner_batch(plain: Draft, count: int) -> Draft:
    """`plain` as the record of a batch of `count` messages; nobody looks into its body."""
    properties = plain.properties + b"\x02INNER_NUM\x01%d" % count
    flags = NEED_UNWRAP | INNER_BATCH
    return msgspec.structs.replace(plain, properties=properties, sys_flag=flags)


def draft(
    number: int, rng: Random, topic: str | None = None, topics: tuple[str, ...] = TOPICS
) -> Draft:
    """Message `number`: its body says who it is, its length varies."""
    tag = rng.choice(("", "A", "B"))
    properties = f"KEYS\x01k{number}\x02" + (f"TAGS\x01{tag}\x02" if tag else "")
    # Two lengths are common: old bytes behind a cut then fit exactly behind new ones.
    properties += "p\x01" + "x" * rng.choice((10, 10, 300, rng.randint(1, 600)))
    topic = topic or topics[rng.randrange(3)]
    made = Draft(
        topic,
        rng.randrange(2),
        f"{number}:".encode() + rng.randbytes(rng.choice((20, 20, 200, 700))),
        properties.encode(),
        tags_code(tag or None),
        (f"k{number}",),
        born_host=HOST,
    )
    return inner_batch(made, number % 5 + 1) if has_batch_queues(topic) and number % 4 else made


BOOT = "the machine's first boot"
"""A killed process starts again in the same one."""


class World:
    """Remembers what was sent and what was promised."""

    def __init__(self, options: StoreOptions = SMALL, disk: SimDisk | None = None) -> None:
        self.options = options
        self.disk = disk or SimDisk()
        self.now = 0
        self.wall = 1_700_000_000_000
        self.boot = BOOT
        self.store: Store | None = None
        self.sent: dict[int, Draft] = {}
        self.placed: dict[int, tuple[Draft, Appended]] = {}
        """By log offset: everything the store said it has appended."""
        self.promised: dict[int, tuple[Draft, Appended]] = {}
        """The part of it that must survive a power cut."""

    def open(self) -> Store:
        self.store = Store.open(
            self.disk, self.options, HOST, self.wall, has_batch_queues, boot=self.boot
        )
        return self.store

    def pass_time(self, ms: int) -> None:
        self.now += ms
        self.wall += ms
        self.disk.wall_ms = self.wall

    def append(self, drafts: list[Draft]) -> None:
        assert self.store is not None
        for number, one in enumerate(drafts, len(self.sent)):
            self.sent[number] = one
        for one, result in zip(drafts, self.store.append(drafts, self.wall), strict=True):
            if isinstance(result, Appended):
                self.placed[result.offset] = (one, result)

    def sync(self) -> None:
        assert self.store is not None
        upto = self.store.pointers.appended
        self.store.sync()
        self.promised.update({k: v for k, v in self.placed.items() if k < upto})

    def tick(self) -> None:
        assert self.store is not None
        self.store.tick(self.now, self.wall)
        self.store.chores.run_all()
        self.store.pointers.check_order()

    def check(self) -> None:
        """After a recovery: promises kept, nothing torn or unknown, no gap, derived = rebuilt."""
        store = self.store
        assert store is not None
        sent = {(d.topic, d.body, d.properties) for d in self.sent.values()}
        start = store.pointers.start
        for offset, (mine, place) in self.promised.items():
            if offset < start:
                continue  # retention took it
            record = store.message_at(offset)
            assert record is not None, f"lost: acked record at {offset}"
            found = decode(record)
            assert (found.topic, found.queue_id, found.body) == (
                mine.topic,
                mine.queue_id,
                mine.body,
            )
            assert found.queue_offset == place.queue_offset
        for topic, queue_id, offset, record in everything(store):
            message = decode(record)
            assert (message.topic, message.queue_id, message.queue_offset) == (
                topic,
                queue_id,
                offset,
            )
            properties = bytes(properties_at(record, 0)).partition(b"\x02INNER_BASE")[0]
            assert (topic, message.body, properties) in sent, "torn or phantom"
            for key in message.keys:
                found_by_key = store.query_index(topic, key, 9, 0, 1 << 60).records
                assert record in found_by_key, f"key {key} does not lead to {message.offset}"
        assert store.verify().problems == []
        store.pointers.check_order()


def everything(store: Store) -> Iterator[tuple[str, int, int, memoryview]]:
    """(topic, queue id, queue offset, record) of all that readers see; no offset may be missing."""
    for topic in store.topics():
        for queue_id in store.queues(topic):
            low, high = store.queue_bounds(topic, queue_id)
            at = low
            while at < high:
                found = store.read_queue(topic, queue_id, at, 7, 1 << 20)
                assert found.count > 0, f"gap: {topic}/{queue_id} at {at}: {found}"
                for chunk in found.chunks:
                    view = chunk
                    while len(view):
                        size = int.from_bytes(view[:4], "big")
                        record = view[:size]
                        yield topic, queue_id, at, record
                        properties = bytes(properties_at(record, 0))
                        at += inner_count(sys_flag_at(record, 0), properties)
                        view = view[size:]
                assert at == found.next_offset


def state(store: Store) -> object:
    """What recovery must reproduce: the log's bytes and the queues' ends."""
    log = {
        segment.start: bytes(segment.view[: max(0, store.pointers.appended - segment.start)])
        for segment in store._log.segments
    }
    queues = sorted(
        (t, q, store.queue_bounds(t, q)) for t in store.topics() for q in store.queues(t)
    )
    return store.pointers.appended, log, queues


def script(world: World, seed: int, steps: int = 60, topics: tuple[str, ...] = TOPICS) -> None:
    """A workload drawn from `seed`: runs of messages, syncs, ticks, clean restarts."""
    rng = Random(f"{seed}:script")
    world.open()
    for _ in range(steps):
        world.pass_time(rng.choice((1, 5, 20, 4000)))
        choice = rng.randrange(10)
        if choice < 5:
            first = len(world.sent)
            world.append(
                [draft(first + i, rng, None, topics) for i in range(rng.choice((1, 1, 2, 5)))]
            )
        elif choice < 7:
            world.sync()
        elif choice < 9:
            world.tick()
        elif rng.randrange(4) == 0:
            assert world.store is not None
            world.store.close(world.wall)
            world.promised.update(world.placed)
            world.open()


def crash_at(
    operation: int,
    run: Callable[[World], None],
    options: StoreOptions,
    disk: SimDisk | None = None,
) -> World | None:
    """Run until disk operation `operation`; None when the script ended before it."""
    world = World(options, disk)
    world.disk.stop_at = operation
    try:
        run(world)
    except PowerCut:
        return world
    return None
