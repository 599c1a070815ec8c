"""Parses JSON as RocketMQ's peers write it (fastjson), and writes standard JSON.

Standard JSON is parsed by msgspec. A text that msgspec rejects is rewritten: bare integer keys
(`{0:"a"}`) are quoted, raw control characters in texts are escaped, and invalid UTF-8 is replaced.
The result is given to msgspec again. If that fails as well, a parser in plain Python reads the
text. It also accepts objects as keys (`{{"topic":"T"}:1}`; the key becomes its compact JSON text)
and lone surrogates. It is slow, so `careful_max` limits its input. All ways limit the depth.
"""

import re
from typing import Any

import msgspec
from msgspec import inspect

from epochmq.base.errors import PeerError
from epochmq.base.limits import FRAME_BYTES_MAX, JSON_DEPTH_MAX
from epochmq.base.ports import Buffer

_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BARE_KEY = re.compile(r"(?<=[{,])[ \t\r\n]*(0|-?[1-9][0-9]{0,63})[ \t\r\n]*(?=:)")
_CONTROL = re.compile(r"[\0-\x1f]")
_CONTROLS_ESCAPED = {number: f"\\u{number:04x}" for number in range(0x20)}
_MARK = "\0"

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_PLAIN = re.compile(r'[^"\\]*')
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER_DIGITS_MAX = 64
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: dict[str, tuple[str, Any]] = {
    "t": ("true", True),
    "f": ("false", False),
    "n": ("null", None),
}

REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
"""The errors of msgspec for a text that is not standard JSON, or has not the right type."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def loads(data: Buffer | str, *, careful_max: int = FRAME_BYTES_MAX) -> Any:
    """Parse one JSON text.

    Args:
        data: the text.
        careful_max: a longer text (in characters) is not given to the slow parser.

    Raises:
        PeerError: the text is neither standard JSON nor fastjson's, or is nested too deeply.
    """
    try:
        value = _decode(data)
    except REFUSALS:
        text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
        try:
            value = _decode(standardize(text))
        except REFUSALS:
            if len(text) > careful_max:
                raise PeerError(
                    f"malformed JSON; more than {careful_max} bytes are not looked at more closely"
                ) from None
            return _JsonParser(text).whole()
    if _deeper_than(value, JSON_DEPTH_MAX):
        raise PeerError(f"JSON is nested deeper than {JSON_DEPTH_MAX}")
    return value


def standardize(text: str) -> str:
    """Return `text` with bare integer keys quoted and raw control characters in texts escaped.

    Every step is one call of C code for the whole text instead of a loop over its tokens.
    """
    texts, rest = _TEXT.findall(text), _MARK.join(_TEXT.split(text))
    if rest.count(_MARK) != len(texts):
        return text  # the text itself contains the separator
    parts = '"'.join(_BARE_KEY.split(rest)).split(_MARK)
    if controls := _CONTROL.findall("".join(texts)):
        if any(f"\\{each}" in text for each in set(controls)):
            return text  # a backslash before a raw control character is not a valid escape
        texts = [each.translate(_CONTROLS_ESCAPED) for each in texts]
    result = [""] * (len(parts) + len(texts))
    result[::2], result[1::2] = parts, texts
    return "".join(result)


def dumps(obj: Any) -> bytes:
    """Return standard JSON: quoted keys, escaped control characters, the rest in UTF-8."""
    return _encode(obj)


def dumps_bare(obj: Any) -> bytes:
    """Return JSON with bare integer keys, as fastjson writes them, for readers that need it."""
    return "".join(_bare(msgspec.to_builtins(obj), JSON_DEPTH_MAX)).encode()


def _bare(value: Any, depth: int) -> list[str]:
    if depth == 0:
        raise ValueError(f"a value to write is nested deeper than {JSON_DEPTH_MAX}")
    if isinstance(value, dict):
        parts = [_bare_key(key) + ":" + "".join(_bare(v, depth - 1)) for key, v in value.items()]
        return ["{", ",".join(parts), "}"]
    if isinstance(value, list | tuple):
        return ["[", ",".join("".join(_bare(item, depth - 1)) for item in value), "]"]
    return [_encode(value).decode()]


def _bare_key(key: Any) -> str:
    return str(key) if isinstance(key, int) else _encode(key).decode()


def _deeper_than(value: Any, depth: int) -> bool:
    """Whether containers in `value` are nested more than `depth` times; one level in each step."""
    layer = [value]
    for _ in range(depth):
        layer = [
            inner
            for item in layer
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, dict | list)
        ]
        if not layer:
            return False
    return True


class _JsonParser:
    """A recursive descent parser for `text`, at most `JSON_DEPTH_MAX` deep."""

    __slots__ = ("_at", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Any:
        value = self._value(0)
        if self._peek() != "":
            raise self._wrong("text after the value")
        return value

    def _wrong(self, what: str) -> PeerError:
        return PeerError(f"malformed JSON at character {self._at}: {what}")

    def _peek(self) -> str:
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._text[self._at : self._at + 1]

    def _accept(self, char: str) -> bool:
        if self._peek() != char:
            return False
        self._at += 1
        return True

    def _need(self, char: str) -> None:
        if not self._accept(char):
            raise self._wrong(f"{char} expected")

    def _value(self, depth: int) -> Any:
        char = self._peek()
        if depth >= JSON_DEPTH_MAX and char in ("{", "["):
            raise self._wrong(f"nested deeper than {JSON_DEPTH_MAX}")
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._array(depth)
        if char == '"':
            return self._string()
        return self._word(char) if char in _WORDS else self._number()

    def _object(self, depth: int) -> dict[str, Any]:
        self._need("{")
        result: dict[str, Any] = {}
        while not self._accept("}"):
            if result:
                self._need(",")
            key = self._key(depth)
            self._need(":")
            result[key] = self._value(depth + 1)
        return result

    def _key(self, depth: int) -> str:
        char = self._peek()
        if char == '"':
            return self._string()
        if char == "{":
            return _encode(self._value(depth + 1)).decode()
        return str(self._number())

    def _array(self, depth: int) -> list[Any]:
        self._need("[")
        result: list[Any] = []
        while not self._accept("]"):
            if result:
                self._need(",")
            result.append(self._value(depth + 1))
        return result

    def _word(self, char: str) -> Any:
        word, value = _WORDS[char]
        if not self._text.startswith(word, self._at):
            raise self._wrong("unknown word")
        self._at += len(word)
        return value

    def _number(self) -> int | float:
        match = _NUMBER.match(self._text, self._at)
        if match is None or len(match[0]) > _NUMBER_DIGITS_MAX:
            raise self._wrong("a value expected")
        self._at = match.end()
        return float(match[0]) if match[1] or match[2] else int(match[0])

    def _string(self) -> str:
        self._at += 1
        parts: list[str] = []
        while True:
            match = _PLAIN.match(self._text, self._at)
            assert match is not None
            parts.append(match[0])
            self._at = match.end() + 1
            end = self._text[match.end() : self._at]
            if end == '"':
                return _whole_pairs("".join(parts))
            if end == "":
                raise self._wrong("a string does not end")
            parts.append(self._escape())

    def _escape(self) -> str:
        char = self._text[self._at : self._at + 1]
        self._at += 1
        if char in _ESCAPES and char:
            return _ESCAPES[char]
        match = _HEX4.match(self._text, self._at) if char == "u" else None
        if match is None:
            raise self._wrong("unknown escape")
        self._at = match.end()
        return chr(int(match[0], 16))


def _whole_pairs(text: str) -> str:
    """Join surrogate pairs that were written as two escapes; a lone surrogate becomes U+FFFD."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# Type conversion -----------------------------------------------------------------------------
# Converts parsed JSON to the types that it should have, after strict decoding has failed.
#
# Clients in other languages write `null` for an empty list, numbers and booleans instead of texts,
# and texts instead of numbers.


_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_SEQUENCES = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)


def loosen(value: Any, info: inspect.Type) -> Any:
    """Convert `value` (parsed JSON) to the type `info` where possible; the rest stays as it is."""
    if isinstance(info, inspect.UnionType):
        kinds = [t for t in info.types if not isinstance(t, inspect.NoneType)]
        return None if value is None else loosen(value, kinds[0])
    if isinstance(info, inspect.StructType):
        return _struct(value, info) if isinstance(value, dict) else value
    if isinstance(info, _SEQUENCES):
        return _items(value, info.item_type) if isinstance(value, list) else value
    if isinstance(info, inspect.DictType):
        return _map(value, info.value_type) if isinstance(value, dict) else value
    return _scalar(value, info)


def text_of(value: Any) -> str:
    """Return a parsed JSON value as text: texts unchanged, other values as compact JSON."""
    if isinstance(value, str):
        return value
    return dumps(value).decode()


def _struct(value: dict[str, Any], info: inspect.StructType) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for field in info.fields:
        item = value.get(field.encode_name)
        if item is not None:
            result[field.encode_name] = loosen(item, field.type)
    return result


def _items(value: list[Any], info: inspect.Type) -> list[Any]:
    return [loosen(item, info) for item in value if item is not None and not _is_reference(item)]


def _map(value: dict[str, Any], info: inspect.Type) -> dict[str, Any]:
    return {
        key: loosen(item, info)
        for key, item in value.items()
        if item is not None and not _is_reference(item)
    }


def _is_reference(value: Any) -> bool:
    """Whether `value` is fastjson's reference to an earlier object; such references are
    left out.
    """
    return isinstance(value, dict) and list(value) == ["$ref"]


def _scalar(value: Any, info: inspect.Type) -> Any:
    if isinstance(info, inspect.StrType):
        return text_of(value)
    if isinstance(info, inspect.IntType):
        return _integer(value)
    if isinstance(info, inspect.BoolType):
        return value.strip().lower() == "true" if isinstance(value, str) else bool(value)
    return value


def _integer(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    return value
