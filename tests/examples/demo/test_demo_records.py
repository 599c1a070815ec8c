"""What members note."""

from hypothesis import given
from hypothesis import strategies as st

from examples.demo.members import SIZE, Received, decode, encode, key_of

CARRIERS = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=2, max_size=2)
NOTES = st.tuples(CARRIERS, st.integers(0, 2**32 - 1), st.integers(0, 2**63), st.integers(0, 2**63))


@given(st.lists(NOTES), st.binary(max_size=SIZE - 1))
def test_there_and_back(notes: list[tuple[str, int, int, int]], torn: bytes) -> None:
    data = b"".join(encode(key_of(c, n), born, got) for c, n, born, got in notes)
    assert list(decode(data + torn)) == [Received(*note) for note in notes]


def test_latency() -> None:
    assert Received("UA", 0, 1_000, 1_002_500).latency_ms == 2.5
    assert Received("UA", 0, 1_000, 999_000).latency_ms == 0
