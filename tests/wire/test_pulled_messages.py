"""The native decoder of pulled records does what the decoder in Python does, on any bytes."""

import tracemalloc
from collections.abc import Callable
from ctypes import byref, c_int64
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.native.fuzz import damaged, some_records

from epochmq.base.ports import Buffer
from epochmq.model import record
from epochmq.model.host import pack, unpack
from epochmq.model.message import StoredMessage
from epochmq.model.record import RecordError
from epochmq.native import library
from epochmq.wire.pulled_messages import decode_messages

needs_native = pytest.mark.skipif(library.library() is None, reason=library.which())

_int32 = st.integers(-(2**31), 2**31 - 1)
_int64 = st.integers(-(2**63), 2**63 - 1)
_hosts = st.builds(pack, st.ip_addresses().map(str), st.integers(0, 65535))
_properties = st.one_of(
    st.binary(max_size=60),
    st.lists(
        st.sampled_from((b"a", b"UNIQ_KEY", b"\x01", b"\x02", b"\xe2\x82", b"\xff", "ä".encode())),
        max_size=12,
    ).map(b"".join),
)
_records = st.lists(
    st.builds(
        record.encode,
        st.one_of(st.binary(max_size=4), st.text(max_size=200).map(str.encode)),
        st.binary(max_size=50),
        _properties,
        _int32,
        _int32,
        _int64,
        _int64,
        _int32,
        _int64,
        _hosts,
        _int64,
        _hosts,
        _int32,
        _int64,
    ),
    max_size=5,
).map(b"".join)


def result(decode: Callable[[Buffer], list[StoredMessage]], data: Buffer) -> object:
    """Return the messages, or that there is an error."""
    try:
        return decode(data)
    except RecordError:
        return RecordError


@needs_native
@given(_records, st.sampled_from((bytes, bytearray, memoryview)))
def test_records_are_decoded_as_by_python(
    data: bytes, kind: Callable[[bytes], bytes | bytearray | memoryview]
) -> None:
    assert decode_messages(kind(data)) == record.decode_all(data)


@needs_native
@given(_records)
def test_the_native_code_decodes_all_sound_records(data: bytes) -> None:
    native, end = library.library(), c_int64()
    assert native is not None
    native.messages(data, StoredMessage, unpack, byref(end))
    assert end.value == len(data)


@needs_native
@given(_records, st.integers(0, 2**32))
def test_damaged_records_are_refused_as_by_python(data: bytes, seed: int) -> None:
    bad = damaged(Random(seed), data) if data else data
    assert result(decode_messages, bad) == result(record.decode_all, bad)


@given(_records)
def test_a_record_that_is_cut_is_refused(data: bytes) -> None:
    if data:
        with pytest.raises(RecordError, match="no whole record at byte"):
            decode_messages(data[:-1])


def test_without_native_code_python_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "library", lambda: None)
    data = some_records(Random(1))
    assert decode_messages(data) == record.decode_all(data) != []


def test_no_memory_is_lost() -> None:
    rng = Random(2)
    whole = [some_records(rng) for _ in range(20)]
    all_data = [*whole, *(data[:-1] for data in whole)]

    def decode_often() -> None:
        for data in all_data * 50:
            result(decode_messages, data)

    decode_often()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        decode_often()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20_000
