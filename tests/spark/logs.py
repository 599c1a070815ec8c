"""Log files for tests: made record by record, or written by a real store in a directory."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.store.replicas import fill
from tests.store.world import HOST, SMALL

from epochmq.model.record import BLANK, MAGIC_BLANK, encode
from epochmq.runtime.disk import RealDisk
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store

V6 = bytes(range(16)) + bytes((0, 0, 42, 159))
WALL = 1_700_000_000_000


def record(offset: int, number: int, rng: Random) -> bytes:
    """A sound record; hosts, topic length (V2 above 127) and sizes vary."""
    topic = rng.choice((b"T", b"topic-b", b"%RETRY%" + b"g" * 130))
    return encode(
        topic,
        b"%d:" % number + rng.randbytes(rng.choice((0, 5, 60, 900))),
        b"KEYS\x01k%d\x02" % number,
        rng.randrange(4),
        0,
        number,
        offset,
        0,
        WALL + number,
        rng.choice((HOST, V6)),
        WALL + number,
        rng.choice((HOST, V6)),
        0,
        0,
    )


@dataclass
class LogImage:
    """One file's bytes, where its records are, and where its filler begins."""

    data: bytearray
    base: int
    records: list[tuple[int, int]]
    filler: int


def image(count: int, seed: int, base: int = 1 << 20, room: int = 40) -> LogImage:
    """`count` records and a filler of `room` bytes."""
    rng = Random(seed)
    data, records = bytearray(), []
    for number in range(count):
        made = record(base + len(data), number, rng)
        records.append((base + len(data), len(made)))
        data += made
    filler = base + len(data)
    data += BLANK.pack(room, MAGIC_BLANK) + bytes(room - BLANK.size)
    return LogImage(data, base, records, filler)


def written(root: Path, count: int, options: StoreOptions = SMALL, seed: int = 1) -> Store:
    """A store of `count` messages in `root`, still open, everything in its files."""
    store = Store.open(RealDisk(str(root)), options, HOST, WALL)
    fill(store, count, seed)
    store.sync()
    return store


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything in a directory: sizes, times of change, bytes."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
