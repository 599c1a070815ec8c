"""The syntax tree of an SQL92 filter, and the rules for its nodes.

The rules are RocketMQ's: only numbers and properties are ordered, only properties are searched in
lists, and operands of AND, OR and NOT are conditions or properties.
"""

from dataclasses import dataclass

from epochmq.base.errors import Refused

# Sql92 errors --------------------------------------------------------------------------------
# The error of an invalid SQL92 filter.


_SUBSCRIPTION_PARSE_FAILED = 23


class SqlError(Refused):
    """A filter that cannot be used (code 23); the text says where and why."""

    def __init__(self, problem: str, at: int | None = None) -> None:
        where = "" if at is None else f" at character {at + 1}"
        super().__init__(_SUBSCRIPTION_PARSE_FAILED, f"SQL92 filter: {problem}{where}")


# Syntax --------------------------------------------------------------------------------------


Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: Value


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a property."""

    name: str


@dataclass(frozen=True, slots=True)
class Negate:
    """A number with its sign changed."""

    operand: "Node"


@dataclass(frozen=True, slots=True)
class Not:
    """NOT of a condition."""

    operand: "Node"


@dataclass(frozen=True, slots=True)
class Cast:
    """A property as a condition: unknown if it is missing, else false, because it is a string."""

    operand: Property


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison; `op` is one of = > >= < <=."""

    op: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class In:
    """IN or NOT IN with a list of strings."""

    operand: Property
    values: frozenset[str]
    negated: bool


@dataclass(frozen=True, slots=True)
class Text:
    """A text search; `op` is CONTAINS, STARTSWITH or ENDSWITH."""

    op: str
    operand: "Node"
    search: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Logic:
    """AND (`every`) or OR of two or more conditions; flat, so that long chains are not deep."""

    every: bool
    operands: tuple["Node", ...]


Node = Constant | Property | Negate | Not | Cast | Compare | In | Text | Logic


def is_condition(node: Node) -> bool:
    """Whether `node` has the value true, false or unknown."""
    if isinstance(node, Constant):
        return node.value is None or isinstance(node.value, bool)
    return not isinstance(node, Property | Negate)


def condition(node: Node, at: int) -> Node:
    """Return `node` as a condition. Raises `SqlError` for a number, a string or a
    negative value.
    """
    if isinstance(node, Property):
        return Cast(node)
    if not is_condition(node):
        raise SqlError("a condition is needed here, not a value", at)
    return node


def equal(left: Node, right: Node, at: int) -> Node:
    """Return left = right. Raises `SqlError` for NULL, which needs IS NULL."""
    for side in (left, right):
        if isinstance(side, Constant) and side.value is None:
            raise SqlError("nothing is equal to NULL; write IS NULL or IS NOT NULL", at)
    if isinstance(left, Constant) and isinstance(right, Constant):
        if isinstance(left.value, bool) and not isinstance(right.value, bool):
            raise SqlError("TRUE or FALSE compared with a value of another kind", at)
    return Compare("=", left, right)


def ordered(op: str, left: Node, right: Node, at: int) -> Node:
    """Return left < right or another order. Raises `SqlError` for anything but numbers and
    properties.
    """
    for side in (left, right):
        if is_condition(side) or (isinstance(side, Constant) and isinstance(side.value, str)):
            raise SqlError(f"{op} compares numbers only", at)
    return Compare(op, left, right)


def between(operand: Node, low: Node, high: Node, negated: bool, at: int) -> Node:
    """Return [NOT] BETWEEN low AND high, with both ends included."""
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
    """Return [NOT] IN (...). Raises `SqlError` unless the left side is a property."""
    if not isinstance(operand, Property):
        raise SqlError("IN needs a property on its left", at)
    return In(operand, frozenset(values), negated)
