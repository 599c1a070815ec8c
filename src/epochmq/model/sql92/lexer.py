"""SQL92 text to tokens."""

import re
from typing import NamedTuple

from epochmq.base import limits
from epochmq.model.sql92.sql92_errors import SqlError

_RESERVED = "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH"
KEYWORDS = frozenset(_RESERVED.split())
_LONG_MAX = 2**63 - 1

# No piece may be scanned again and again from every character of it: a long one must stay cheap.
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
    """`kind` is a keyword, a mark, or one of name, string, number, end; `at` its place."""

    kind: str
    value: str | int | float
    at: int


def tokens(text: str) -> list[Token]:
    """All tokens of `text`, an `end` last; SqlError for what is none, or a text too long."""
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
        # The digits are counted first: turning thousands of them into a number is slow.
        digits = image.rstrip("lL")
        if digits[0] == "0" and digits != "0":
            raise SqlError("a number with leading zeros", at)
        if len(digits) > 19 or int(digits) > _LONG_MAX:
            raise SqlError("an integer beyond 64 bits", at)
        return int(digits)
    value = float(image)
    if value == float("inf"):
        raise SqlError("a number beyond a double's range", at)
    return value
