"""Notices of a new master to brokers. EpochMQ's brokers acknowledge them; else they are repeated.

A lost notice does no harm: brokers poll, and EpochMQ's brokers read the answers to heartbeats.
"""

from dataclasses import dataclass

from epochmq.base.backoff import backoff_ms
from epochmq.controller.controller_context import ControllerContext
from epochmq.controller.controller_effects import Notify
from epochmq.controller.controller_state import BrokerGroup, BrokerReplica, Key, set_body
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.headers.controller_headers import NotifyBrokerRoleChangedHeader

FIRST_RETRY_MS = 200
LAST_RETRY_MS = 5_000
TRIES_MAX = 12


@dataclass(slots=True)
class PendingNotice:
    """A notice to one broker that is not acknowledged; `next_at_ms` is None during a request."""

    key: Key
    broker_id: int
    epoch: int
    set_epoch: int
    tries: int = 0
    next_at_ms: int | None = 0


class Notices:
    """The newest notice for each broker."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._open: dict[tuple[Key, int], PendingNotice] = {}
        self._sent: dict[int, PendingNotice] = {}

    @property
    def open_count(self) -> int:
        """Number of notices that are not acknowledged."""
        return len(self._open)

    def announce(self, group: BrokerGroup) -> None:
        """Notify every replica of `group`, the deposed master too; the new master first."""
        if not self._context.options.notify_broker_role_changed:
            return
        order = sorted(group.replicas, key=lambda number: (number != group.master, number))
        for number in order:
            notice = PendingNotice(group.key, number, group.epoch, group.set_epoch)
            self._open[group.key, number] = notice
            self._send(notice)

    def notified(self, ticket: int, acknowledged: bool) -> None:
        """Handle the answer of a broker, or its absence."""
        notice = self._sent.pop(ticket, None)
        if notice is None or self._open.get((notice.key, notice.broker_id)) is not notice:
            return
        if acknowledged or notice.tries >= TRIES_MAX:
            del self._open[notice.key, notice.broker_id]
            return
        wait_ms = backoff_ms(notice.tries - 1, FIRST_RETRY_MS, LAST_RETRY_MS)
        notice.next_at_ms = self._context.now + wait_ms

    def tick(self) -> None:
        """Repeat the notices that are due."""
        due = [
            n
            for n in self._open.values()
            if (n.next_at_ms or self._context.now + 1) <= self._context.now
        ]
        for notice in due:
            self._send(notice)

    def next_deadline(self) -> int | None:
        """Return when the next notice is due, or None."""
        times = [n.next_at_ms for n in self._open.values() if n.next_at_ms is not None]
        return min(times, default=None)

    def clear(self) -> None:
        """Drop all notices, because another controller leads."""
        self._open.clear()
        self._sent.clear()

    def _send(self, notice: PendingNotice) -> None:
        group = self._context.machine.groups.get(notice.key)
        replica = None if group is None else group.replicas.get(notice.broker_id)
        if group is None or replica is None or group.epoch != notice.epoch or not replica.address:
            self._open.pop((notice.key, notice.broker_id), None)
            return
        live = self._context.live.get(notice.key, notice.broker_id)
        if live is not None and live.gone:
            # The process has ended; the next process asks for the master itself.
            self._open.pop((notice.key, notice.broker_id), None)
            return
        acknowledged = live is not None and live.leased
        ticket = self._context.ticket()
        notice.tries += 1
        notice.next_at_ms = None
        if acknowledged:
            self._sent[ticket] = notice
        else:
            del self._open[notice.key, notice.broker_id]
        command = request(
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED, _header(group, replica), set_body(group)
        )
        self._context.effects.append(Notify(ticket, replica.address, command, acknowledged))


def _header(group: BrokerGroup, to: BrokerReplica) -> NotifyBrokerRoleChangedHeader:
    master = group.master_replica()
    return NotifyBrokerRoleChangedHeader(
        masterAddress=None if master is None else master.address,
        masterEpoch=group.epoch,
        syncStateSetEpoch=group.set_epoch,
        masterBrokerId=group.master,
        brokerId=0 if to.id == group.master else to.id,
        clusterName=group.cluster,
        brokerName=group.name,
        masterHaAddress=(master.ha_address or None) if master else None,
    )
