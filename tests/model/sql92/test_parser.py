"""Trees of SQL92 filters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base import limits
from epochmq.model.sql92.parser import parse
from epochmq.model.sql92.syntax import (
    Cast,
    Compare,
    Constant,
    In,
    Logic,
    Negate,
    Node,
    Not,
    Property,
    SqlError,
    Text,
)

A, B, C = Property("a"), Property("b"), Property("c")
ONE, X = Constant(1), Constant("x")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a", Cast(A)),
        ("TRUE", Constant(True)),
        ("false", Constant(False)),
        ("null", Constant(None)),
        ("a = 'x'", Compare("=", A, X)),
        ("a <> 'x'", Not(Compare("=", A, X))),
        ("a is null", Compare("=", A, Constant(None))),
        ("a IS NOT NULL", Not(Compare("=", A, Constant(None)))),
        ("a > 1", Compare(">", A, ONE)),
        ("a >= +1", Compare(">=", A, ONE)),
        ("a < -1", Compare("<", A, Negate(ONE))),
        ("1 <= a", Compare("<=", ONE, A)),
        ("a in ('x', 'y')", In(A, frozenset("xy"), False)),
        ("(a) not in ('x')", In(A, frozenset("x"), True)),
        ("a contains 'x'", Text("CONTAINS", A, "x", False)),
        ("a NOT STARTSWITH 'x'", Text("STARTSWITH", A, "x", True)),
        ("a endswith 'x'", Text("ENDSWITH", A, "x", False)),
        ("a or b and c", Logic(False, (Cast(A), Logic(True, (Cast(B), Cast(C)))))),
        ("(a or b) and c", Logic(True, (Logic(False, (Cast(A), Cast(B))), Cast(C)))),
        ("a or b or c", Logic(False, (Cast(A), Cast(B), Cast(C)))),
        ("not a", Not(Cast(A))),
        ("not a = 'x'", Compare("=", Not(Cast(A)), X)),
        ("not (a = 'x')", Not(Compare("=", A, X))),
        ("a = b = c", Compare("=", Compare("=", A, B), C)),
        (
            "a between 1 and 1 and b",
            Logic(True, (Logic(True, (Compare(">=", A, ONE), Compare("<=", A, ONE))), Cast(B))),
        ),
        ("a not between b and 1", Logic(False, (Compare("<", A, B), Compare(">", A, ONE)))),
    ],
)
def test_trees(text: str, wanted: Node) -> None:
    assert parse(text) == wanted


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the end was found at character 1"),
        ("a = ", "needed, the end was found"),
        ("a = 1 zzz", "the end, AND or OR is needed, 'zzz' was found at character 7"),
        ("(a", r"\) is needed"),
        ("a is", "NULL is needed"),
        ("a is not 1", "NULL is needed, 1 was found"),
        ("a in ()", "string is needed"),
        ("a in 'x'", r"\( is needed"),
        ("a in ('x'", r"\) is needed"),
        ("a in (1)", "string is needed"),
        ("a between 1 or 2", "AND is needed"),
        ("a not > 1", "BETWEEN, IN"),
        ("a contains b", "string is needed"),
        ("and", "'and' was found"),
        ("0 7 = a", "7 was found"),
        ("1", "condition"),
        ("'x' or a", "condition"),
        ("not 1", "condition"),
        ("a and -b", "condition"),
        ("a > 'x'", "numbers only"),
        ("a between 2 and 1", "smaller"),
    ],
)
def test_errors_say_what_is_needed_and_where(text: str, problem: str) -> None:
    with pytest.raises(SqlError, match=problem):
        parse(text)


@pytest.mark.parametrize("piece", ["(", "not ", "- ", "+"])
def test_nesting_is_bounded(piece: str) -> None:
    close = ")" if piece == "(" else ""
    fine = limits.SQL_DEPTH_MAX - 2
    inner = "1" if piece in "- +" else "a"
    prefix = "a = " if inner == "1" else ""
    assert parse(prefix + piece * fine + inner + close * fine)
    with pytest.raises(SqlError, match="nested deeper"):
        parse(prefix + piece * 3000 + inner + close * 3000)


@pytest.mark.parametrize("step", [" = b", " is null", " in ('x')", " contains 'x'"])
def test_chains_of_comparisons_are_bounded(step: str) -> None:
    with pytest.raises(SqlError, match=r"nested deeper|property"):
        parse("a" + step * 500)


def test_long_chains_of_and_and_or_stay_flat() -> None:
    tree = parse(" or ".join(["a = 1 and b"] * 1000))
    assert isinstance(tree, Logic)
    assert len(tree.operands) == 1000


_SOUP = "a b 1 2.5 'x' NOT AND OR BETWEEN IN IS NULL TRUE CONTAINS ( ) , = <> > <= + -"
_WORDS = _SOUP.split()


@given(st.lists(st.sampled_from(_WORDS), max_size=25))
def test_any_words_are_a_filter_or_refused(words: list[str]) -> None:
    try:
        parse(" ".join(words))
    except SqlError as error:
        words.append(error.remark)
