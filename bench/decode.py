"""Rows a second a core from raw records to Arrow batches, by choice of columns.

The log is made up in memory: bodies of 600 to 1199 random bytes, five properties, hosts IPv4.
"""

import random
import time
from collections.abc import Callable

from epochmq.model import record
from epochmq.model.host import pack
from epochmq.spark.decode import Decoder, chase

RECORDS = 150_000
CHUNK_BYTES = 1024 * 1024
"""What one bulk read gives; the decoder is fed such pieces, and the whole log."""
ROUNDS = 5
HEADER = "| columns | M rows/s, whole log | MB/s | M rows/s, 1 MiB pieces | ns a row |"


def table() -> str:
    """One row a choice of columns, the best of some rounds, on one core."""
    log = made_up()
    pieces = cut(log, CHUNK_BYTES)
    lines = [HEADER, "|---|---|---|---|---|"]
    for name, run in choices().items():
        whole = min(timed(run, [log]) for _ in range(ROUNDS))
        parts = min(timed(run, pieces) for _ in range(ROUNDS))
        lines.append(
            f"| {name} | {RECORDS / whole / 1e6:.2f} | {len(log) / whole / 1e6:,.0f} |"
            f" {RECORDS / parts / 1e6:.2f} | {whole / RECORDS * 1e9:.0f} |"
        )
    note = f"{RECORDS:,} records, {len(log) / RECORDS:.0f} bytes each, one thread"
    return "\n".join([*lines, "", note])


def choices() -> dict[str, Callable[[memoryview], None]]:
    """What is measured, by the name of its row."""
    plain = [n for n in Decoder().schema.names if n not in _OF_PROPERTIES]
    return {
        "where records begin": _only_chase,
        "body": through(Decoder(["body"])),
        "all that need no properties": through(Decoder(plain)),
        "all but the map": through(Decoder(properties="none")),
        "all, properties as text": through(Decoder(properties="raw")),
        "all, properties as a map": through(Decoder()),
        "topic, queueOffset": through(Decoder(["topic", "queueOffset"])),
    }


def _only_chase(view: memoryview) -> None:
    chase(view)


_OF_PROPERTIES = {"tags", "keys", "properties", "msgId"}


def through(decoder: Decoder) -> Callable[[memoryview], None]:
    """Decode a buffer and drop the batches."""

    def run(view: memoryview) -> None:
        for _ in decoder.batches(view, "broker-a"):
            pass

    return run


def timed(run: Callable[[memoryview], None], buffers: list[memoryview]) -> float:
    """CPU seconds that all buffers take: other work on the machine does not count."""
    began = time.process_time()
    for buffer in buffers:
        run(buffer)
    return time.process_time() - began


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
