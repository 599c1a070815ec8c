"""Answers to requests whose header is too long to be parsed.

In a JSON header, the few fields that matter are searched at both ends: `extFields` is what makes a
header long, and every client writes the other fields before or behind it. A quotation mark inside a
text has a backslash before it, so the search finds no fields inside texts.
"""

import re

from epochmq.base.errors import PeerError
from epochmq.wire import binary_header
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.frame import LongHeader

_EXT = b'"extFields"'
_FIELD = re.compile(rb'[{,]\s*"(code|opaque|flag)"\s*:\s*(-?[0-9]{1,10})(?=\s*[,}])')
_SENDS = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)


def command_of(frame: LongHeader) -> Command:
    """Return the command of the frame without its fields. Raises `PeerError` if it
    cannot be found.
    """
    if frame.binary:
        fixed = binary_header.decode_fixed(frame.head)
        return Command(fixed.code, opaque=fixed.opaque, flag=fixed.flag, binary=True)
    found: dict[bytes, int] = {}
    for part in (frame.head.partition(_EXT)[0], _behind_ext(frame.tail)):
        for name, text in _FIELD.findall(part):
            found[name] = int(text)
    if b"code" not in found or b"opaque" not in found:
        raise PeerError(f"a header of {frame.size} bytes, without a code or an opaque at its ends")
    if not all(-(2**31) <= number < 2**31 for number in found.values()):
        raise PeerError(f"a header of {frame.size} bytes with a number that is not an int32")
    return Command(found[b"code"], opaque=found[b"opaque"], flag=found.get(b"flag", 0))


def _behind_ext(tail: bytes) -> bytes:
    """Return the bytes behind the brace that closes `extFields`."""
    return tail[tail.rfind(b"}", 0, tail.rfind(b"}")) + 1 :]


def refusal_of(command: Command, size: int, limit: int) -> Reply:
    """Return the answer: for a send, the code that RocketMQ uses for properties that
    are too long.
    """
    code = ResponseCode.SYSTEM_ERROR
    if command.code in _SENDS:
        code = ResponseCode.MESSAGE_ILLEGAL
    return Reply(code, f"a header of {size} bytes is longer than the {limit} that are allowed")
