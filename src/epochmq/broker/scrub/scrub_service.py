"""Scrub service: searches the log for damage, compares blocks with replicas, repairs them.

`ScrubCore` plans the search and the requests for repairs. `Comparing` compares what the search has
read with another replica. The bytes for a repair are read from a member by LOG_READ (34006), and
the store (`store/scrub.py`) checks them before it writes.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from epochmq.base import limits
from epochmq.base.errors import EpochError, PeerError
from epochmq.base.ports import Clock
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.name_servers_view import question, read
from epochmq.broker.scrub.scrub_plan import AskForBytes, ScrubCore
from epochmq.broker.state import compare_digests
from epochmq.broker.state.compare_digests import Meaning
from epochmq.runtime.peers import Peers
from epochmq.store.scrub import CheckedBlock, WantedRange
from epochmq.store.written_blocks import BLOCK_BYTES
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.offset_bodies import LogDigests
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pull_headers import (
    LogDigestsHeader,
    LogDigestsResponseHeader,
    LogReadHeader,
)

# Scrub peers ---------------------------------------------------------------------------------
# Asks name servers for the group's other members, and the members for digests of their logs.
#
# The blocks that the search has read are compared with a member's (LOG_DIGESTS), one stretch of the
# log at a time; `state/compare_digests.py` interprets the answers. A member that does not know the
# request is not asked again for an hour.


TIMEOUT_MS = 5_000
MEMBERS_MS = 10_000
"""How long a list of members is used, in ms."""
UNABLE_MS = 3_600_000
ANSWER_BYTES_MAX = 1024 * 1024
"""The largest answer that is read; 128 blocks and some thousand epochs fit."""

Rows = list[tuple[int, int, str]]

log = logging.getLogger(__name__)


class ScrubPeers:
    """Asks the name servers in turn for the members, until one answers."""

    def __init__(self, node: BrokerContext, peers: Peers, servers: Sequence[str]) -> None:
        self._node = node
        self._peers = peers
        self._servers = servers

    async def others(self) -> dict[int, str]:
        """Return the addresses of the other members by id; empty when no name server answers."""
        options = self._node.options
        compat = options.compatible_with_old_name_srv
        group = options.broker_cluster_name, options.broker_name
        for server in self._servers:
            try:
                answer = await self._peers.invoke(
                    server, question(*group, compat=compat), TIMEOUT_MS
                )
            except EpochError as error:
                log.debug("name server %(server)s: %(error)s", {"server": server, "error": error})
                continue
            members = read(answer, *group, compat=compat).members or {}
            return {n: at for n, at in members.items() if at != self._node.address}
        return {}


class Comparing:
    """Compares one broker's log with those of the other members of its group."""

    def __init__(
        self, node: BrokerContext, peers: Peers, members: ScrubPeers, clock: Clock
    ) -> None:
        self._node = node
        self._peers = peers
        self._source = members
        self._clock = clock
        self._members: dict[int, str] = {}
        self._members_until_ms = 0
        self._unable: dict[str, int] = {}
        """Members that do not know the request, and until when they are not asked (ms)."""
        self._generation = 0
        """The generation of the log's checksums at the last comparison."""
        self._task: asyncio.Task[None] | None = None

    def wants(self, now: int) -> bool:
        """Return whether `begin` may get the next stretch: no comparison is running, and there may
        be members."""
        return self._task is None and (bool(self._members) or now >= self._members_until_ms)

    def begin(self, seen: Sequence[CheckedBlock]) -> None:
        """Start comparing the blocks that the search has read, in the order of the log."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(seen), name="scrub-compare")
            self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the comparison with other replicas failed", exc_info=error)

    async def close(self) -> None:
        """Stop: cancel the running comparison."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self, seen: Sequence[CheckedBlock]) -> None:
        now = self._clock.now_ms()
        if now >= self._members_until_ms:
            self._members = await self._source.others()
            self._members_until_ms = now + MEMBERS_MS
            left = self._members.values()
            self._unable = {at: until for at, until in self._unable.items() if at in left}
        node, scrub = self._node, self._node.store.scrub
        pointers, differences = node.store.pointers, node.differences
        if seen[0].generation != self._generation:
            differences.clear()
            self._generation = seen[0].generation
        differences.keep(pointers.start, pointers.appended, self._members)
        able = [at for at in self._members.values() if self._unable.get(at, 0) <= now]
        address = compare_digests.partner(able, seen[0].start, scrub.rounds)
        if address is None:
            return
        try:
            rows, _ = await self._ask(address, seen[0].start, seen[-1].start + seen[-1].size)
            found = compare_digests.compare(seen, rows)
            differences.matched(found.same, address)
            scrub.give_checksums(found.same)
            new = [one for one in found.different if (one.start, address) not in differences]
            await self._examine(new[: min(compare_digests.EXAMINED_MAX, differences.room)], address)
        except EpochError as error:
            log.debug("%(address)s: no digests: %(error)s", {"address": address, "error": error})
            self._members_until_ms = 0

    async def _ask(
        self, address: str, start: int, end: int, *, verify: bool | None = None
    ) -> tuple[Rows, bool]:
        """Return a member's digests, and whether it verified its bytes first."""
        header = LogDigestsHeader(start, end, BLOCK_BYTES, verify)
        command = request(RequestCode.LOG_DIGESTS, header)
        answer = await self._peers.invoke(address, command, TIMEOUT_MS)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._unable[address] = self._clock.now_ms() + UNABLE_MS
        if answer.code != ResponseCode.SUCCESS:
            raise PeerError(f"refused with {answer.code} {answer.remark or ''}".rstrip())
        if len(answer.body) > ANSWER_BYTES_MAX:
            raise PeerError(f"an answer of {len(answer.body)} bytes")
        verified = decode_header(LogDigestsResponseHeader, answer.ext).verified
        return decode_body(LogDigests, answer.body).blocks, bool(verified)

    async def _examine(self, different: Iterable[CheckedBlock], address: str) -> None:
        """Find out which broker is right about blocks that differ."""
        diverged = []
        try:
            for one in different:
                if await self._is_diverged(one, address):
                    self._node.differences.add(one, address)
                    diverged.append(one)
        finally:
            if diverged:
                log.error(
                    "%(blocks)d blocks of the log, the first at log offset %(log_offset)d, are not"
                    " those of %(address)s, though both brokers find theirs sound; nothing is"
                    " changed. epochmq pipeline audit shows the difference; then stop the broker"
                    " that is wrong, move its store away and start it again",
                    {"blocks": len(diverged), "log_offset": diverged[0].start, "address": address},
                )

    async def _is_diverged(self, seen: CheckedBlock, address: str) -> bool:
        """Return whether both brokers, after reading again, find different bytes sound."""
        own = await self._look_again(seen)
        if own is None:
            return False
        rows, verified = await self._ask(address, seen.start, seen.start + seen.size, verify=True)
        meaning = compare_digests.judge(own, seen.start, seen.size, rows, verified=verified)
        log.debug(
            "the block at log offset %(log_offset)d and %(address)s: %(meaning)s",
            {"log_offset": seen.start, "address": address, "meaning": meaning.value},
        )
        is_cut = seen.generation != self._node.store.checksums.generation
        return meaning is Meaning.DIVERGED and not is_cut

    async def _look_again(self, seen: CheckedBlock) -> str | None:
        """Return the digest of our bytes as read again; None when they are damaged or gone."""
        examination = self._node.store.scrub.examination(seen.start, seen.start + seen.size)
        if examination is None:
            return None
        looked: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()

        def look() -> bool:
            examination.run()
            return True

        def done(ran: bool | None) -> None:
            if not looked.done():
                looked.set_result(ran)

        self._node.ports.background(look, done)
        if not await looked or examination.conclude():
            return None
        return examination.digest


# Scrub service -------------------------------------------------------------------------------


class ScrubService:
    """Searches one broker's log for damage and repairs it; `servers` are the name servers."""

    def __init__(
        self, node: BrokerContext, peers: Peers, servers: Sequence[str], clock: Clock
    ) -> None:
        self._node = node
        self._peers = peers
        self._members = ScrubPeers(node, peers, servers)
        self._comparing = Comparing(node, peers, self._members, clock)
        self._core = ScrubCore(node.options.scrub_bytes_per_second, clock.now_ms())
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._told: dict[tuple[int, int], set[str]] = {}

    def tick(self, now: int) -> None:
        """Search the next bytes of the log, and start repairing damaged ranges."""
        store = self._node.store
        if (
            store.fenced is not None
            or store.closed
            or self._node.options.scrub_bytes_per_second < 1
        ):
            return
        if not store.scrub.is_busy and (size := self._core.search_bytes(now)):
            comparing = self._comparing
            store.scrub.search(size, comparing.begin if comparing.wants(now) else None)
        if self._task is None and store.damage.ranges:
            wanted = {(one.start, one.end): one for one in store.scrub.wanted()}
            if wanted and self._core.wants_members(list(wanted), now):
                self._task = asyncio.create_task(self._repair(wanted), name="scrub-repair")
                self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the repair of the log failed", exc_info=error)

    async def close(self) -> None:
        """Stop: cancel the running tasks and close the connections."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._comparing.close()
        await self._peers.close()

    async def _repair(self, wanted: Mapping[tuple[int, int], WantedRange]) -> None:
        members = await self._members.others()
        while (ask := self._core.next_ask(members, self._clock.now_ms())) is not None:
            one = wanted[ask.start, ask.end]
            try:
                reason = await self._put(one, await self._read(ask), ask.address)
                if reason:  # the member may be damaged there too, in another place
                    copy = await self._read(ask, unchecked=True)
                    reason = await self._put(one, copy, ask.address)
            except EpochError as error:
                reason = f"it was asked in vain: {error}"
            if reason:
                self._tell(one, f"{ask.address} cannot help: {reason}")

        for one in wanted.values():
            if one.damaged in self._node.store.damage.ranges:
                reason = await self._mend(one)
                if reason:
                    self._tell(one, f"without a replica: {reason}")

    def _tell(self, wanted: WantedRange, text: str) -> None:
        """Log a failure once for each range and reason."""
        key = wanted.start, wanted.end
        told = self._told.setdefault(key, set())
        if text not in told:
            told.add(text)
            log.warning("%(damaged)s; %(text)s", {"damaged": wanted.damaged, "text": text})

    async def _read(self, ask: AskForBytes, *, unchecked: bool = False) -> bytes:
        """Return the bytes that a member has of a range; fewer where its log ends.

        Also fewer where its log is damaged, except `unchecked` bytes.
        """
        data = b""
        while ask.start + len(data) < ask.end:
            size = min(ask.end - ask.start - len(data), limits.BULK_READ_BYTES_MAX)
            header = LogReadHeader(ask.start + len(data), size, unchecked or None)
            answer = await self._peers.invoke(
                ask.address, request(RequestCode.LOG_READ, header), TIMEOUT_MS
            )
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                if not data:
                    log.info(
                        "%(address)s, bytes from %(log_offset)d: %(remark)s",
                        {"address": ask.address, "log_offset": ask.start, "remark": answer.remark},
                    )
                break
            data += bytes(answer.body)
        return data

    async def _mend(self, wanted: WantedRange) -> str:
        """Let the store repair a range by itself; return why it cannot, or '' when it did."""
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._node.store.scrub.mend(wanted, outcome.set_result)
        return await outcome

    async def _put(self, wanted: WantedRange, data: bytes, source: str) -> str:
        """Give the store the bytes from `source`; return why it refused them, or '' when it took
        them."""
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def done(reason: str) -> None:
            if not outcome.done():
                outcome.set_result(reason)

        self._node.store.scrub.repair(wanted, data, source, done)
        return await outcome
