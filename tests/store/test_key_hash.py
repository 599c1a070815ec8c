"""The batch hash agrees with Java's hash of each key."""

from hypothesis import given
from hypothesis import strategies as st

from epochmq.model.tags import extend_hash
from epochmq.store.held_keys import BATCH, java_hashes, one_hash

PREFIX = extend_hash(0, "TopicTest#")


@given(st.lists(st.text(max_size=40), max_size=150))
def test_any_keys(keys: list[str]) -> None:
    wanted = [extend_hash(PREFIX, key) & 0xFFFFFFFF for key in keys]
    assert java_hashes([PREFIX] * len(keys), keys) == wanted
    assert [one_hash(PREFIX, key) for key in keys] == wanted


def test_full_batches_of_unique_keys() -> None:
    keys = [f"C0A80001000078BF7A7A{number:012X}" for number in range(BATCH * 2 + 1)]
    wanted = [extend_hash(PREFIX, key) & 0xFFFFFFFF for key in keys]
    assert java_hashes([PREFIX] * len(keys), keys) == wanted


def test_known_values_of_java() -> None:
    assert java_hashes([0, 0, 0], ["", "a", "hello"]) == [0, 97, 99162322]
