"""Bits of sys_flag as RocketMQ defines them."""

import pytest

from epochmq.model import sys_flag


def test_the_bits_are_the_protocol_s() -> None:
    assert sys_flag.COMPRESSED == 0x1
    assert sys_flag.MULTI_TAGS == 0x2
    assert sys_flag.BORN_V6 | sys_flag.STORE_V6 == sys_flag.HOSTS_V6_MASK == 0x30
    assert sys_flag.NEED_UNWRAP | sys_flag.INNER_BATCH == 0xC0
    assert sys_flag.COMPRESSION_ZLIB == sys_flag.COMPRESSION_LZ4 | sys_flag.COMPRESSION_ZSTD


@pytest.mark.parametrize(
    "kind",
    [sys_flag.TX_NONE, sys_flag.TX_PREPARED, sys_flag.TX_COMMIT, sys_flag.TX_ROLLBACK],
)
def test_a_transaction_type_is_replaced_and_read_without_touching_other_bits(kind: int) -> None:
    flag = sys_flag.with_transaction_type(0x7F3 | sys_flag.TX_PREPARED, kind)
    assert sys_flag.transaction_type(flag) == kind
    assert flag & ~sys_flag.TX_MASK == 0x7F3
