"""Fetches a table of a broker, in as many requests as it has parts."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from epochmq.base.errors import PeerError
from epochmq.wire.command import Command, request
from epochmq.wire.table_parts import TableParts

T = TypeVar("T")


async def fetch_table(
    code: int,
    decode: Callable[[bytes], T],
    ask: Callable[[Command], Awaitable[Command | None]],
) -> T | None:
    """Return a whole table of a broker.

    Args:
        code: the request code.
        decode: decodes the body of a part, see `TableParts`.
        ask: sends a request and returns the answer, which is a success; None if the broker has no
            such table.

    Raises:
        PeerError: an answer is not usable; also what `ask` raises.
    """
    parts = TableParts(decode)
    is_whole = False
    while not is_whole:
        answer = await ask(request(code, parts.question()))
        if answer is None:
            return None
        try:
            is_whole = parts.add(answer)
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            raise PeerError(f"the answer to request {code} is not a table: {error}") from None
    return parts.content
