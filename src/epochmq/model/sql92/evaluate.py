"""Evaluates an SQL92 filter as a tree of closures; no text is executed as code.

Logic has three values: true, false, and None for unknown. Only true selects a message. Properties
are strings. Compared with a number, a property is read as a number. If it is not a number, the
whole filter is unknown, even inside NOT or OR, because RocketMQ stops evaluating then. There are
two differences from RocketMQ, in cases where it would stop: an integer literal may be compared with
a property that has a fraction, or with one beyond 32 bits.
"""

import re
from collections.abc import Callable, Mapping

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
    Text,
    Value,
)

_Step = Callable[[Mapping[str, str]], Value]

_integer = re.compile(r"[+-]?[0-9]{1,40}").fullmatch
_double = re.compile(
    r"[\x00-\x20]*([+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))"
    r"(?:(?<=[0-9.])[dDfF])?[\x00-\x20]*"
).fullmatch


class _Mismatch(Exception):
    """Values that cannot be compared; it ends the evaluation of the whole filter."""


class Sql92Filter:
    """A compiled filter. Calling it with the properties of a message never raises an error."""

    __slots__ = ("_root", "nodes")

    def __init__(self, root: Node) -> None:
        self._root = _step(root)
        self.nodes = _count(root)
        """Number of conditions and values in it: the largest cost of one call."""

    def __call__(self, props: Mapping[str, str]) -> bool | None:
        try:
            answer = self._root(props)
        except _Mismatch:
            return None
        return answer if isinstance(answer, bool) else None


def compile_filter(text: str) -> Sql92Filter:
    """Return the filter for `text`. Raises `SqlError` if it is invalid."""
    return Sql92Filter(parse(text))


def _count(node: Node) -> int:
    match node:
        case Logic(_, operands):
            return 1 + sum(map(_count, operands))
        case Negate(operand) | Not(operand) | Cast(operand) | Text(_, operand):
            return 1 + _count(operand)
        case Compare(_, left, right):
            return 1 + _count(left) + _count(right)
        case _:
            return 1


def _step(node: Node) -> _Step:
    match node:
        case Constant(value):
            return lambda props: value
        case Property(name):
            return lambda props: props.get(name)
        case Cast(Property(name)):
            return lambda props: False if name in props else None
        case Negate(operand):
            return _negate(_step(operand))
        case Not(operand):
            return _not(_step(operand))
        case Logic(every, operands):
            return _logic(every, tuple(map(_step, operands)))
        case In(Property(name), values, negated):
            return _in(name, values, negated)
        case Text(op, operand, search, negated):
            return _text(op, _step(operand), search, negated)
        case Compare("=", Property(name), Constant(str() as text)):
            return _same_text(name, text)
        case Compare("=", left, right):
            return _equal(_step(left), _step(right))
        case _:
            return _ordered(_ORDER[node.op], _step(node.left), _step(node.right))


def _negate(operand: _Step) -> _Step:
    def run(props: Mapping[str, str]) -> Value:
        value = operand(props)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return -value if is_number else None  # type: ignore[operator]

    return run


def _not(operand: _Step) -> _Step:
    def run(props: Mapping[str, str]) -> Value:
        value = operand(props)
        return None if value is None else not value

    return run


def _logic(every: bool, operands: tuple[_Step, ...]) -> _Step:
    decisive = not every

    def run(props: Mapping[str, str]) -> Value:
        answer: Value = every
        for operand in operands:
            value = operand(props)
            if value is decisive:
                return decisive
            if value is None:
                answer = None
        return answer

    return run


def _in(name: str, values: frozenset[str], negated: bool) -> _Step:
    def run(props: Mapping[str, str]) -> Value:
        value = props.get(name)
        return None if value is None else (value in values) != negated

    return run


def _text(op: str, operand: _Step, search: str, negated: bool) -> _Step:
    """Return the step of a text search: false if the operand is missing or no string, or the search
    is empty.

    It is false then also with NOT, as in RocketMQ.
    """
    test = _TEXT[op]

    def run(props: Mapping[str, str]) -> Value:
        value = operand(props)
        return bool(search) and isinstance(value, str) and test(value, search) != negated

    return run


_TEXT: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def _same_text(name: str, text: str) -> _Step:
    def run(props: Mapping[str, str]) -> Value:
        value = props.get(name)
        return None if value is None else value == text

    return run


def _equal(left: _Step, right: _Step) -> _Step:
    """Return the step of an equality.

    The result is unknown if only the left side is missing, false if only the right side is, and
    true if both are.
    """

    def run(props: Mapping[str, str]) -> Value:
        one, other = left(props), right(props)
        if one is None:
            return True if other is None else None
        return other is not None and _same(one, other)

    return run


def _same(one: Value, other: Value) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return _same_truth(one, other)
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    return _order(_number(one), _number(other)) == 0


def _same_truth(one: Value, other: Value) -> bool:
    if isinstance(one, bool) and isinstance(other, str):
        raise _Mismatch  # RocketMQ reads a string as a truth value on the left side only
    if isinstance(one, str):
        return (one.lower() == "true") is other
    return one is other


def _ordered(wanted: frozenset[int], left: _Step, right: _Step) -> _Step:
    def run(props: Mapping[str, str]) -> Value:
        one = left(props)
        if one is None:
            return None
        other = right(props)
        if other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            return _order(_read_double(one), _read_double(other)) in wanted
        return _order(_number(one), _number(other)) in wanted

    return run


_ORDER = {
    ">": frozenset({1}),
    ">=": frozenset({0, 1}),
    "<": frozenset({-1}),
    "<=": frozenset({-1, 0}),
}


def _number(value: Value) -> int | float:
    if not isinstance(value, str):
        assert value is not None
        return value
    return int(value) if _integer(value) else _read_double(value)


def _read_double(text: str) -> float:
    """Read the texts that Java reads as a double, except hexadecimal ones."""
    match = _double(text)
    if match is None:
        raise _Mismatch
    return float(match[1])


def _order(one: int | float, other: int | float) -> int:
    """Return -1, 0 or 1. NaN is above all numbers and equal to itself; a float makes
    both floats.
    """
    if isinstance(one, float) or isinstance(other, float):
        one, other = float(one), float(other)
        if one != one or other != other:
            return (one != one) - (other != other)
    return (one > other) - (one < other)
