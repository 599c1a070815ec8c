"""Rows a second a core from raw records to Arrow batches, by columns and by sort of record.

The log is made up in memory: bodies of 600 to 1199 random bytes, five properties, hosts IPv4. In
the second table some of the records are of another sort.
"""

import random
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from epochmq.model import record
from epochmq.model.host import pack
from epochmq.model.sys_flag import COMPRESSED, COMPRESSION_ZLIB, TX_PREPARED
from epochmq.native.library import which
from epochmq.spark.decode import Decoder, chase

RECORDS = 60_000
PIECES_MIB = (2, 8)
"""The decoder is fed pieces of such sizes, as bulk reads give them."""
ROUNDS = 15
SORT_RECORDS = 20_000
SORT_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Sort:
    """What each `every`-th record has that the others have not; 0: none of them."""

    every: int = 0
    flags: int = 0
    born: str = ""
    has_id: bool = True
    topic: bytes = b"flights-2013"
    only: tuple[int, int] | None = None
    """The range of queue offsets that is asked for."""


SORTS = {
    "ordinary": Sort(),
    "ordinary, of a range of queue offsets": Sort(only=(0, 2**62)),
    "10 % compressed": Sort(10, COMPRESSED | COMPRESSION_ZLIB),
    "all compressed": Sort(1, COMPRESSED | COMPRESSION_ZLIB),
    "one in 1,000 with IPv6": Sort(1000, born="2001:db8::7"),
    "10 % with IPv6": Sort(10, born="2001:db8::7"),
    "all with IPv6": Sort(1, born="2001:db8::7"),
    "10 % half messages": Sort(10, TX_PREPARED),
    "10 % without a client's id": Sort(10, has_id=False),
    "all without a client's id": Sort(1, has_id=False),
    "10 % with a topic of 140 bytes": Sort(10, topic=b"%RETRY%" + b"g" * 133),
}
"""What logs hold, by the name of its row."""


def table() -> str:
    """One row a choice of columns, and one a sort of record: CPU time on one core."""
    return f"{_by_columns()}\n\n{by_sort()}"


def _by_columns() -> str:
    log = made_up()
    sizes = [cut(log, mib << 20) for mib in PIECES_MIB]
    heads = " | ".join(f"{mib} MiB pieces: M rows/s | MB/s | ns a row" for mib in PIECES_MIB)
    lines = [f"| columns | {heads} |", "|---" * (1 + 3 * len(sizes)) + "|"]
    for name, run in choices().items():
        cells = " | ".join(_cells(least(run, pieces), len(log)) for pieces in sizes)
        lines.append(f"| {name} | {cells} |")
    note = (
        f"{RECORDS:,} records of {len(log) / RECORDS:.0f} bytes, CPU time of one thread, of each"
        f" piece the best of {ROUNDS} rounds; native code: {which()}"
    )
    return "\n".join([*lines, "", note])


def by_sort(names: list[str] | None = None) -> str:
    """Nanoseconds a record by what the log holds, with all columns and with two."""
    lines = ["| records | all columns: ns a record | topic, queueOffset |", "|---|---|---|"]
    decoders = Decoder(), Decoder(["topic", "queueOffset"])
    for name in names or SORTS:
        sort = SORTS[name]
        pieces = cut(made_up(SORT_RECORDS, sort), PIECES_MIB[0] << 20)
        runs = (least(through(each, sort.only), pieces, SORT_ROUNDS) for each in decoders)
        cells = " | ".join(f"{seconds / SORT_RECORDS * 1e9:.0f}" for seconds in runs)
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def _cells(seconds: float, size: int) -> str:
    per_row = seconds / RECORDS
    return f"{1e-6 / per_row:.2f} | {size / seconds / 1e6:,.0f} | {per_row * 1e9:.0f}"


def choices() -> dict[str, Callable[[memoryview], None]]:
    """What is measured, by the name of its row."""
    plain = [n for n in Decoder().schema.names if n not in _OF_PROPERTIES]
    return {
        "(reading through the bytes)": _read_through,
        "(where records begin, without the native code)": _only_chase,
        "body": through(Decoder(["body"])),
        "all that need no properties": through(Decoder(plain)),
        "all but the map": through(Decoder(properties="none")),
        "all, properties as text": through(Decoder(properties="raw")),
        "all, properties as a map": through(Decoder()),
        "topic, queueOffset": through(Decoder(["topic", "queueOffset"])),
    }


def _read_through(view: memoryview) -> None:
    np.frombuffer(view, np.uint8).max()


def _only_chase(view: memoryview) -> None:
    chase(view)


_OF_PROPERTIES = {"tags", "keys", "properties", "msgId"}


def through(decoder: Decoder, only: tuple[int, int] | None = None) -> Callable[[memoryview], None]:
    """Decode a buffer and drop the batches."""

    def run(view: memoryview) -> None:
        for _ in decoder.batches(view, "broker-a", queue_offsets=only):
            pass

    return run


def least(
    run: Callable[[memoryview], None], pieces: list[memoryview], rounds: int = ROUNDS
) -> float:
    """CPU seconds for all pieces, the best of some rounds of each: other work hardly counts."""
    best = [float("inf")] * len(pieces)
    for _ in range(rounds):
        for at, piece in enumerate(pieces):
            began = time.thread_time()
            run(piece)
            best[at] = min(best[at], time.thread_time() - began)
    return sum(best)


def made_up(records: int = RECORDS, sort: Sort = SORTS["ordinary"]) -> memoryview:
    """The log."""
    rng = random.Random(7)
    pool = rng.randbytes(64 * 1024)
    store = pack("10.0.0.9", 10911)
    hosts = [pack(f"10.0.1.{n}", 40_000 + n) for n in range(50)]
    parts = []
    offset = 0
    for at in range(records):
        begin = rng.randrange(60_000)
        body, born = pool[begin : begin + rng.randrange(600, 1200)], rng.choice(hosts)
        its = sort if sort.every and rng.randrange(sort.every) == 0 else SORTS["ordinary"]
        if its.flags & COMPRESSED:
            body = zlib.compress(body.hex().encode(), 5)
        parts.append(
            record.encode(
                its.topic,
                body,
                _properties(at, rng, its.has_id),
                at % 8,
                0,
                at // 8,
                offset,
                its.flags,
                1_700_000_000_000 + at,
                pack(its.born, 40_000) if its.born else born,
                1_700_000_000_001 + at,
                store,
                0,
                0,
                crc=0,
            )
        )
        offset += len(parts[-1])
    return memoryview(b"".join(parts))


def _properties(at: int, rng: random.Random, has_id: bool) -> bytes:
    text = (
        f"KEYS\x01order-{at}\x02UNIQ_KEY\x010A0001090CD8{at:020X}\x02WAIT\x01true\x02"
        f"TAGS\x01tag{rng.randrange(8)}\x02CLUSTER\x01DefaultCluster"
    )
    return (text if has_id else text.replace("UNIQ_KEY", "OTHER_ID")).encode()


def cut(log: memoryview, size: int) -> list[memoryview]:
    """Whole records, about `size` bytes together."""
    starts = [*chase(log).tolist(), len(log)]
    found, begin = [], 0
    for start in starts[1:]:
        if start - begin >= size or start == len(log):
            found.append(log[begin:start])
            begin = start
    return found
