"""The few actions of the dashboard: send a dead letter again, move a group.

Each action is carried out with the rights of the user at the brokers, and is on record before it
begins and after it ended.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from epochmq.admin.dashboard.action_log import ActionLog
from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.paging import Row
from epochmq.admin.nouns.noun_base import check_group_known, route_of
from epochmq.admin.nouns.noun_group import move, position_of
from epochmq.admin.shared.exits import explain
from epochmq.auth.credentials import outgoing_credentials
from epochmq.base.errors import EpochError, Refused, UsageError
from epochmq.model.names import check_group
from epochmq.spark.jobs.dlq import ORIGIN, RETRY, Dlq, dlq
from epochmq.spark.jobs.dlq_causes import Pick

T = TypeVar("T")


class Actions:
    """Carries out actions.

    Args:
        directory: where the record and the ledgers of dead letters are.
        read_only: whether every action is refused.
    """

    def __init__(self, directory: Path, *, read_only: bool) -> None:
        self.log = ActionLog(directory / "actions.jsonl")
        self.read_only = read_only
        self._ledgers = directory / "ledgers"
        self._resending = asyncio.Lock()
        """One letter at a time: a second click finds the letter in the ledger."""

    def ledger(self, cluster: str, group: str) -> Path:
        """Return the file with the dead letters of a group that were sent again.

        `epochmq pipeline dlq --ledger` reads and writes the same file.
        """
        try:
            check_group(group)  # it becomes a part of the path
        except Refused as error:
            raise UsageError(error.remark) from None
        return self._ledgers / cluster / f"{group}.jsonl"

    async def resend(
        self, client: ClusterClient, peer: str, group: str, place: str, target: str
    ) -> Row:
        """Send a dead letter again, unless that was done before.

        Args:
            client: connections of the user.
            peer: address of the browser.
            group: the consumer group whose letter it is.
            place: "broker:queue:offset" of the letter.
            target: "retry" sends it to the group alone, "origin" to its old topic.

        Returns:
            `sent` is 1, or 0 if the letter was sent again before; `already_sent` is the contrary.

        Raises:
            UsageError: `target` or `group` is wrong, or the dashboard is read-only.
            NotFound: there is no such letter.
        """
        if target not in (RETRY, ORIGIN):
            raise UsageError(f"'{target}' is not a target of a dead letter; it is retry or origin")
        ledger = self.ledger(client.name, group)
        what = f"resend dead letter {place} of {group} to {target}"
        return await self._on_record(
            client, peer, what, lambda: self._resend(client, group, place, target, ledger)
        )

    async def reset(self, client: ClusterClient, peer: str, group: str, topic: str, to: str) -> Row:
        """Move a group to another position in all queues of a topic.

        Args:
            client: connections of the user.
            peer: address of the browser.
            group: the consumer group.
            topic: the topic.
            to: a position, as for `epochmq group reset-offset --to`.

        Raises:
            UsageError: `to` is not a position, or the dashboard is read-only.
            NotFound: the topic or the group does not exist.
        """
        what = f"reset group {group} in topic {topic} to {to}"
        return await self._on_record(
            client, peer, what, lambda: self._reset(client, group, topic, to)
        )

    async def _on_record(
        self, client: ClusterClient, peer: str, what: str, work: Callable[[], Awaitable[T]]
    ) -> T:
        if self.read_only:
            raise UsageError("this dashboard only shows (option readOnly)")
        await self._write(client, peer, what, "begun")
        try:
            result = await work()
        except EpochError as error:
            await self._write(client, peer, what, f"failed: {explain(error)}")
            raise
        await self._write(client, peer, what, "done")
        return result

    async def _write(self, client: ClusterClient, peer: str, what: str, result: str) -> None:
        await asyncio.to_thread(self.log.write, client.user, peer, client.name, what, result)

    async def _resend(
        self, client: ClusterClient, group: str, place: str, target: str, ledger: Path
    ) -> Row:
        await asyncio.to_thread(ledger.parent.mkdir, parents=True, exist_ok=True)
        pick = Pick(places=frozenset((place,)))
        job = Dlq(client.namesrv, group, pick=pick, origins=0, to=target, ledger=ledger)
        async with self._resending:
            before = outgoing_credentials.set(client.credentials)
            try:
                report = await asyncio.to_thread(dlq, job)
            finally:
                outgoing_credentials.reset(before)
        if not report.rows:
            raise UsageError(f"group {group} has no dead letter at {place}")
        return {"sent": report.details["sent"], "already_sent": report.details["alreadySent"]}

    async def _reset(self, client: ClusterClient, group: str, topic: str, to: str) -> Row:
        position = position_of(to, time.time_ns() // 1_000_000)
        await route_of(client.admin, topic)
        await check_group_known(client.admin, group)
        moved = await move(client.admin, group, topic, position)
        return {
            "queues": [
                {"broker": queue.broker_name, "queue": queue.queue_id, "offset": offset}
                for queue, offset in moved.items()
            ]
        }
