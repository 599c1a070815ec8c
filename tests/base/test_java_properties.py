"""Texts as Java's own reader takes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import ConfigError
from epochmq.base.java_properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a : b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a\tb", {"a": "b"}),
        ("  a=b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("a==b", {"a": "=b"}),
        ("a=b # no comment", {"a": "b # no comment"}),
        ("a=b  ", {"a": "b  "}),
        ("# x=1\n! y=2\n  # z=3\na=b", {"a": "b"}),
        ("a=1\rb=2\r\nc=3\n\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\n#c", {"a": "b#c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("# a\\\nb=c", {"b": "c"}),
        ("a=\\\n\nb=c", {"a": "", "b": "c"}),
        (r"a\ b\=c\:d=e", {"a b=c:d": "e"}),
        (r"a=\t\n\r\f\q\\", {"a": "\t\n\r\fq\\"}),
        (r"a=\u00e9\u4E2d", {"a": "\u00e9\u4e2d"}),
        (r"a=\ud83d\ude00", {"a": "\U0001f600"}),
        (r"a=\\u12", {"a": "\\u12"}),
        (
            r"namesrvAddr=10.0.0.1:9876;10.0.0.2:9876",
            {"namesrvAddr": "10.0.0.1:9876;10.0.0.2:9876"},
        ),
    ],
)
def test_a_text_is_read_as_java_reads_it(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text) == pairs


def test_broken_escapes_are_all_named() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_properties("a=1\nb=\\u12\nc=\\uzzzz\n")
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["line 2", "line 3"]


def test_a_lone_surrogate_does_not_poison_the_text() -> None:
    parse_properties(r"a=\ud83d")["a"].encode()


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(_TEXTS, _TEXTS, max_size=5))
def test_what_is_written_is_read_again(pairs: dict[str, str]) -> None:
    text = format_properties(pairs.items())
    assert text.isascii()
    assert parse_properties(text) == pairs


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        pairs = parse_properties(text)
    except ConfigError:
        return
    assert all(isinstance(value, str) for value in pairs.values())
