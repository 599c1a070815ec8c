"""A command: one request or one response, with JSON or binary header."""

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from epochmq.base.errors import PeerError, UsageError
from epochmq.base.limits import (
    ANSWER_HEADER_BYTES_MAX,
    CAREFUL_BODY_BYTES_MAX,
    EXT_FIELDS_MAX,
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    REMARK_BYTES_MAX,
)
from epochmq.base.ports import Buffer
from epochmq.wire import binary_header, json_tolerant
from epochmq.wire.binary_header import BinaryHeader
from epochmq.wire.codes import (
    LANGUAGE_NUMBERS,
    LANGUAGES,
    OUR_LANGUAGE,
    OUR_VERSION,
    UNKNOWN_LANGUAGE,
)
from epochmq.wire.frame import PREFIX_BYTES, prefix
from epochmq.wire.header import I32, Header, encode_header, to_text

FLAG_RESPONSE = 1
FLAG_ONEWAY = 2

_shortener = reprlib.Repr()
_shortener.maxdict, _shortener.maxstring = 16, 120
_short = _shortener.repr
"""`repr` for the log with a limited length, because peers choose the values."""


class Command:
    """One request or response.

    Attributes:
        code: request code or response code.
        language: name of the sender's programming language.
        version: number of the sender's version.
        opaque: number that connects a response to its request.
        flag: bits FLAG_RESPONSE and FLAG_ONEWAY.
        remark: text of an error, or None.
        ext: fields of the custom header as texts, or None.
        body: the body in bytes.
        binary: whether the header is encoded in binary form instead of JSON.
        arrived_ms: when a request arrived (monotonic time); -1 if its answer is not timed.
        was_held: whether a request waited for messages (long polling).
    """

    __slots__ = (
        "arrived_ms",
        "binary",
        "body",
        "code",
        "ext",
        "flag",
        "language",
        "opaque",
        "remark",
        "version",
        "was_held",
    )

    def __init__(
        self,
        code: int,
        *,
        language: str = OUR_LANGUAGE,
        version: int = OUR_VERSION,
        opaque: int = 0,
        flag: int = 0,
        remark: str | None = None,
        ext: dict[str, str] | None = None,
        body: Buffer = b"",
        binary: bool = False,
        arrived_ms: int = -1,
        was_held: bool = False,
    ) -> None:
        self.code: int = int(code)
        self.language: str = language
        self.version: int = version
        self.opaque: int = opaque
        self.flag: int = flag
        self.remark: str | None = remark
        self.ext: dict[str, str] | None = ext
        self.body: Buffer = body
        self.binary: bool = binary
        self.arrived_ms: int = arrived_ms
        self.was_held: bool = was_held

    @property
    def is_response(self) -> bool:
        """Whether it is a response, not a request."""
        return self.flag & FLAG_RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """Whether the request must not be answered."""
        return self.flag & FLAG_ONEWAY != 0

    def mark_oneway(self) -> None:
        """Make it a request that must not be answered."""
        self.flag |= FLAG_ONEWAY

    def mark_held(self) -> None:
        """Note that the request waited for messages."""
        self.was_held = True

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "oneway" if self.is_oneway else "request"
        return (
            f"<{kind} code={self.code} opaque={self.opaque} ext={_short(self.ext)} "
            f"remark={_short(self.remark)} body={len(self.body)} bytes>"
        )


@dataclass(slots=True)
class Reply:
    """The answer of a handler: code, remark, header, and a body of one or more chunks."""

    code: int = 0
    remark: str | None = None
    header: Header | Mapping[str, str] | None = None
    body: Buffer | Sequence[Buffer] = b""


class Held:
    """The type of `HELD`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "HELD"


HELD: Final = Held()
"""A handler returns it when it keeps session and request, to answer later by `Session.answer`."""


def request(
    code: int,
    header: Header | Mapping[str, str] | None = None,
    body: Buffer = b"",
    oneway: bool = False,
) -> Command:
    """Return a new request; its sender sets the opaque."""
    return Command(code, flag=FLAG_ONEWAY if oneway else 0, ext=_ext(header), body=body)


def response(
    to: Command,
    code: int,
    remark: str | None = None,
    header: Header | Mapping[str, str] | None = None,
    body: Buffer = b"",
) -> Command:
    """Return an answer to `to`, with the same opaque and encoding; a long remark is cut."""
    return Command(
        code,
        opaque=to.opaque,
        flag=FLAG_RESPONSE,
        remark=None if remark is None else cut_remark(remark),
        ext=_ext(header),
        body=body,
        binary=to.binary,
    )


def cut_remark(remark: str) -> str:
    """Return at most `REMARK_BYTES_MAX` bytes of `remark`, as valid UTF-8."""
    data = remark.encode("utf-8", "replace")[:REMARK_BYTES_MAX]
    return data.decode("utf-8", "ignore")


def _ext(header: Header | Mapping[str, str] | None) -> dict[str, str] | None:
    if header is None:
        return None
    return encode_header(header) if isinstance(header, Header) else dict(header)


class _JsonOut(msgspec.Struct, gc=False):
    """The JSON header for sending: fields in Java's (alphabetical) order, without those that are
    None.
    """

    code: int
    extFields: dict[str, str] | msgspec.UnsetType
    flag: int
    language: str
    opaque: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str
    version: int


class _JsonIn(msgspec.Struct, gc=False):
    """The JSON header of a correct peer; other headers are read by `_from_loose`."""

    code: I32
    language: str = UNKNOWN_LANGUAGE
    version: I32 = 0
    opaque: I32 = 0
    flag: I32 = 0
    remark: str | None = None
    extFields: dict[str, str] | None = None


_encode_json = msgspec.json.Encoder().encode
_decode_json = msgspec.json.Decoder(_JsonIn, strict=False).decode


def encode_frame(command: Command) -> bytes:
    """Return the whole frame of `command`. Raises `UsageError` if it exceeds the limits."""
    return encode_head(command, len(command.body)) + command.body


def encode_head(command: Command, body_size: int) -> bytes:
    """Return the frame of `command` up to its body of `body_size` bytes, which is sent separately.

    Raises:
        UsageError: header or frame exceed their limits.
    """
    header = _binary_header(command) if command.binary else _json_header(command)
    header_max = ANSWER_HEADER_BYTES_MAX if command.is_response else HEADER_BYTES_MAX
    if len(header) > header_max:
        raise UsageError(f"a header of {len(header)} bytes exceeds {header_max}")
    if PREFIX_BYTES + len(header) + body_size > FRAME_BYTES_MAX:
        raise UsageError(f"a body of {body_size} bytes exceeds a frame of {FRAME_BYTES_MAX}")
    return prefix(len(header), body_size, command.binary) + header


def encode_reply(to: Command, reply: Reply) -> list[Buffer]:
    """Return the frame that answers `to` as chunks: the head, then the chunks of the body."""
    body = reply.body
    chunks = [body] if isinstance(body, bytes | bytearray | memoryview) else list(body)
    head = response(to, reply.code, reply.remark, reply.header)
    return [encode_head(head, sum(map(len, chunks))), *chunks]


def _binary_header(command: Command) -> bytes:
    return binary_header.encode(
        BinaryHeader(
            command.code,
            command.language,
            command.version,
            command.opaque,
            command.flag,
            command.remark,
            command.ext,
        )
    )


def _json_header(command: Command) -> bytes:
    return _encode_json(
        _JsonOut(
            code=command.code,
            extFields=msgspec.UNSET if command.ext is None else command.ext,
            flag=command.flag,
            language=command.language,
            opaque=command.opaque,
            remark=msgspec.UNSET if command.remark is None else command.remark,
            serializeTypeCurrentRPC="JSON",
            version=command.version,
        )
    )


def decode(header: Buffer, binary: bool, body: Buffer = b"") -> Command:
    """Decode the header of one frame, as leniently as Java does. Raises `PeerError` if
    it cannot.
    """
    command = _from_binary(header) if binary else _from_json(header)
    if command.ext is not None and len(command.ext) > EXT_FIELDS_MAX:
        raise PeerError(f"{len(command.ext)} ext fields are more than {EXT_FIELDS_MAX}")
    command.body = body
    return command


def _from_binary(header: Buffer) -> Command:
    fields = binary_header.decode(header)
    return Command(
        fields.code,
        language=fields.language,
        version=fields.version,
        opaque=fields.opaque,
        flag=fields.flag,
        remark=fields.remark,
        ext=fields.ext,
        binary=True,
    )


def _from_json(header: Buffer) -> Command:
    try:
        fields = _decode_json(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return _from_loose(json_tolerant.loads(header, careful_max=CAREFUL_BODY_BYTES_MAX))
    return Command(
        fields.code,
        language=fields.language if fields.language in LANGUAGE_NUMBERS else UNKNOWN_LANGUAGE,
        version=fields.version,
        opaque=fields.opaque,
        flag=fields.flag,
        remark=fields.remark,
        ext=fields.extFields,
    )


def _from_loose(fields: Any) -> Command:
    """Read a JSON header whose values have unexpected types."""
    if not isinstance(fields, dict):
        raise PeerError("a JSON header must be an object")
    remark = fields.get("remark")
    return Command(
        _loose_int(fields, "code", required=True),
        language=_loose_language(fields.get("language")),
        version=_loose_int(fields, "version"),
        opaque=_loose_int(fields, "opaque"),
        flag=_loose_int(fields, "flag"),
        remark=None if remark is None else _loose_text(remark),
        ext=_loose_ext(fields.get("extFields")),
    )


def _loose_int(fields: dict[str, Any], name: str, required: bool = False) -> int:
    value = fields.get(name)
    if value is None and not required:
        return 0
    try:
        number = int(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or not -(2**31) <= number < 2**31:
        raise PeerError(f"the header's {name} is not an int32")
    return number


def _loose_language(value: Any) -> str:
    if isinstance(value, int):
        return LANGUAGES.get(value, UNKNOWN_LANGUAGE)
    if isinstance(value, str):
        return value if value in LANGUAGE_NUMBERS else UNKNOWN_LANGUAGE
    return UNKNOWN_LANGUAGE


def _loose_ext(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise PeerError("extFields must be an object")
    return {key: _loose_text(item) for key, item in value.items() if item is not None}


def _loose_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return json_tolerant.dumps(value).decode()
    return to_text(value)
