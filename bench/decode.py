"""Rows a second a core from raw records to Arrow batches, by choice of columns.

The log is made up in memory: bodies of 600 to 1199 random bytes, five properties, hosts IPv4.
"""

import random
import time
from collections.abc import Callable

import numpy as np

from epochmq.model import record
from epochmq.model.host import pack
from epochmq.spark.decode import Decoder, chase
from epochmq.store.native.library import which

RECORDS = 60_000
PIECES_MIB = (2, 8)
"""The decoder is fed pieces of such sizes, as bulk reads give them."""
ROUNDS = 15


def table() -> str:
    """One row a choice of columns: CPU time on one core."""
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


def through(decoder: Decoder) -> Callable[[memoryview], None]:
    """Decode a buffer and drop the batches."""

    def run(view: memoryview) -> None:
        for _ in decoder.batches(view, "broker-a"):
            pass

    return run


def least(run: Callable[[memoryview], None], pieces: list[memoryview]) -> float:
    """CPU seconds for all pieces, the best of some rounds of each: other work hardly counts."""
    best = [float("inf")] * len(pieces)
    for _ in range(ROUNDS):
        for at, piece in enumerate(pieces):
            began = time.thread_time()
            run(piece)
            best[at] = min(best[at], time.thread_time() - began)
    return sum(best)


def made_up() -> memoryview:
    """The log."""
    rng = random.Random(7)
    pool = rng.randbytes(64 * 1024)
    store = pack("10.0.0.9", 10911)
    hosts = [pack(f"10.0.1.{n}", 40_000 + n) for n in range(50)]
    parts = []
    offset = 0
    for at in range(RECORDS):
        begin = rng.randrange(60_000)
        parts.append(
            record.encode(
                b"flights-2013",
                pool[begin : begin + rng.randrange(600, 1200)],
                _properties(at, rng),
                at % 8,
                0,
                at // 8,
                offset,
                0,
                1_700_000_000_000 + at,
                rng.choice(hosts),
                1_700_000_000_001 + at,
                store,
                0,
                0,
                crc=0,
            )
        )
        offset += len(parts[-1])
    return memoryview(b"".join(parts))


def _properties(at: int, rng: random.Random) -> bytes:
    return (
        f"KEYS\x01order-{at}\x02UNIQ_KEY\x010A0001090CD8{at:020X}\x02WAIT\x01true\x02"
        f"TAGS\x01tag{rng.randrange(8)}\x02CLUSTER\x01DefaultCluster"
    ).encode()


def cut(log: memoryview, size: int) -> list[memoryview]:
    """Whole records, about `size` bytes together."""
    starts = [*chase(log).tolist(), len(log)]
    found, begin = [], 0
    for start in starts[1:]:
        if start - begin >= size or start == len(log):
            found.append(log[begin:start])
            begin = start
    return found
