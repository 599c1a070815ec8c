"""Acknowledgement of sends: answers that wait for replicas, for the sync to disk, or for both."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from epochmq.broker.serving.roles import RoleRow
from epochmq.replication.ack_policy import AckStatus
from epochmq.store.draft import PutStatus
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply

# Acks ----------------------------------------------------------------------------------------
# Waiting for replicas, and the check that this broker may still acknowledge.
#
# Translates replication's results into the response codes of clients, and checks the broker's
# rights again before every acknowledgement: between an append and its acknowledgement the process
# may have been paused for longer than its lease (S17, INV-25).


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
    """The part of replication that acknowledgements need; its service implements it."""

    def refusal(self) -> AckStatus | None: ...

    def when_acked(
        self, offset: int, deadline_at_ms: int, done: Callable[[AckStatus], None]
    ) -> None: ...

    def appended(self) -> None: ...


class PendingAcks:
    """The acknowledgements of one broker that wait for replicas."""

    def __init__(
        self, replication: Replicating, rights: Callable[[], RoleRow], *, waits: bool
    ) -> None:
        self._replication = replication
        self._rights = rights
        self.waits = waits
        """Whether a send waits for replicas at all."""
        self.refused = 0
        """The number of acknowledgements that replication gave after the right to send them had
        ended."""

    def refusal(self) -> PutStatus | None:
        """Return why no message can be accepted now, or None; checked before an append."""
        status = self._replication.refusal()
        return None if status is None else REFUSALS.get(status)

    def when_acked(self, end: int, deadline_at_ms: int, done: Callable[[int], None]) -> None:
        """Call `done` with the response code for everything up to log offset `end`, when it is
        known; `deadline_at_ms` is monotonic."""

        def acked(status: AckStatus) -> None:
            code = CODES[status]
            if code is ResponseCode.SUCCESS and not self._rights().writable:
                self.refused += 1
                code = ResponseCode.SERVICE_NOT_AVAILABLE
            done(code)

        self._replication.when_acked(end, deadline_at_ms, acked)

    def appended(self) -> None:
        """Tell replication that the log grew, so that it sends the new bytes to replicas."""
        self._replication.appended()


# Send sync -----------------------------------------------------------------------------------
# Answers that wait for the disk and for replicas: one group for each turn (group commit).
#
# A group is answered exactly once: with success when its bytes are synced to disk, where that is
# required, and are at as many replicas as the options require; otherwise with a code for what is
# missing:
#
# - FLUSH_DISK_TIMEOUT 10, FLUSH_SLAVE_TIMEOUT 12: stored, but it is unknown whether disk or
#   replicas follow; clients count both as sent;
# - SERVICE_NOT_AVAILABLE 14: the sync failed, or this broker is not master any more: the message
#   may be lost for good, so clients must send it again;
# - SYSTEM_ERROR 1: fewer replicas than minInSyncReplicas; clients send it again as well.


FAILED = Reply(
    ResponseCode.SERVICE_NOT_AVAILABLE,
    "service not available now: the broker is not master any more, or its disk failed to keep the"
    " message",
)
NOT_ENOUGH = Reply(ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")
_FAILURES = {reply.code: reply for reply in (FAILED, NOT_ENOUGH)}

Acknowledge = Callable[[int], None]
"""Answers all members of a group with one response code; see `failure`."""


def failure(code: int) -> Reply | None:
    """Return the whole answer for a code that means "send it again"; None for a stored message's
    code."""
    return _FAILURES.get(ResponseCode(code))


class Syncing(Protocol):
    """The part of the store that waiting needs."""

    def when_synced(self, offset: int, callback: Callable[[bool], None]) -> None: ...


class Acking(Protocol):
    """The part of replication that waiting needs."""

    def when_acked(self, end: int, deadline_at_ms: int, done: Acknowledge) -> None:
        """Call `done` once, with SUCCESS or with the code of the failure."""
        ...


class ReplyGroup:
    """Stored messages that are answered together; `awaited` is the number of conditions to meet."""

    __slots__ = ("_acknowledge", "_awaited", "deadline", "settled")

    def __init__(self, acknowledge: Acknowledge, deadline: int, awaited: int) -> None:
        self._acknowledge = acknowledge
        self._awaited = awaited
        self.deadline = deadline
        self.settled = False

    def condition_met(self, code: int) -> None:
        """Note that one condition was met (SUCCESS) or failed; success needs all conditions."""
        if code == ResponseCode.SUCCESS:
            self._awaited -= 1
            if self._awaited:
                return
        self.answer_all(code)

    def answer_all(self, code: int) -> None:
        """Answer all messages with `code`; does nothing when they were already answered, e.g. at a
        time-out."""
        if not self.settled:
            self.settled = True
            self._acknowledge(code)


class SyncWaits:
    """The waiting groups, oldest first; deadlines only rise, because all have the same time-out."""

    def __init__(self, store: Syncing) -> None:
        self._store = store
        self._groups: deque[ReplyGroup] = deque()

    def park(
        self,
        end: int,
        deadline: int,
        acknowledge: Acknowledge,
        *,
        sync: bool = True,
        acks: Acking | None = None,
        ack_deadline: int = 0,
    ) -> None:
        """Call `acknowledge` when the log is safe up to offset `end`, at a deadline or a failure.

        Args:
            end: log offset behind the last message.
            deadline: monotonic ms; the disk must have synced the messages by then.
            acknowledge: gets the response code.
            sync: whether the disk is waited for.
            acks: the replication, if replicas are waited for.
            ack_deadline: monotonic ms; the replicas must have confirmed by then.
        """
        group = ReplyGroup(acknowledge, deadline, int(sync) + (acks is not None))
        if sync:
            self._groups.append(group)

            def synced(ok: bool) -> None:
                group.condition_met(
                    ResponseCode.SUCCESS if ok else ResponseCode.SERVICE_NOT_AVAILABLE
                )
                self._drop_settled()

            self._store.when_synced(end, synced)
        if acks is not None:
            acks.when_acked(end, ack_deadline, group.condition_met)
            self._drop_settled()

    def expire(self, now: int) -> None:
        """Answer the groups whose deadline for the disk has passed, with FLUSH_DISK_TIMEOUT."""
        for group in list(self._groups):
            if group.deadline > now:
                break
            group.answer_all(ResponseCode.FLUSH_DISK_TIMEOUT)
        self._drop_settled()

    def next_deadline(self) -> int | None:
        """Return when `expire` has something to do (ms); None when no group waits."""
        return self._groups[0].deadline if self._groups else None

    def statistics(self) -> dict[str, int]:
        return {"groups": len(self._groups)}

    def _drop_settled(self) -> None:
        while self._groups and self._groups[0].settled:
            self._groups.popleft()
