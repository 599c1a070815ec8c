"""Whose ids the controllers have registered in this group, asked for when the master wants it."""

from epochmq.base.errors import HeaderError
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.controller_bodies import BrokerReplicasInfo
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

PAUSE_MS = 100
"""Between two questions, however many strangers call."""
RETRY_MS = 300


class RegisterQuestion:
    """One question; it is put again until an answer tells the table."""

    def __init__(self) -> None:
        self._after: int | None = None
        """An answer counts to a question with a higher number than this; None: none is wanted."""
        self._due_at_ms = self._pause_until_ms = 0

    def want(self, newest: int) -> None:
        """Ask; the questions up to number `newest` were put before, so they are no use."""
        self._after, self._due_at_ms = newest, self._pause_until_ms

    @property
    def next_at_ms(self) -> int | None:
        return None if self._after is None else self._due_at_ms

    def is_due(self, now: int) -> bool:
        return self._after is not None and now >= self._due_at_ms

    def asked(self, now: int, timeout_ms: int) -> None:
        self._due_at_ms, self._pause_until_ms = now + timeout_ms, now + PAUSE_MS

    def again(self, now: int) -> None:
        """The question came to nothing."""
        self._due_at_ms = min(self._due_at_ms, now + RETRY_MS)

    def answered(self, number: int, command: Command, name: str, now: int) -> frozenset[int] | None:
        """The ids of group `name`; None when the answer does not tell, or nobody waits for it."""
        if self._after is None or number <= self._after:
            return None
        ids = read_ids(command, name)
        if ids is None:
            self.again(now)
        else:
            self._after = None
        return ids


def read_ids(command: Command, name: str) -> frozenset[int] | None:
    """The ids in an answer to GET_SYNC_STATE_DATA; None when it does not tell of this group."""
    if command.code != ResponseCode.SUCCESS:
        return None
    try:
        group = decode_body(BrokerReplicasInfo, command.body).replicas_info_table.get(name)
    except HeaderError:
        return None
    if group is None:
        return None
    return frozenset(
        each.broker_id for each in (*group.in_sync_replicas, *group.not_in_sync_replicas)
    )
