"""The checkpoint: upstream's 56 bytes, and what vouches for our own files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.store.timer.timer_checkpoint import (
    OLDER_MAX,
    OlderProgress,
    TimerCheckpoint,
    decode,
    decode_older,
    encode_older,
)

FULL = TimerCheckpoint(1_700_000_000_000, 5200, 40, 38, 2, 1_700_000_000_500, 9)


def test_the_first_56_bytes_are_upstreams() -> None:
    data = FULL.encode(1000, 900)
    assert len(data) == 4096
    assert data[:56] == FULL.body()
    assert data[:16] == (1_700_000_000_000).to_bytes(8, "big") + (5200).to_bytes(8, "big")
    assert decode(data, 1000) == FULL


def test_only_our_own_of_the_same_precision_vouches_for_the_files() -> None:
    assert decode(FULL.encode(1000, 900), 500) == FULL._replace(log_position=-1)
    assert decode(FULL.body()) == FULL._replace(log_position=-1)
    assert decode(FULL.body().ljust(4096, b"\0"), 1000) == FULL._replace(log_position=-1)


def test_before_5_2_there_were_four_fields() -> None:
    found = decode(FULL.body()[:32])
    assert found == TimerCheckpoint(FULL.last_read_ms, -1, 40, 38)


@pytest.mark.parametrize("at", [0, 2, 3])
def test_negative_numbers_say_nothing(at: int) -> None:
    fields = list(FULL)
    fields[at] = -1
    assert decode(TimerCheckpoint(*fields).body()) is None


@given(st.integers(0, 4096))
def test_cut_anywhere_it_never_vouches_wrongly(size: int) -> None:
    found = decode(FULL.encode(1000, 900)[:size], 1000)
    if size >= 80:
        assert found == FULL
    elif size >= 32:
        assert found is None or (found.log_position, found[2:4]) == (-1, FULL[2:4])
    else:
        assert found is None


@given(st.integers(0, 79), st.integers(1, 255))
def test_a_changed_byte_never_vouches(at: int, flip: int) -> None:
    data = bytearray(FULL.encode(1000, 900))
    data[at] ^= flip
    found = decode(bytes(data), 1000)
    assert found is None or found.log_position == -1


def test_where_the_log_ends_too_early_an_older_state_counts() -> None:
    older = FULL._replace(last_read_ms=5, counter=8)
    data = FULL.encode(1000, 900, older.sealed(1000, 800))
    assert len(data) == 4096
    assert decode(data, 1000, 900) == FULL
    assert decode(data, 1000, 899) == older
    assert decode(data, 1000, 799) is None
    assert decode(FULL.encode(1000, 900), 1000, 899) is None
    broken = bytearray(data)
    broken[1030] ^= 1
    assert decode(bytes(broken), 1000, 899) is None


ROWS = [OlderProgress(5 * n, n + 1, 52, 900, 7) for n in range(OLDER_MAX, 0, -1)]


@pytest.mark.parametrize("count", [0, 1, OLDER_MAX])
def test_older_versions_skip_unknown_progress(count: int) -> None:
    rows = ROWS[:count]
    data = FULL.encode(1000, 900, FULL.sealed(1000, 800), rows)
    assert len(data) == 4096
    assert decode(data, 1000) == FULL
    assert decode_older(data) == rows
    answer = FULL.body() + encode_older(rows)
    assert decode(answer) == FULL._replace(log_position=-1)
    assert decode_older(answer) == rows


@given(st.integers(0, 4095), st.integers(1, 255))
def test_older_progress_that_was_changed_says_nothing(at: int, flip: int) -> None:
    data = bytearray(FULL.encode(1000, 900, b"", ROWS))
    data[at] ^= flip
    assert decode_older(bytes(data)) in ([], ROWS)


@given(st.integers(0, 4096))
def test_older_progress_that_was_cut_says_nothing(size: int) -> None:
    body = FULL.body() + encode_older(ROWS)
    assert decode_older(body[:size]) == (ROWS if size >= len(body) else [])
