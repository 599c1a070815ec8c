"""What sends wait for beside the device: replicas, and the right to answer at all.

Translates replication's outcomes into the codes clients know, and looks at the broker's rights once
more before every acknowledgement: between an append and its acknowledgement the process may have
been paused for longer than its lease (S17, INV-25).
"""

from collections.abc import Callable
from typing import Protocol

from epochmq.broker.roles import RoleRow
from epochmq.replication.ack_policy import AckStatus
from epochmq.store.draft import PutStatus
from epochmq.wire.codes import ResponseCode

CODES = {
    AckStatus.ACKED: ResponseCode.SUCCESS,
    AckStatus.TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    AckStatus.NOT_ENOUGH: ResponseCode.SYSTEM_ERROR,
    AckStatus.FENCED: ResponseCode.SERVICE_NOT_AVAILABLE,
}
REFUSALS = {
    AckStatus.TIMEOUT: PutStatus.FLUSH_SLAVE_TIMEOUT,
    AckStatus.NOT_ENOUGH: PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH,
    AckStatus.FENCED: PutStatus.SERVICE_NOT_AVAILABLE,
}


class Replicating(Protocol):
    """What is needed of replication; its service fits."""

    def refusal(self) -> AckStatus | None: ...

    def when_acked(
        self, offset: int, deadline_at_ms: int, done: Callable[[AckStatus], None]
    ) -> None: ...

    def appended(self) -> None: ...


class PendingAcks:
    """The acknowledgements of one broker."""

    def __init__(
        self, replication: Replicating, rights: Callable[[], RoleRow], *, waits: bool
    ) -> None:
        self._replication = replication
        self._rights = rights
        self.waits = waits
        """Whether a send waits for replicas at all."""
        self.refused = 0
        """Acknowledgements that came after the right to give them had ended."""

    def refusal(self) -> PutStatus | None:
        """Why nothing can be taken now; looked at before an append."""
        status = self._replication.refusal()
        return None if status is None else REFUSALS.get(status)

    def when_acked(self, end: int, deadline_at_ms: int, done: Callable[[int], None]) -> None:
        """Call `done` with the code for everything up to `end`, once it is known."""

        def acked(status: AckStatus) -> None:
            code = CODES[status]
            if code is ResponseCode.SUCCESS and not self._rights().writable:
                self.refused += 1
                code = ResponseCode.SERVICE_NOT_AVAILABLE
            done(code)

        self._replication.when_acked(end, deadline_at_ms, acked)

    def appended(self) -> None:
        """The log grew: replicas are to get it."""
        self._replication.appended()
