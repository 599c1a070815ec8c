"""Creates test messages that contain their number, and reads the number back."""

from collections.abc import Iterator
from random import Random

from epochmq.model.record import body_span
from epochmq.store.draft import Draft
from epochmq.store.store import Store

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
TOPICS = ("T0", "T1")
QUEUES = 2


def draft(number: int, chance: Random, size_max: int = 400) -> Draft:
    """Create message `number`; a few sizes are frequent, so that old bytes align with new ones."""
    size = chance.choice((20, 20, 20, 120, chance.randint(1, size_max)))
    topic = TOPICS[chance.randrange(len(TOPICS))]
    body = b"%d:" % number + chance.randbytes(size)
    key = f"k{number}"
    return Draft(
        topic, chance.randrange(QUEUES), body, f"KEYS\x01{key}\x02".encode(), 0, (key,),
        born_host=HOST,
    )  # fmt: skip


def number_of(record: memoryview | bytes, at: int = 0) -> int:
    """Return the number in the record at `at`; -1 when it is not a test message."""
    begin, end = body_span(record, at)
    text, colon, _ = bytes(record[begin : min(end, begin + 12)]).partition(b":")
    return int(text) if colon and text.isdigit() else -1


def records(chunks: list[memoryview]) -> Iterator[memoryview]:
    """Yield each record in the chunks of a read."""
    for chunk in chunks:
        at = 0
        while at < len(chunk):
            size = int.from_bytes(chunk[at : at + 4], "big")
            yield chunk[at : at + size]
            at += size


def queue_offset_of(record: memoryview) -> int:
    return int.from_bytes(record[20:28], "big")


def offset_of(record: memoryview) -> int:
    return int.from_bytes(record[28:36], "big")


def read_all(store: Store, topic: str, queue_id: int) -> list[memoryview]:
    """Read a whole queue from its first offset on."""
    at, high = store.queue_bounds(topic, queue_id)
    found: list[memoryview] = []
    while at < high:
        result = store.read_queue(topic, queue_id, at, 32, 1 << 20)
        if result.count == 0:
            break
        found.extend(records(result.chunks))
        at = result.next_offset
    return found
