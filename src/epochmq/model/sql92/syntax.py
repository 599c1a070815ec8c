"""The tree of an SQL92 filter and the rules on what may stand where.

Rules are those of RocketMQ's own filter: only numbers and properties are ordered, only properties
are looked up in lists, and what is joined by AND, OR, NOT is a condition or a bare property.
"""

from dataclasses import dataclass

from epochmq.base.errors import Refused

# Sql92 errors --------------------------------------------------------------------------------
# The one error of an SQL92 filter.


_SUBSCRIPTION_PARSE_FAILED = 23


class SqlError(Refused):
    """A filter that cannot be used; answered with code 23. Says where in the text and why."""

    def __init__(self, problem: str, at: int | None = None) -> None:
        where = "" if at is None else f" at character {at + 1}"
        super().__init__(_SUBSCRIPTION_PARSE_FAILED, f"SQL92 filter: {problem}{where}")


# Syntax --------------------------------------------------------------------------------------


Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Constant:
    value: Value


@dataclass(frozen=True, slots=True)
class Property:
    name: str


@dataclass(frozen=True, slots=True)
class Negate:
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Cast:
    """A bare property as a condition: unknown when missing, false otherwise (it is a string)."""

    operand: Property


@dataclass(frozen=True, slots=True)
class Compare:
    """`op` is one of = > >= < <=."""

    op: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class In:
    operand: Property
    values: frozenset[str]
    negated: bool


@dataclass(frozen=True, slots=True)
class Text:
    """`op` is CONTAINS, STARTSWITH or ENDSWITH."""

    op: str
    operand: "Node"
    search: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Logic:
    """AND (`every`) or OR over two or more conditions; flat, so long chains stay shallow."""

    every: bool
    operands: tuple["Node", ...]


Node = Constant | Property | Negate | Not | Cast | Compare | In | Text | Logic


def is_condition(node: Node) -> bool:
    """Whether `node` gives true, false or unknown."""
    if isinstance(node, Constant):
        return node.value is None or isinstance(node.value, bool)
    return not isinstance(node, Property | Negate)


def condition(node: Node, at: int) -> Node:
    """`node` as a condition; SqlError for a number, a string or a negative."""
    if isinstance(node, Property):
        return Cast(node)
    if not is_condition(node):
        raise SqlError("a condition is needed here, not a value", at)
    return node


def equal(left: Node, right: Node, at: int) -> Node:
    """left = right; NULL has IS NULL instead."""
    for side in (left, right):
        if isinstance(side, Constant) and side.value is None:
            raise SqlError("nothing is equal to NULL; write IS NULL or IS NOT NULL", at)
    if isinstance(left, Constant) and isinstance(right, Constant):
        if isinstance(left.value, bool) and not isinstance(right.value, bool):
            raise SqlError("TRUE or FALSE compared with a value of another kind", at)
    return Compare("=", left, right)


def ordered(op: str, left: Node, right: Node, at: int) -> Node:
    """left < right and its like; only for numbers and properties that hold numbers."""
    for side in (left, right):
        if is_condition(side) or (isinstance(side, Constant) and isinstance(side.value, str)):
            raise SqlError(f"{op} compares numbers only", at)
    return Compare(op, left, right)


def between(operand: Node, low: Node, high: Node, negated: bool, at: int) -> Node:
    """[NOT] BETWEEN low AND high, both ends included."""
    if negated:
        sides = (ordered("<", operand, low, at), ordered(">", operand, high, at))
    else:
        sides = (ordered(">=", operand, low, at), ordered("<=", operand, high, at))
        if isinstance(low, Constant) and isinstance(high, Constant):
            assert isinstance(low.value, int | float)
            assert isinstance(high.value, int | float)
            if low.value > high.value:
                raise SqlError("BETWEEN needs the smaller number first", at)
    return Logic(not negated, sides)


def within(operand: Node, values: list[str], negated: bool, at: int) -> Node:
    """[NOT] IN (...); only of a property, only strings."""
    if not isinstance(operand, Property):
        raise SqlError("IN needs a property on its left", at)
    return In(operand, frozenset(values), negated)
