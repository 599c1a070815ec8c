"""Recall handles, which cancel a message with an exact time (RocketMQ 5.3.2 and later).

URL-safe Base64 of five words with spaces between: `v1`, topic, broker name, delivery time (Unix ms)
and UNIQ_KEY. The answer to a send contains the handle; RECALL_MESSAGE sends it back.
"""

import base64
import binascii
from typing import NamedTuple

from epochmq.base.errors import PeerError

VERSION = "v1"
_WORDS = 5
_LENGTH_MAX = 4_096


class RecallHandle(NamedTuple):
    """The content of a handle. `deliver_wall_ms` is -1 if it is not a number; brokers
    refuse it then.
    """

    topic: str
    broker_name: str
    deliver_wall_ms: int
    uniq_key: str

    def __str__(self) -> str:
        words = (VERSION, self.topic, self.broker_name, str(self.deliver_wall_ms), self.uniq_key)
        return base64.urlsafe_b64encode(" ".join(words).encode()).decode()


def parse(text: str) -> RecallHandle:
    """Read a handle. Raises `PeerError` for any other text."""
    problem = PeerError("recall handle is invalid")
    if len(text) > _LENGTH_MAX:
        raise problem
    try:
        raw = base64.b64decode(text, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise problem from None
    words = raw.split(" ")
    if len(words) < _WORDS or words[0] != VERSION or not (words[1] and words[4]):
        raise problem
    time = words[3]
    is_time = time.isascii() and time.isdecimal() and len(time) < 19
    return RecallHandle(words[1], words[2], int(time) if is_time else -1, words[4])
