"""Dispatches frames to request handlers; all servers use it.

A server that handles frequent requests itself takes their frames first and passes the rest to
`handle`.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from epochmq.base.errors import HeaderError, OurBug, PeerError, Refused, UsageError
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Held, Reply, decode
from epochmq.wire.frame import RawFrame
from epochmq.wire.session import Session

Handler = Callable[[Command, Session, int], Reply | Held]

log = logging.getLogger(__name__)


class Dispatcher:
    """A `FrameSink` with a table of handlers by request code."""

    def __init__(self, table: Mapping[int, Handler] | None = None) -> None:
        self.table: dict[int, Handler] = dict(table or {})

    def opened(self, session: Session) -> None:
        """Note that a connection was opened."""

    def closed(self, session: Session) -> None:
        """Note that a connection was closed."""

    def end_of_turn(self, now: int) -> None:
        """Note that all reads of this turn are handled."""

    def receive(self, session: Session, frames: Sequence[RawFrame], now: int) -> None:
        """Handle all frames of one read in order, until the session is closed."""
        for frame in frames:
            if session.closed:
                return
            self.receive_one(session, frame, now)

    def receive_one(self, session: Session, frame: RawFrame, now: int) -> None:
        """Decode one frame. Give a response to its waiting caller, and a request to its handler.

        The body is copied, so a handler may keep the command. A frame that cannot be decoded closes
        the connection.
        """
        try:
            command = decode(frame.header, frame.binary, bytes(frame.body))
            self.receive_command(session, command, now)
        except PeerError as error:
            session.close(str(error))

    def receive_command(self, session: Session, command: Command, now: int) -> None:
        """Give a response to its waiting caller, and a request to its handler.

        Raises `PeerError` if the connection must be closed.
        """
        if not command.is_response:
            self.handle(session, command, now)
        elif not session.answered(command):
            log.debug(
                "%(peer)s: dropped a late or unknown %(command)r",
                {"peer": session.peer, "command": command},
            )

    def handle(self, session: Session, command: Command, now: int) -> None:
        """Run the handler of a request and send its reply.

        Raises:
            PeerError: the connection must be closed.
            OurBug: the node must stop.
        """
        reply = self.reply_to(session, command, now)
        if isinstance(reply, Reply):
            session.answer(command, reply)

    def reply_to(self, session: Session, command: Command, now: int) -> Reply | Held:
        """Return the reply of the handler for the request code; errors become replies."""
        handler = self.table.get(command.code)
        if handler is None:
            return Reply(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f" request type {command.code} not supported",
            )
        return self.answer_by(handler, session, command, now)

    def answer_by(
        self, handler: Handler, session: Session, command: Command, now: int
    ) -> Reply | Held:
        """Return the reply of `handler`; errors become replies, except `OurBug` and `PeerError`."""
        try:
            return handler(command, session, now)
        except Refused as error:
            return Reply(error.code, error.remark)
        except (HeaderError, UsageError) as error:
            return Reply(ResponseCode.SYSTEM_ERROR, str(error))
        except (OurBug, PeerError):
            raise
        except Exception as error:
            log.exception(
                "%(peer)s: handling of %(command)r failed",
                {"peer": session.peer, "command": command},
            )
            return Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
