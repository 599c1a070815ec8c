"""Filters against tables of known answers and a slow, independent model."""

import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.model.sql92 import SqlError, compile_filter

PROPS = {
    "five": "5",
    "big": "3000000000",
    "half": "5.5",
    "x": "x",
    "yes": "True",
    "nan": "NaN",
    "max": "9007199254740993",
    "huge": "9" * 50,
}


def _run(text: str, props: Mapping[str, str] = PROPS) -> bool | None:
    return compile_filter(text)(props)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("five = 5", True),
        ("five = 5.0", True),
        ("five <> 5", False),
        ("five > 4 AND five < 6", True),
        ("five >= 5 AND five <= 5", True),
        ("five BETWEEN 1 AND 5", True),
        ("five NOT BETWEEN 1 AND 5", False),
        ("five > -6", True),
        ("-five > -6", None),  # upstream negates numbers only, and a property is a string
        ("+five > 4", True),
        ("5 > 3", True),
        ("3 = -(-3)", True),
        ("big > 5", True),  # upstream abandons what is beyond 32 bits
        ("half > 5", True),  # and fractions beside an integer
        ("huge > 5", True),
        ("half > five", True),
        ("max = 9007199254740992.0", True),  # a long beside a double becomes one
        ("nan > 1e308", True),
        ("nan > nan", False),
        ("nan >= nan", True),
        ("five < nan", True),
        ("x = 'x'", True),
        ("x = x", True),
        ("x = five", False),
        ("'x' = 'x'", True),
        ("x > 3", None),
        ("x > five", None),
        ("NOT (x > 3)", None),
        ("x > 3 OR five = 5", None),  # the whole filter is abandoned
        ("five = 5 OR x > 3", True),
        ("five = 6 AND x > 3", False),
        ("x IN ('x', 'y')", True),
        ("x NOT IN ('x', 'y')", False),
        ("none IN ('x')", None),
        ("none NOT IN ('x')", None),
        ("none = 'x'", None),
        ("none <> 'x'", None),
        ("'x' = none", False),
        ("'x' <> none", True),
        ("none = nil", True),
        ("none > 1", None),
        ("1 > none", None),
        ("none IS NULL", True),
        ("none IS NOT NULL", False),
        ("x IS NULL", False),
        ("x IS NOT NULL", True),
        ("x", False),
        ("none", None),
        ("NOT x", True),
        ("TRUE", True),
        ("NULL", None),
        ("NULL IS NULL", True),
        ("TRUE AND NULL", None),
        ("FALSE AND NULL", False),
        ("NULL AND FALSE", False),
        ("TRUE OR NULL", True),
        ("NULL OR TRUE", True),
        ("NULL OR FALSE", None),
        ("yes = TRUE", True),
        ("x = FALSE", True),
        ("TRUE = yes", None),
        ("TRUE = FALSE", False),
        ("5 = TRUE", False),
        ("(x = 'x') = TRUE", True),
        ("(x = 'x') = (five = 5)", True),
        ("(x = 'y') = x", None),
        ("-x = 'x'", None),
        ("-(TRUE) = 5", None),
        ("x CONTAINS 'x'", True),
        ("x CONTAINS ''", False),
        ("x NOT CONTAINS ''", False),
        ("none CONTAINS 'x'", False),
        ("none NOT CONTAINS 'x'", False),
        ("5 CONTAINS '5'", False),
        ("yes STARTSWITH 'Tr'", True),
        ("yes NOT STARTSWITH 'Tr'", False),
        ("yes ENDSWITH 'Tr'", False),
        ("yes NOT ENDSWITH 'Tr'", True),
    ],
)
def test_answers(text: str, wanted: bool | None) -> None:
    assert _run(text) is wanted


@pytest.mark.parametrize(
    "number", ["5", "+5", "05", "5.", "5.0", ".5e1", "5e0", "5d", "5.0F", " 5.0\t", "50E-1"]
)
def test_texts_that_java_reads_as_five(number: str) -> None:
    assert _run("p = 5", {"p": number}) is True
    assert _run("p >= q", {"p": number, "q": "5"}) is True


@pytest.mark.parametrize(
    "text", ["", "x", "5x", "5_0", "٥", "0x5", "5e", "--5", "NaNf", "1 2", "."]
)
def test_texts_that_are_no_number(text: str) -> None:
    assert _run("p > 0 OR p <= 0", {"p": text}) is None


def test_a_filter_never_raises_when_called_and_is_fast_on_long_values() -> None:
    run = compile_filter("p > 1.5")
    started = time.process_time()
    for value in ("9" * 32_000 + "x", "1" * 32_000, " " * 32_000, "1e" + "9" * 4000, "." * 9000):
        run({"p": value})
    assert time.process_time() - started < 5


def test_a_bad_filter_does_not_compile() -> None:
    with pytest.raises(SqlError):
        compile_filter("a >")


# The slow model: trees of tuples, printed with every bracket, judged by a second set of rules.


class _Abandoned(Exception):
    pass


_names = st.sampled_from(["a", "b", "c"])
_numbers = st.sampled_from([0, 1, 5, 7, 1.5, 1e3])
_strings = st.sampled_from(["", "x", "xy", "5", "it's"])
_values = st.sampled_from(["x", "xy", "5", "-1", "1.5", "true", "", "it's", " 7 "])
_value = (
    st.tuples(st.just("name"), _names)
    | st.tuples(st.just("number"), _numbers)
    | st.tuples(st.just("minus"), _numbers)
)
_word = _value | st.tuples(st.just("string"), _strings)
_leaf = (
    st.tuples(st.sampled_from(["=", "<>"]), _word, _word)
    | st.tuples(st.sampled_from([">", ">=", "<", "<="]), _value, _value)
    | st.tuples(st.sampled_from(["IS NULL", "IS NOT NULL"]), _word)
    | st.tuples(st.sampled_from(["IN", "NOT IN"]), _names, st.lists(_strings, min_size=1))
    | st.tuples(st.sampled_from(["CONTAINS", "NOT CONTAINS"]), _names, _strings)
    | st.tuples(st.sampled_from(["STARTSWITH", "NOT ENDSWITH"]), _names, _strings)
    | st.tuples(st.just("bare"), _names)
    | st.tuples(st.just("constant"), st.sampled_from([True, False, None]))
)
_tree = st.recursive(
    _leaf,
    lambda inner: (
        st.tuples(st.sampled_from(["AND", "OR"]), inner, inner) | st.tuples(st.just("NOT"), inner)
    ),
    max_leaves=8,
)
_props = st.dictionaries(_names, _values)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _print(tree: Any) -> str:
    op, *rest = tree
    if op in ("name", "bare"):
        return str(rest[0])
    if op in ("number", "minus"):
        return ("-" if op == "minus" else "") + repr(rest[0])
    if op == "string":
        return _quote(rest[0])
    if op == "constant":
        return {True: "TRUE", False: "FALSE", None: "NULL"}[rest[0]]
    if op.endswith("IN"):
        return f"({rest[0]} {op} ({', '.join(map(_quote, rest[1]))}))"
    if op.endswith(("CONTAINS", "WITH")):
        return f"({rest[0]} {op} {_quote(rest[1])})"
    if op == "NOT":
        return f"(NOT {_print(rest[0])})"
    if op.endswith("NULL"):
        return f"({_print(rest[0])} {op})"
    return f"({_print(rest[0])} {op} {_print(rest[1])})"


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise _Abandoned from None


def _model_equal(one: Any, other: Any) -> bool | None:
    if one is None or other is None:
        return True if one is other else (None if one is None else False)
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    return _as_float(one) == _as_float(other)


def _model_text(op: str, value: str | None, search: str) -> bool:
    if not search or value is None:
        return False
    if op.endswith("CONTAINS"):
        hit = value.find(search) >= 0
    elif op.endswith("STARTSWITH"):
        hit = value[: len(search)] == search
    else:
        hit = value[-len(search) :] == search
    return not hit if op.startswith("NOT") else hit


def _model_order(op: str, one: Any, other: Any) -> bool | None:
    if one is None or other is None:
        return None
    low, high = _as_float(one), _as_float(other)
    return {">": low > high, ">=": low >= high, "<": low < high, "<=": low <= high}[op]


def _model(tree: Any, props: Mapping[str, str]) -> Any:
    op, *rest = tree
    if op in ("string", "number", "constant"):
        return rest[0]
    if op == "minus":
        return -rest[0]
    if op == "name":
        return props.get(rest[0])
    if op == "bare":
        return False if rest[0] in props else None
    if op.endswith("IN"):
        value = props.get(rest[0])
        return None if value is None else (value in rest[1]) == (op == "IN")
    if op.endswith(("CONTAINS", "WITH")):
        return _model_text(op, props.get(rest[0]), rest[1])
    one = _model(rest[0], props)
    if op.endswith("NULL"):
        return (one is None) == (op == "IS NULL")
    if op == "NOT":
        return {True: False, False: True, None: None}[one]
    if op in ("AND", "OR"):
        strong = op == "OR"
        if one is strong:
            return strong
        other = _model(rest[1], props)
        return strong if other is strong else (None if None in (one, other) else not strong)
    other = _model(rest[1], props)
    if op in ("=", "<>"):
        same = _model_equal(one, other)
        return same if op == "=" or same is None else not same
    return _model_order(op, one, other)


@given(_tree, _props)
def test_a_filter_answers_as_the_slow_model(tree: Any, props: dict[str, str]) -> None:
    try:
        wanted = _model(tree, props)
    except _Abandoned:
        wanted = None
    assert compile_filter(_print(tree))(props) is wanted
