"""Plain replication (enableControllerMode=false), as the broker uses it."""

from collections.abc import Callable

from epochmq.base.ports import Blocking, Clock
from epochmq.replication.ack_policy import AckStatus, Done
from epochmq.replication.frames import LinkState
from epochmq.replication.ha_info import moment
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.plain.plain_node import PlainNode
from epochmq.replication.replication_ports import Sockets
from epochmq.replication.replication_service import Shell
from epochmq.store.cold_reads import ColdReads
from epochmq.store.store import Store


class PlainReplication(Shell):
    """Replication as ASYNC_MASTER, SYNC_MASTER or SLAVE; the configuration gives the role."""

    def __init__(
        self,
        store: Store,
        options: ReplicationOptions,
        clock: Clock,
        *,
        on_trouble: Callable[[str], None],
        sockets: Sockets,
        blocking: Blocking | None = None,
        cold_reads: ColdReads | None = None,
    ) -> None:
        node = PlainNode(store, options, self._run_blocking, clock.now_ms)
        super().__init__(node, options, clock, sockets, blocking, on_trouble, cold_reads=cold_reads)
        self.node = node

    async def become_master(self, *, sync: bool) -> None:
        """Become the master; with `sync` sends wait for slaves (SYNC_MASTER)."""
        async with self._switching:
            await self._end_role()
            await self._shed_tail()
            self.node.become_master(self._clock.now_ms(), sync=sync)
            self._after()

    async def become_slave(self, master_ha_address: str | None) -> None:
        """Copy from a master; the same address again changes nothing.

        Args:
            master_ha_address: `haMasterAddress`, or the name server's answer to a registration;
                None waits for a call with an address.
        """
        async with self._switching:
            if self.node.follower is not None and self._master_address == master_ha_address:
                return
            await self._end_role()
            self.node.become_slave(self._clock.now_ms())
            self._after()
            if master_ha_address is not None:
                self._dial(master_ha_address)

    def change_options(self, options: ReplicationOptions) -> None:
        """Change how many slaves a send waits for, from now on."""
        self.node.change_options(options)

    def fence(self, reason: str) -> None:
        """Stop acknowledging; waiting sends get FENCED."""
        self.node.fence(reason)

    def when_acked(self, offset: int, deadline_at_ms: int, done: Done) -> None:
        """Call `done` once, in the order of the log; at once for an ASYNC_MASTER."""
        self.node.when_acked(offset, deadline_at_ms, done, self._clock.now_ms())

    def refusal(self) -> AckStatus | None:
        """Return why a send must be refused now, or None."""
        return self.node.refusal(self._clock.now_ms())

    def ha_info(self) -> dict[str, object]:
        """Return RocketMQ's HARuntimeInfo as a dict."""
        node, end, peers = self.node, self.node.store.pointers.appended, self._peers()
        slave, now, wall = node.follower, self._clock.now_ms(), self._clock.wall_ms()
        links = node.master.links.values() if node.master is not None else ()
        gap = self._options.gap_max_bytes
        return {
            "master": node.master is not None,
            "masterCommitLogMaxOffset": end if node.master is not None else 0,
            "inSyncSlaveNums": sum(link.ack >= end - gap for link in links if link.ack >= 0),
            "haConnectionInfo": [
                {
                    "addr": peers.get(link.number, link.peer),
                    "slaveAckOffset": link.ack,
                    "diff": end - link.ack,
                    "inSync": link.ack >= max(0, end - gap),
                    "transferredByteInSecond": self.speeds.of(link.number),
                    "transferFromWhere": link.next,
                }
                for link in links
            ],
            "haClientRuntimeInfo": {
                "masterAddr": self._master_address or "",
                "transferredByteInSecond": self.speeds.of(0),
                "maxOffset": end if slave is not None else 0,
                "lastReadTimestamp": moment(slave.read_at_ms, now, wall) if slave else 0,
                "lastWriteTimestamp": moment(slave.written_at_ms, now, wall) if slave else 0,
                "activated": node.follower is not None
                and node.follower.state is LinkState.TRANSFER,
            },
        }
