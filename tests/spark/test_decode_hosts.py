"""Hosts and offset ids of both families, mixed in one batch."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.records import plain

from epochmq.model import record
from epochmq.model.host import format_addr
from epochmq.spark import decode_heads
from epochmq.spark.decode_heads import follow

ADDRESSES = st.sampled_from(
    [("10.0.0.2", 1), ("10.0.0.3", 65535), ("2001:db8::1", 10911), ("::ffff:1.2.3.4", 7)]
)


@given(st.lists(st.tuples(ADDRESSES, ADDRESSES), min_size=1, max_size=9))
def test_hosts_and_ids_are_those_of_each_record(
    pairs: list[tuple[tuple[str, int], tuple[str, int]]],
) -> None:
    data = b"".join(plain(at, born=b, store=s) for at, (b, s) in enumerate(pairs))
    walk = follow(memoryview(data), 0, len(data))
    rows, fault = decode_heads.read(np.frombuffer(data, np.uint8), walk.at, walk.sizes)
    messages = record.decode_all(data)
    assert fault is None
    assert decode_heads.born_hosts(rows).to_pylist() == [
        format_addr(*m.born_host) for m in messages
    ]
    assert decode_heads.store_hosts(rows).to_pylist() == [
        format_addr(*m.store_host) for m in messages
    ]
    assert decode_heads.offset_ids(rows).to_pylist() == [m.offset_msg_id for m in messages]


def test_an_ipv6_host_stands_in_brackets() -> None:
    assert decode_heads.shown(bytes(15) + b"\x01" + (80).to_bytes(4, "big")) == "[::1]:80"
