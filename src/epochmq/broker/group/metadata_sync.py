"""When a replica asks its master for which table, and what it does with the answer.

A table is taken over whole or, for offsets, row by row, in one step and without a moment in which
anything is missing (rocketmq#9804, #9984). `ready` says that all tables came once from the present
master: only then may the replica be counted on, for a log without its topics is of no use
(rocketmq-helm#33, S15); the caller holds replication back until then.
"""

from enum import Enum
from typing import NamedTuple

import msgspec

from epochmq.base.backoff import backoff_ms
from epochmq.base.errors import PeerError
from epochmq.broker.group.replicated_tables import Tables
from epochmq.broker.state.stamps import StampHeader, asking
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header

JAVA_PERIOD_MS = 10_000
"""A master that does not know stamps is asked for whole tables, as seldom as upstream does."""
WATCHED_MS = 1_500
"""Topics, groups and consumer offsets are asked for with leave to wait so long for news."""
AGAIN_MS = 10
OFFSETS_AGAIN_MS = 50
"""Offsets change all the time: what was committed for this long before a master died may go back to
what the replica heard last (INV-29)."""
ORDERS_AGAIN_MS = 2
"""Whoever pops in order waits for this."""
RETRY_MS = 20
"""First wait after a failure, doubles. Short: in a failover a replica may ask its new master before
that one has become it, and until the tables came, sends wait for the replica."""
RETRY_MAX_MS = 2_000


class CopiedTable(Enum):
    """What is copied; the value is the request that brings it."""

    TOPICS = RequestCode.GET_ALL_TOPIC_CONFIG
    GROUPS = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    OFFSETS = RequestCode.GET_ALL_CONSUMER_OFFSET
    DELAYS = RequestCode.GET_ALL_DELAY_OFFSET
    MODES = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
    TIMER = RequestCode.GET_TIMER_CHECK_POINT
    TIMER_METRICS = RequestCode.GET_TIMER_METRICS
    ORDERS = RequestCode.GET_ALL_CONSUMER_ORDER_INFO


WATCHED = frozenset(
    {CopiedTable.TOPICS, CopiedTable.GROUPS, CopiedTable.OFFSETS, CopiedTable.ORDERS}
)
NEW = frozenset({CopiedTable.MODES, CopiedTable.ORDERS})
"""A master of an older release may not have them: then there is nothing to copy."""
OPTIONAL = frozenset({CopiedTable.TIMER, CopiedTable.TIMER_METRICS})
"""A master without a timer answers an error: there is none, and nothing waits for it."""


_AGAIN_MS = {CopiedTable.OFFSETS: OFFSETS_AGAIN_MS, CopiedTable.ORDERS: ORDERS_AGAIN_MS}


class FetchTable(NamedTuple):
    """Ask the master at `address`."""

    address: str
    table: CopiedTable
    command: Command
    tenure: int = 0
    """Of what `follow` began."""


class Copy:
    """One table: the stamp of its last answer and when to ask again."""

    __slots__ = ("asked_at_ms", "asking", "came", "due_at_ms", "failures", "problem", "stamp")

    def __init__(self, now: int) -> None:
        self.due_at_ms = now
        self.asked_at_ms = now
        self.stamp: str | None = None
        self.came = False
        self.asking = False
        self.failures = 0
        self.problem = ""


class ReplicaSync:
    """The copies of one master's tables; idle without a master."""

    def __init__(self, tables: Tables, period_ms: int) -> None:
        self._tables = tables
        self._period_ms = period_ms
        self.master: str | None = None
        self._tenure = 0
        """Rises with each master, and after `stop` and `drop_open_questions`.

        An answer to a question of a lower count is dropped: an acting master knows more by now, and
        another process may have the same address (INV-29).
        """
        self._copies: dict[CopiedTable, Copy] = {}

    def follow(self, master: str, now: int) -> None:
        """Copy from the master at this address; again from the start if it is another."""
        if master != self.master:
            self.master = master
            self._tenure += 1
            self._copies = {table: Copy(now) for table in CopiedTable}

    def drop_open_questions(self, now: int) -> None:
        """Drop the answers that are still under way, and ask again after `RETRY_MS`.

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
        """Why a table does not come; empty when all do."""
        return next((c.problem for c in reversed(self._copies.values()) if c.problem), "")

    @property
    def ready(self) -> bool:
        """Whether every table came at least once from the present master."""
        return bool(self._copies) and all(copy.came for copy in self._copies.values())

    def due(self, now: int) -> list[FetchTable]:
        """What to ask for now."""
        fetches = []
        for table, copy in self._copies.items():
            if self.master is not None and not copy.asking and copy.due_at_ms <= now:
                copy.asking = True
                copy.asked_at_ms = now
                wait_ms = WATCHED_MS if table in WATCHED else 0
                command = request(table.value, asking(copy.stamp, wait_ms))
                fetches.append(FetchTable(self.master, table, command, self._tenure))
        return fetches

    def answered(self, fetch: FetchTable, answer: Command, now: int) -> None:
        """Take the table over; an answer of a former master, or a broken one, changes nothing."""
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
        try:
            if not header.unchanged:
                self._apply_table(fetch.table, bytes(answer.body), delta=bool(header.delta))
        except (PeerError, msgspec.ValidationError, ValueError, TypeError) as error:
            self._failed(copy, f"{fetch.address} sent no usable {fetch.table.name}: {error}", now)
            return
        copy.came, copy.failures = True, 0
        copy.stamp = header.stamp
        copy.due_at_ms = now + self._pause(fetch.table, copy, header, now)
        copy.problem = ""

    def _pause(self, table: CopiedTable, copy: Copy, header: StampHeader, now: int) -> int:
        """Until the next question; none to speak of where the master waits for news itself."""
        if header.stamp is None:
            return max(self._period_ms, JAVA_PERIOD_MS)
        waited = now - copy.asked_at_ms >= WATCHED_MS // 2
        if table in WATCHED and (waited or not header.unchanged):
            return _AGAIN_MS.get(table, AGAIN_MS)
        return self._period_ms

    def failed(self, fetch: FetchTable, problem: str, now: int) -> None:
        """There was no answer."""
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

    def _apply_table(self, table: CopiedTable, body: bytes, *, delta: bool) -> None:
        if table is CopiedTable.TOPICS:
            self._tables.apply_topics(body)
        elif table is CopiedTable.GROUPS:
            self._tables.apply_groups(body)
        elif table is CopiedTable.OFFSETS:
            self._tables.apply_offsets(body, delta=delta)
        elif table is CopiedTable.DELAYS:
            self._tables.apply_delays(body)
        elif table is CopiedTable.MODES:
            self._tables.apply_modes(body)
        elif table is CopiedTable.ORDERS:
            self._tables.apply_orders(body, delta=delta)
        else:
            self._tables.apply_timer(body, metrics=table is CopiedTable.TIMER_METRICS)
