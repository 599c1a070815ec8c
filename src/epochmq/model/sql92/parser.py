"""Parses SQL92 filters: OR, AND, equality, comparison, sign and NOT, from weakest to strongest.

As in RocketMQ's grammar NOT binds strongest: `NOT a = 'x'` is `(NOT a) = 'x'`; brackets change
that. Unlike in RocketMQ, words that follow a complete filter are an error.
"""

import re
from typing import NamedTuple

from epochmq.base import limits
from epochmq.base.unbounded import LONG_MAX
from epochmq.model.sql92 import syntax
from epochmq.model.sql92.syntax import Node, SqlError

# Lexer ---------------------------------------------------------------------------------------
# Splits the text of a filter into tokens.


_RESERVED = "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH"
KEYWORDS = frozenset(_RESERVED.split())

# No part of the pattern may rescan a piece from each of its characters: long pieces must be cheap.
_token = re.compile(
    r"""
    (?P<space>[ \t\n\r\f]+ | --[^\n\r]* | /\*(?s:.*?)\*/)
  | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+)
  | (?P<int>[0-9]+[lL]?)
  | (?P<string>'(?:''|[^'])*')
  | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
  | (?P<mark><>|>=|<=|[=<>(),+-])
    """,
    re.VERBOSE,
).match


class Token(NamedTuple):
    """One token. `kind` is a keyword, a mark, or one of name, string, number, end; `at` its
    position.
    """

    kind: str
    value: str | int | float
    at: int


def tokens(text: str) -> list[Token]:
    """Return all tokens of `text`, with `end` as the last. Raises `SqlError` for invalid text."""
    if len(text) > limits.SQL_LENGTH_MAX:
        raise SqlError(f"{len(text)} characters, {limits.SQL_LENGTH_MAX} are allowed")
    found = []
    pos = 0
    while pos < len(text):
        match = _token(text, pos)
        if match is None:
            raise SqlError(f"nothing begins with {text[pos]!r}", pos)
        if match.lastgroup != "space":
            found.append(_read(str(match.lastgroup), match[0], pos))
        pos = match.end()
    found.append(Token("end", "", pos))
    return found


def _read(group: str, image: str, at: int) -> Token:
    if group == "word":
        upper = image.upper()
        return Token(upper, image, at) if upper in KEYWORDS else Token("name", image, at)
    if group == "string":
        return Token("string", image[1:-1].replace("''", "'"), at)
    if group == "mark":
        return Token(image, image, at)
    return Token("number", _number(group, image, at), at)


def _number(group: str, image: str, at: int) -> int | float:
    if group == "int":
        # The digits are counted first, because the conversion of thousands of digits is slow.
        digits = image.rstrip("lL")
        if digits[0] == "0" and digits != "0":
            raise SqlError("a number with leading zeros", at)
        if len(digits) > 19 or int(digits) > LONG_MAX:
            raise SqlError("an integer beyond 64 bits", at)
        return int(digits)
    value = float(image)
    if value == float("inf"):
        raise SqlError("a number beyond a double's range", at)
    return value


# Parser --------------------------------------------------------------------------------------


_ORDER = frozenset((">", ">=", "<", "<="))
_SEARCH = frozenset(("CONTAINS", "STARTSWITH", "ENDSWITH"))
_RANGE = _SEARCH | {"BETWEEN", "IN"}
_LITERALS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}


def parse(text: str) -> Node:
    """Return the tree of `text`. Raises `SqlError` that says what is wrong and where."""
    return _Sql92Parser(tokens(text)).whole()


class _Sql92Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._any()
        if self._kind != "end":
            raise self._unexpected("the end, AND or OR")
        return syntax.condition(node, 0)

    def _any(self) -> Node:
        start = self._at
        operands = [self._every()]
        while self._accept("OR"):
            operands.append(self._every())
        return self._joined(operands, start, every=False)

    def _every(self) -> Node:
        start = self._at
        operands = [self._equality()]
        while self._accept("AND"):
            operands.append(self._equality())
        return self._joined(operands, start, every=True)

    def _joined(self, operands: list[Node], start: int, *, every: bool) -> Node:
        if len(operands) == 1:
            return operands[0]
        conditions = (syntax.condition(operand, start) for operand in operands)
        return syntax.Logic(every, tuple(conditions))

    def _equality(self) -> Node:
        left = self._comparison()
        outer = self._depth
        while self._kind in ("=", "<>", "IS"):
            self._deeper()  # each step makes the tree one level deeper
            left = self._equality_step(left)
        self._depth = outer
        return left

    def _equality_step(self, left: Node) -> Node:
        at = self._at
        if self._accept("IS"):
            negated = self._accept("NOT")
            self._need("NULL")
            empty: Node = syntax.Compare("=", left, syntax.Constant(None))
            return syntax.Not(empty) if negated else empty
        negated = self._accept("<>")
        if not negated:
            self._need("=")
        same = syntax.equal(left, self._comparison(), at)
        return syntax.Not(same) if negated else same

    def _comparison(self) -> Node:
        left = self._unary()
        outer = self._depth
        while self._kind in _ORDER or self._kind in _RANGE or self._kind == "NOT":
            self._deeper()
            left = self._comparison_step(left)
        self._depth = outer
        return left

    def _comparison_step(self, left: Node) -> Node:
        at = self._at
        negated = self._accept("NOT")
        op = self._kind
        if op in _ORDER and not negated:
            self._accept(op)
            return syntax.ordered(op, left, self._unary(), at)
        if op in _SEARCH:
            self._accept(op)
            return syntax.Text(op, left, self._string(), negated)
        if self._accept("BETWEEN"):
            low = self._unary()
            self._need("AND")
            return syntax.between(left, low, self._unary(), negated, at)
        if self._accept("IN"):
            return syntax.within(left, self._strings(), negated, at)
        raise self._unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")

    def _strings(self) -> list[str]:
        self._need("(")
        values = [self._string()]
        while self._accept(","):
            values.append(self._string())
        self._need(")")
        return values

    def _unary(self) -> Node:
        outer = self._depth
        self._deeper()
        at = self._at
        node: Node
        if self._accept("+"):
            node = self._unary()
        elif self._accept("-"):
            node = syntax.Negate(self._unary())
        elif self._accept("NOT"):
            node = syntax.Not(syntax.condition(self._unary(), at))
        else:
            node = self._primary()
        self._depth = outer
        return node

    def _primary(self) -> Node:
        token = self._tokens[self._next]
        if self._accept("("):
            node = self._any()
            self._need(")")
            return node
        if token.kind in _LITERALS:
            self._next += 1
            return syntax.Constant(_LITERALS[token.kind])
        if self._accept("string") or self._accept("number"):
            return syntax.Constant(token.value)
        if self._accept("name"):
            return syntax.Property(str(token.value))
        raise self._unexpected("a property, a number, a string or a bracket")

    def _string(self) -> str:
        token = self._tokens[self._next]
        self._need("string")
        return str(token.value)

    @property
    def _kind(self) -> str:
        return self._tokens[self._next].kind

    @property
    def _at(self) -> int:
        return self._tokens[self._next].at

    def _accept(self, kind: str) -> bool:
        if self._kind != kind:
            return False
        self._next += 1
        return True

    def _need(self, kind: str) -> None:
        if not self._accept(kind):
            raise self._unexpected(kind)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > limits.SQL_DEPTH_MAX:
            raise SqlError(f"nested deeper than {limits.SQL_DEPTH_MAX}", self._at)

    def _unexpected(self, wanted: str) -> SqlError:
        token = self._tokens[self._next]
        found = "the end" if token.kind == "end" else repr(token.value)
        return SqlError(f"{wanted} is needed, {found} was found", token.at)
