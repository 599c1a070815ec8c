"""Java's hash, and tag expressions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import Refused
from epochmq.model import tags


def _slow_hash(text: str) -> int:
    raw = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(raw), 2):
        value = (31 * value + int.from_bytes(raw[at : at + 2], "big")) % 2**32
    return value - 2**32 if value >= 2**31 else value


def test_known_hashes() -> None:
    assert tags.java_hash("") == 0
    assert tags.java_hash("hello") == 99162322
    assert tags.java_hash("polygenelubricants") == -(2**31)
    assert tags.java_hash("TagA") == 2598919


@given(st.text(st.characters(), max_size=40))
def test_the_hash_is_java_s_over_utf16_units(text: str) -> None:
    assert tags.java_hash(text) == _slow_hash(text)
    assert tags.java_hash(text) == _slow_hash(text)  # from the cache


@given(st.text(max_size=20), st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_a_hash_goes_on_from_its_prefix(prefix: str, rest: str) -> None:
    assert tags.extend_hash(tags.java_hash(prefix), rest) == _slow_hash(prefix + rest)


@pytest.mark.parametrize("size", [63, 64, 65, 128, 2000])
def test_long_texts_are_hashed_in_pieces(size: int) -> None:
    for text in ("ab" * size, "aé" * size):
        assert tags.java_hash(text[:size]) == _slow_hash(text[:size])


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tags, "_CACHE_MAX", 4)
    monkeypatch.setattr(tags, "_cache", {})
    for number in range(100):
        tags.java_hash(f"bounded{number}")
        assert len(tags._cache) <= 4


def test_long_texts_are_not_cached() -> None:
    text = "never" * 100
    tags.java_hash(text)
    assert text not in tags._cache


def test_no_tag_has_code_zero() -> None:
    assert tags.tags_code(None) == tags.tags_code("") == 0
    assert tags.tags_code("TagA") == 2598919


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_everything_is_none(expression: str | None) -> None:
    assert tags.split_expression(expression) is None


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("a", ["a"]),
        ("a || b", ["a", "b"]),
        (" b||a || b ||", ["b", "a"]),
        ("a|b || \tc\n", ["a|b", "c"]),
        ("a || *", ["a", "*"]),
    ],
)
def test_tags_are_trimmed_and_kept_in_order_once(expression: str, wanted: list[str]) -> None:
    assert tags.split_expression(expression) == wanted


@pytest.mark.parametrize("expression", ["||", "   ", " || || "])
def test_an_expression_without_a_tag_is_refused(expression: str) -> None:
    with pytest.raises(Refused) as refused:
        tags.split_expression(expression)
    assert refused.value.code == 23
