"""Tokens of SQL92 filters."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base import limits
from epochmq.model.sql92.parser import Token, tokens
from epochmq.model.sql92.syntax import SqlError


def _kinds(text: str) -> list[str]:
    return [token.kind for token in tokens(text)]


def _value(text: str) -> object:
    first, end = tokens(text)
    assert end.kind == "end"
    return first.value


def test_words_and_marks() -> None:
    assert _kinds("a>=1 And B<>'x'") == [
        "name", ">=", "number", "AND", "name", "<>", "string", "end",
    ]  # fmt: skip
    assert tokens("$a_1") == [Token("name", "$a_1", 0), Token("end", "", 4)]
    assert _kinds("= < > <= ( ) , + -") == ["=", "<", ">", "<=", "(", ")", ",", "+", "-", "end"]


@pytest.mark.parametrize("word", ["NOT", "and", "Between", "startswith", "NULL", "true"])
def test_keywords_are_known_in_any_case(word: str) -> None:
    assert _kinds(word) == [word.upper(), "end"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0", 0),
        ("0L", 0),
        ("12L", 12),
        ("7l", 7),
        ("9223372036854775807", 2**63 - 1),
        ("5.", 5.0),
        (".5", 0.5),
        ("5.5e1", 55.0),
        ("5E-1", 0.5),
        ("007.5", 7.5),
        ("'it''s'", "it's"),
        ("''", ""),
        ("'a\nb'", "a\nb"),
    ],
)
def test_literals(text: str, wanted: object) -> None:
    assert _value(text) == wanted
    assert type(_value(text)) is type(wanted)


@pytest.mark.parametrize(
    "text", ["a/* x ** / */b", "a -- x\nb", "a--\r\nb", "a b -- x", "a\t\r\n\f b"]
)
def test_spaces_and_comments_only_separate(text: str) -> None:
    assert _kinds(text) == ["name", "name", "end"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a != 1", "begins with '!' at character 3"),
        ("/* x", "begins with '/'"),
        ("'x", 'begins with "\'"'),
        ("a;", "';' at character 2"),
        ("a = 9223372036854775808", "64 bits at character 5"),
        ("9" * 5000, "64 bits"),
        ("a = 007", "leading zeros at character 5"),
        ("00", "leading zeros"),
        ("1e999", "double"),
        ("ä", "'ä'"),
    ],
)
def test_what_is_no_token_is_named_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(SqlError, match=problem):
        tokens(text)


def test_the_length_is_bounded() -> None:
    assert len(tokens(" " * limits.SQL_LENGTH_MAX)) == 1
    with pytest.raises(SqlError, match="allowed"):
        tokens(" " * (limits.SQL_LENGTH_MAX + 1))


@given(st.text(st.sampled_from("a1'*/-. \n<>=eL()é"), max_size=60))
def test_any_text_is_tokens_or_refused(text: str) -> None:
    try:
        found = tokens(text)
    except SqlError:
        return
    assert found[-1] == Token("end", "", len(text))


@pytest.mark.parametrize(
    "piece", ["'", "/*", "-", "0", "1", "0 ", "1.", "e", "$", "''", "*/", "/**"]
)
def test_no_text_takes_long(piece: str) -> None:
    text = (piece * limits.SQL_LENGTH_MAX)[: limits.SQL_LENGTH_MAX]
    started = time.process_time()
    try:
        tokens(text)
    except SqlError:
        pass
    assert time.process_time() - started < 5
