"""Java's `.properties` text format, which RocketMQ uses for configuration."""

import re
from collections.abc import Iterable, Iterator

from epochmq.base.errors import ConfigError

_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_ENDS_OPEN = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SHORT = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""Read the text as `java.util.Properties` does; the last of equal keys wins.

    Raises:
        ConfigError: a `\u` escape is incomplete.
    """
    pairs: dict[str, str] = {}
    problems: list[str] = []
    for number, line in _logical_lines(text):
        found = _KEY.match(line)
        if found is None or re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})", line):
            problems.append(f"line {number}: a \\u escape needs four hexadecimal digits")
        else:
            pairs[_unescape(found[1])] = _unescape(found[2])
    if problems:
        raise ConfigError(problems)
    return pairs


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Return lines with continuations joined, without blank lines and comments."""
    pending, start = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANK)
        if not start and (not line or line[0] in "#!"):
            continue
        start = start or number
        if _ENDS_OPEN.search(line):
            pending += line[:-1]
            continue
        yield start, pending + line
        pending, start = "", 0
    if pending:
        yield start, pending


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescape_one, text)
    # Java writes a character beyond U+FFFF as two escapes, one for each surrogate.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape_one(found: re.Match[str]) -> str:
    body = found[1]
    if len(body) == 5:
        return chr(int(body[1:], 16))
    return _SHORT.get(body, body)


def format_properties(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the pairs as text that `parse_properties` and Java read back unchanged."""
    return "".join(f"{_escape(k, ' =:#!')}={_escape(v, '')}\n" for k, v in pairs)


def _escape(text: str, special: str) -> str:
    long_names = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}
    out: list[str] = []
    for position, char in enumerate(text):
        if char in long_names:
            out.append(long_names[char])
        elif char in special or (char == " " and position == 0):
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            out.extend(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
    return "".join(out)
