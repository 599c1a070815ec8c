"""Many acknowledgements in one request, for a broker that knows 200151."""

import base64
from collections.abc import Iterable

from epochmq.client.core.pop_handle import ORDERED_REVIVE_QUEUE, PopHandle
from epochmq.wire.bodies.pop_bodies import BatchAck, BatchAckBody

SPAN_MAX = 1_024
"""Offsets between the check point and a message that a bit set may cover."""

_Key = tuple[int, int, int, int, str, int]


def batches(
    broker_name: str, group: str, topic: str, handles: Iterable[PopHandle]
) -> tuple[BatchAckBody, list[PopHandle]]:
    """One body for `handles` of one broker and topic, and those that must go one by one.

    Acks in order go alone: there the answer tells whether the message was still ours.
    """
    rows: dict[_Key, set[int]] = {}
    alone = []
    for handle in handles:
        bit = handle.offset - handle.ck_offset
        if handle.revive_queue_id == ORDERED_REVIVE_QUEUE or not 0 <= bit < SPAN_MAX:
            alone.append(handle)
        else:
            rows.setdefault(_key(handle), set()).add(bit)
    acks = [_row(group, topic, key, bits) for key, bits in rows.items()]
    return BatchAckBody(broker_name=broker_name, acks=acks), alone


def _key(handle: PopHandle) -> _Key:
    return (
        handle.ck_offset,
        handle.pop_wall_ms,
        handle.invisible_ms,
        handle.revive_queue_id,
        handle.mark,
        handle.queue_id,
    )


def _row(group: str, topic: str, key: _Key, bits: set[int]) -> BatchAck:
    start, pop_time, invisible_time, revive_queue_id, mark, queue_id = key
    return BatchAck(
        consumer_group=group,
        topic=topic,
        retry=mark,
        start_offset=start,
        queue_id=queue_id,
        revive_queue_id=revive_queue_id,
        pop_time=pop_time,
        invisible_time=invisible_time,
        bit_set=_bit_set(bits),
    )


def _bit_set(bits: set[int]) -> str:
    """Base64 of the bits, the lowest of each byte first, without bytes of zeros at the end."""
    number = sum(1 << bit for bit in bits)
    return base64.b64encode(number.to_bytes((number.bit_length() + 7) // 8, "little")).decode()
