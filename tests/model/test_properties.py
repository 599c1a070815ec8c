"""The properties string: round trips, tolerance, and find being decode without the dict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import Refused, UsageError
from epochmq.model import properties

_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"))
_props = st.dictionaries(_text.filter(bool), _text.filter(bool), max_size=8)
_soup = st.text(st.sampled_from("ab\x01\x02é"), max_size=40)


def test_pairs_are_joined_without_a_trailing_separator() -> None:
    assert properties.encode({"KEYS": "k", "WAIT": "true"}) == "KEYS\x01k\x02WAIT\x01true"
    assert properties.encode({}) == ""


def test_pairs_no_reader_would_see_are_left_out() -> None:
    assert properties.encode({"a": "", "": "b", "c": "d"}) == "c\x01d"


@given(_props)
def test_encoded_properties_come_back(props: dict[str, str]) -> None:
    text = properties.encode(props)
    assert properties.decode(text) == props
    assert properties.decode(text + "\x02") == props  # as 5.2+ writes it
    assert properties.decode_bytes(text.encode()) == props


def test_a_value_may_hold_the_name_separator() -> None:
    props = {"a": "x\x01y", "b": "c"}
    assert properties.decode(properties.encode(props)) == props


@pytest.mark.parametrize(
    "props", [{"a\x01b": "c"}, {"a\x02b": "c"}, {"a": "b\x02c\x01d"}, {"a": "b\x02"}]
)
def test_a_separator_that_would_smuggle_in_a_pair_is_refused(props: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="separator"):
        properties.encode(props)


def test_malformed_pieces_are_skipped_and_the_last_of_a_name_wins() -> None:
    text = "\x02\x02a\x01\x02\x01b\x02lonely\x02k\x011\x02k\x012\x02"
    assert properties.decode(text) == {"k": "2"}


def test_broken_utf8_is_replaced_not_refused() -> None:
    assert properties.decode_bytes(b"a\x01\xff") == {"a": "�"}


@given(_soup, st.sampled_from(["a", "b", "ab", "é", ""]))
def test_find_sees_what_decode_sees(text: str, name: str) -> None:
    wanted = properties.decode(text).get(name)
    found = properties.find(text.encode(), name.encode())
    assert found == (None if wanted is None else wanted.encode())


def test_find_in_golden_bytes() -> None:
    raw = b"KEYS\x01k1\x02TAGS\x01A\x02XTAGS\x01B\x02"
    assert properties.find(raw, b"KEYS") == b"k1"
    assert properties.find(raw, b"TAGS") == b"A"
    assert properties.find(raw, b"AGS") is None
    assert properties.find(b"a\x01x\x02a\x01\x02", b"a") == b"x"


def test_the_length_limit_is_the_record_s() -> None:
    properties.check_length(b"x" * 32767)
    with pytest.raises(Refused) as refused:
        properties.check_length(b"x" * 32768)
    assert refused.value.code == 13


@pytest.mark.parametrize(
    ("raw", "extra", "wanted"),
    [
        (b"", b"", b""),
        (b"a\x01b", b"", b"a\x01b"),
        (b"", b"c\x01d", b"c\x01d"),
        (b"a\x01b", b"c\x01d", b"a\x01b\x02c\x01d"),
        (b"a\x01b\x02", b"c\x01d", b"a\x01b\x02c\x01d"),
    ],
)
def test_two_encoded_strings_become_one(raw: bytes, extra: bytes, wanted: bytes) -> None:
    assert properties.append(raw, extra) == wanted
