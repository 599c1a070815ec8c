"""Metadata sync: when a replica asks its master for which table, and how it applies the answer.

A table is replaced as a whole, or its changed rows are, in one step, so that nothing is missing in
between (rocketmq#9804, #9984). A large table comes in parts, which are joined first. `ready` is
true once all tables came from the current master. Only then does the replica count, because a log
without its topics is useless (rocketmq-helm#33, S15); the caller holds replication back until then.
"""

from typing import Any, NamedTuple

import msgspec

from epochmq.base.backoff import backoff_ms
from epochmq.base.errors import PeerError
from epochmq.broker.group.replicated_tables import CopiedTable, Tables, decoder_of
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.table_parts import StampHeader, TableParts

JAVA_PERIOD_MS = 10_000
"""A master without stamps is asked for whole tables, at RocketMQ's interval."""
WATCHED_MS = 1_500
"""How long the master may hold a question for a table of `WATCHED` until it changes (ms)."""
AGAIN_MS = 10
OFFSETS_AGAIN_MS = 50
"""Pause between two questions for offsets (ms): they change all the time. When a master dies,
offsets committed since the last answer may be lost at the replica (INV-29)."""
ORDERS_AGAIN_MS = 2
"""Pause between two questions for order info (ms); ordered POP requests wait for it."""
RETRY_MS = 20
"""The first pause after a failure (ms); it doubles. It is short because in a failover a replica may
ask its new master too early, and sends wait for the replica until the tables came."""
RETRY_MAX_MS = 2_000


WATCHED = frozenset(
    {
        CopiedTable.TOPICS,
        CopiedTable.GROUPS,
        CopiedTable.OFFSETS,
        CopiedTable.ORDERS,
        CopiedTable.ACCOUNTS,
    }
)
NEW = frozenset({CopiedTable.MODES, CopiedTable.ORDERS, CopiedTable.ACCOUNTS})
"""Tables that a master of an older release may not have; then there is nothing to copy."""
OPTIONAL = frozenset({CopiedTable.TIMER, CopiedTable.TIMER_METRICS})
"""Tables that a master without a timer answers with an error; nothing waits for them."""


_AGAIN_MS = {CopiedTable.OFFSETS: OFFSETS_AGAIN_MS, CopiedTable.ORDERS: ORDERS_AGAIN_MS}


class FetchTable(NamedTuple):
    """Fetch `table` from the master at `address`."""

    address: str
    table: CopiedTable
    command: Command
    tenure: int = 0
    """The `follow` period to which the question belongs."""


class Copy:
    """The state of one table: the answers that are not applied yet, and when to ask again."""

    __slots__ = ("asked_at_ms", "asking", "came", "due_at_ms", "failures", "parts", "problem")

    def __init__(self, table: CopiedTable, now: int) -> None:
        self.due_at_ms = now
        self.asked_at_ms = now
        self.parts: TableParts[Any] = TableParts(decoder_of(table))
        self.came = False
        self.asking = False
        self.failures = 0
        self.problem = ""


class ReplicaSync:
    """Copies the tables of one master; idle without a master."""

    def __init__(self, tables: Tables, period_ms: int) -> None:
        self._tables = tables
        self._period_ms = period_ms
        self.master: str | None = None
        self._tenure = 0
        """Counts masters; also steps in `drop_open_questions`.

        An answer to a question with a lower count is dropped: an acting master has newer tables by
        then, and another process may have the same address (INV-29).
        """
        self._copies: dict[CopiedTable, Copy] = {}

    def follow(self, master: str, now: int) -> None:
        """Copy from the master at this address; start again when it is another master."""
        if master != self.master:
            self.master = master
            self._tenure += 1
            self._copies = {table: Copy(table, now) for table in CopiedTable}

    def drop_open_questions(self, now: int) -> None:
        """Drop the answers that are still to come, and ask again after `RETRY_MS`.

        The master has copied the tables of this broker and goes online with them. An answer from
        before that may come from a process that died.
        """
        self._tenure += 1
        for copy in self._copies.values():
            if copy.asking:
                copy.asking = False
                copy.due_at_ms = now + RETRY_MS

    def stop(self) -> None:
        self.master = None
        self._copies = {}

    @property
    def problem(self) -> str:
        """Why a table cannot be copied; empty when all can."""
        return next((c.problem for c in reversed(self._copies.values()) if c.problem), "")

    @property
    def ready(self) -> bool:
        """Whether every table came at least once from the current master."""
        return bool(self._copies) and all(copy.came for copy in self._copies.values())

    def due(self, now: int) -> list[FetchTable]:
        """Return the questions to send now."""
        fetches = []
        for table, copy in self._copies.items():
            if self.master is not None and not copy.asking and copy.due_at_ms <= now:
                copy.asking = True
                copy.asked_at_ms = now
                wait_ms = WATCHED_MS if table in WATCHED else 0
                command = request(table.value, copy.parts.question(wait_ms))
                fetches.append(FetchTable(self.master, table, command, self._tenure))
        return fetches

    def answered(self, fetch: FetchTable, answer: Command, now: int) -> None:
        """Apply the table; an invalid answer, or one of a former master, changes nothing."""
        copy = self._copies.get(fetch.table)
        if copy is None or fetch.tenure != self._tenure:
            return
        copy.asking = False
        missing = answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and fetch.table in NEW
        if missing or (answer.code != ResponseCode.SUCCESS and fetch.table in OPTIONAL):
            copy.came, copy.problem = True, ""
            copy.due_at_ms = now + max(self._period_ms, JAVA_PERIOD_MS)
            return
        if answer.code != ResponseCode.SUCCESS:
            self._failed(copy, f"{fetch.address}: {answer.code} {answer.remark or ''}", now)
            return
        header = decode_header(StampHeader, answer.ext)
        parts, decode = copy.parts, decoder_of(fetch.table)
        try:
            if not parts.add(answer):
                copy.due_at_ms = now
                return
            if parts.content is not None:
                self._tables.apply(fetch.table, parts)
        except (PeerError, msgspec.ValidationError, ValueError, TypeError) as error:
            copy.parts = TableParts(decode)
            self._failed(copy, f"{fetch.address} sent no usable {fetch.table.name}: {error}", now)
            return
        copy.parts = TableParts(decode, parts.stamp)
        copy.came, copy.failures = True, 0
        copy.due_at_ms = now + self._pause(fetch.table, copy, header, now)
        copy.problem = ""

    def _pause(self, table: CopiedTable, copy: Copy, header: StampHeader, now: int) -> int:
        """Return the pause before the next question (ms); it is short where the master holds the
        question until the table changes."""
        if header.stamp is None:
            return max(self._period_ms, JAVA_PERIOD_MS)
        waited = now - copy.asked_at_ms >= WATCHED_MS // 2
        if table in WATCHED and (waited or not header.unchanged):
            return _AGAIN_MS.get(table, AGAIN_MS)
        return self._period_ms

    def failed(self, fetch: FetchTable, problem: str, now: int) -> None:
        """Note that no answer came to `fetch`."""
        copy = self._copies.get(fetch.table)
        if copy is not None and fetch.tenure == self._tenure:
            copy.asking = False
            self._failed(copy, problem, now)

    def next_deadline(self) -> int | None:
        return min((c.due_at_ms for c in self._copies.values() if not c.asking), default=None)

    def statistics(self) -> dict[str, int]:
        return {"tables": len(self._copies), "came": sum(c.came for c in self._copies.values())}

    def _failed(self, copy: Copy, problem: str, now: int) -> None:
        copy.due_at_ms = now + backoff_ms(copy.failures, RETRY_MS, RETRY_MAX_MS)
        copy.failures += 1
        copy.problem = problem
