"""Two logs compared by their ends and the digests of what they end with."""

from epochmq.broker.group.pre_online_peers import (
    BLOCK_BYTES,
    WINDOW_BYTES,
    CommonRange,
    different,
    differs,
    digests,
    too_long,
    window,
)

LOG = bytes(range(256)) * 4096


def read(log: bytes, file_bytes: int = 1 << 30):  # type: ignore[no-untyped-def]
    def part(offset: int, size: int) -> bytes:
        return log[offset : min(offset + size, offset - offset % file_bytes + file_bytes)]

    return part


def rows(log: bytes, compared: CommonRange) -> list[tuple[int, int, str]]:
    return [(*key, code) for key, code in digests(compared, read(log)).items()]


def test_a_replica_may_have_less_or_as_much_but_not_more() -> None:
    assert too_long("r", 10, "m", 10) == ""
    assert too_long("r", 9, "m", 10) == ""
    text = too_long("10.0.0.2:1", 11, "10.0.0.1:1", 10)
    assert "10.0.0.2:1 goes on to 11, that of its master 10.0.0.1:1 ends at 10" in text
    assert "move its store away" in text


def test_the_last_common_bytes_are_compared() -> None:
    end = 10 * BLOCK_BYTES + 77
    assert window(0, end, end) == CommonRange(10 * BLOCK_BYTES - WINDOW_BYTES, end)
    assert window(0, end, end - 100) == CommonRange(9 * BLOCK_BYTES - WINDOW_BYTES, end - 100)
    assert window(0, 500, 300) == CommonRange(0, 300)
    assert window(400, 500, 300) is None
    assert window(0, 500, 0) is None


def test_equal_logs_are_equal_however_their_files_are_cut() -> None:
    compared = CommonRange(BLOCK_BYTES, 3 * BLOCK_BYTES + 100)
    whole = digests(compared, read(LOG))
    assert list(whole) == [
        (BLOCK_BYTES, BLOCK_BYTES),
        (2 * BLOCK_BYTES, BLOCK_BYTES),
        (3 * BLOCK_BYTES, 100),
    ]
    assert digests(compared, read(LOG, 10_000)) == whole
    assert differs(whole, rows(LOG, compared)) is None


def test_one_byte_is_enough() -> None:
    compared = CommonRange(0, 2 * BLOCK_BYTES)
    at = BLOCK_BYTES + 5
    other = LOG[:at] + b"?" + LOG[at + 1 :]
    assert differs(digests(compared, read(LOG)), rows(other, compared)) == BLOCK_BYTES
    assert f"differ, at {BLOCK_BYTES} or before" in different("r", "m", BLOCK_BYTES)


def test_blocks_that_one_side_lacks_say_nothing() -> None:
    own = digests(CommonRange(0, BLOCK_BYTES), read(LOG))
    assert differs(own, [(BLOCK_BYTES, 5, "x")]) is None
    assert differs(own, []) is None


def test_bytes_that_are_gone_meanwhile_are_no_endless_loop() -> None:
    assert len(digests(CommonRange(0, 10), lambda offset, size: b"")) == 1
