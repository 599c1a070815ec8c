"""Looks whether a slave's log is its master's whenever a link is new, and dials no more if not.

RocketMQ's slave dials such a master again and again, and nobody hears of it; or it appends to a log
that is another one (H9).
"""

import asyncio
import logging

from epochmq.base.errors import EpochError
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.pre_online.pre_online_peers import LogsAsked
from epochmq.replication.plain.plain_service import PlainReplication

LOOK_MS = 1_000
"""The shortest time between two looks."""
AGAIN_MS = 15_000
"""Between two looks at logs that do not fit: a person has to do something."""

log = logging.getLogger(__name__)


class LogWatch:
    """One slave's; ticked by its member."""

    def __init__(self, node: BrokerNode, replication: PlainReplication, logs: LogsAsked) -> None:
        self._node = node
        self._replication = replication
        self._logs = logs
        self.trouble = ""
        """Why the logs do not fit; empty as long as nothing is known against them."""
        self._seen = -1
        self._end = 0
        """Where the log ended when there was no link: what came since is the master's."""
        self._due_ms = 0
        self._task: asyncio.Task[None] | None = None

    def tick(self, now: int, master: str, ha_address: str) -> None:
        """Look if the link is not the one that was looked at last."""
        slave = self._replication.node.slave
        if slave is None:
            return
        self._note_end()
        busy = self._task is not None and not self._task.done()
        if busy or not master or now < self._due_ms:
            return
        if self.trouble or slave.session != self._seen:
            self._seen = slave.session
            work = self._look_again(master, ha_address)
            self._task = asyncio.get_running_loop().create_task(work)

    async def stop(self) -> None:
        """No more questions."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def look(self, master: str) -> None:
        """Ask `master`, a broker's address, and say once what is wrong."""
        self._note_end()
        try:
            trouble = await self._logs.compare(master, own_is_master=False, own_end=self._end)
        except EpochError as error:
            log.debug("the log of %s cannot be looked at: %s", master, error)
            self._seen = -1
            self._due_ms = self._node.clock.now_ms() + LOOK_MS
            return
        if trouble and not self.trouble:
            log.error("not copying: %s", trouble)
        self.trouble = trouble
        self._due_ms = self._node.clock.now_ms() + (AGAIN_MS if trouble else LOOK_MS)

    def _note_end(self) -> None:
        if not self._replication.node.established:
            self._end = self._node.store.whole_end

    async def _look_again(self, master: str, ha_address: str) -> None:
        before = self.trouble
        await self.look(master)
        if self.trouble:
            await self._replication.become_slave(None)
        elif before:
            log.info("the log fits that of %s again", master)
            await self._replication.become_slave(ha_address or None)
