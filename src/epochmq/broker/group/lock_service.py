"""Queue-lock votes in strict mode: sends lock and unlock requests to the other group members.

All members together get up to one second, which is how long clients wait; the client is answered as
soon as the votes decide. `lock_ballot.py` decides what is asked when, and what is undone.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from epochmq.base.errors import EpochError, Refused
from epochmq.base.ports import Rng
from epochmq.base.task_set import TaskSet
from epochmq.broker.consume.queue_locks import Attempt
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.lock_ballot import (
    PAUSE_MS,
    LockBallot,
    LockRequest,
    quorum_of,
    save_votes,
)
from epochmq.model.topic import MessageQueue
from epochmq.runtime.peers import Peers
from epochmq.runtime.rng import RealRng
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.group_bodies import LockBatchRequest, LockBatchResponse
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Reply, request
from epochmq.wire.headers.group_headers import LockBatchHeader, UnlockBatchHeader

VOTE_TIMEOUT_MS = 1_000

log = logging.getLogger(__name__)


class LockVotes:
    """The strict-mode part of one broker's locks; `members` returns the group's other members, by
    id."""

    def __init__(
        self,
        node: BrokerContext,
        peers: Peers,
        members: Callable[[], Mapping[int, str]],
        rng: Rng | None = None,
    ) -> None:
        self._node = node
        self._peers = peers
        self._members = members
        self._rng: Rng = rng or RealRng()
        self._number = node.started_wall_ms << 20  # above the numbers of earlier runs
        self._tasks = TaskSet()
        self._too_many = False

    def lock(
        self,
        wanted: LockBatchRequest,
        queues: Sequence[MessageQueue],
        done: Callable[[Reply], None],
    ) -> None:
        """Lock `queues` at a majority; `done` gets the answer for the client."""
        self._tasks.spawn(self._lock(wanted, queues, done))

    def unlock(self, wanted: LockBatchRequest) -> None:
        """Unlock the queues here and at all members that can be reached."""
        attempt = self._next_attempt()
        locks = self._node.locks
        locks.unlock(wanted.consumer_group, wanted.mq_set, wanted.client_id, attempt)
        for address in self._members().values():
            self._tasks.spawn(self._tell(address, wanted, wanted.mq_set, attempt, undo=False))

    async def close(self) -> None:
        await self._tasks.close()
        await self._peers.close()

    # Locking ---------------------------------------------------------------------------------

    async def _lock(
        self,
        wanted: LockBatchRequest,
        queues: Sequence[MessageQueue],
        done: Callable[[Reply], None],
    ) -> None:
        clock = self._node.clock
        group, client_id = wanted.consumer_group, wanted.client_id
        asking = LockRequest(
            self._node.locks, group, client_id, queues, self._quorum, clock.now_ms()
        )
        try:
            await self._ask(wanted, asking)
            if asking.tries_again(clock.now_ms()):
                least, most = PAUSE_MS
                await asyncio.sleep((least + self._rng.randrange(most - least)) / 1000)
                await self._ask(wanted, asking)
        except Refused as error:
            done(Reply(error.code, error.remark))
            return
        done(Reply(body=encode_body(LockBatchResponse(asking.granted))))

    async def _ask(self, wanted: LockBatchRequest, asking: LockRequest) -> None:
        """Run one ballot to its end; votes for queues that were not won are undone everywhere."""
        attempt, members = self._next_attempt(), self._asked()
        wanted_of_all = asking.begin(members.keys(), attempt, self._node.clock.now_ms())
        await self._save()
        ballot = asking.ballot
        votes = {
            self._tasks.spawn(self._vote(address, wanted, wanted_of_all, attempt)): member
            for member, address in members.items()
            if wanted_of_all
        }
        pending = set(votes)
        while pending and not ballot.decided:
            ended, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                _count(ballot, votes[task], task.result())
        for member, undo in asking.end(self._node.clock.now_ms()).items():
            self._tasks.spawn(self._tell(members[member], wanted, undo, attempt, undo=True))
        await self._save()

    async def _save(self) -> None:
        """Wait until the votes are saved; raises `Refused` when the disk does not take them."""
        saved: asyncio.Future[Refused | None] = asyncio.get_running_loop().create_future()

        def done(error: Refused | None) -> None:
            if not saved.done():
                saved.set_result(error)

        save_votes(self._node, done)
        if (error := await saved) is not None:
            raise error

    @property
    def _quorum(self) -> int:
        return quorum_of(self._node.options.total_replicas)

    def _asked(self) -> Mapping[int, str]:
        """Return the members to ask; empty when the group has more members than votes are counted
        for."""
        members = self._members()
        total = self._node.options.total_replicas
        too_many = len(members) >= total
        if too_many and not self._too_many:
            log.error(
                "no locks are given: the group has %(members)d members besides this one, which is"
                " more than totalReplicas=%(total_replicas)d; majorities would not meet",
                {"members": len(members), "total_replicas": total},
            )
        self._too_many = too_many
        return {} if too_many else members

    async def _vote(
        self,
        address: str,
        wanted: LockBatchRequest,
        queues: Sequence[MessageQueue],
        attempt: Attempt,
    ) -> tuple[list[MessageQueue], bool] | None:
        """Return the queues that a member votes for and whether it can undo exactly this vote; None
        without a usable answer."""
        header = LockBatchHeader(
            lockAsker=attempt.asker,
            lockNumber=attempt.number,
            totalReplicas=self._node.options.total_replicas,
        )
        body = _for_member(wanted, queues)
        command = request(RequestCode.LOCK_BATCH_MQ, header, body)
        try:
            answer = await self._peers.invoke(address, command, VOTE_TIMEOUT_MS)
            if answer.code != ResponseCode.SUCCESS:
                log.warning(
                    "%(address)s does not vote on locks: %(remark)s",
                    {"address": address, "remark": answer.remark},
                )
                return None
            found = decode_body(LockBatchResponse, answer.body)
        except EpochError as error:
            log.info(
                "%(address)s did not vote on a lock: %(error)s",
                {"address": address, "error": error},
            )
            return None
        exact = (answer.ext or {}).get("lockNumber") == str(attempt.number)
        return found.lock_ok_mq_set, exact

    async def _tell(
        self,
        address: str,
        wanted: LockBatchRequest,
        queues: Sequence[MessageQueue],
        attempt: Attempt,
        *,
        undo: bool,
    ) -> None:
        header = UnlockBatchHeader(
            lockAsker=attempt.asker, lockNumber=attempt.number, lockUndo=undo or None
        )
        command = request(RequestCode.UNLOCK_BATCH_MQ, header, _for_member(wanted, queues))
        try:
            await self._peers.oneway(address, command, VOTE_TIMEOUT_MS)
        except EpochError as error:
            log.info(
                "%(address)s could not be notified of released locks: %(error)s",
                {"address": address, "error": error},
            )

    def _next_attempt(self) -> Attempt:
        self._number += 1
        return Attempt(str(self._node.group_position.own_id), self._number)


def _count(ballot: LockBallot, member: int, vote: tuple[list[MessageQueue], bool] | None) -> None:
    if vote is None:
        ballot.silent(member)
    else:
        ballot.voted(member, vote[0], exact=vote[1])


def _for_member(wanted: LockBatchRequest, queues: Sequence[MessageQueue]) -> bytes:
    return encode_body(
        LockBatchRequest(wanted.consumer_group, wanted.client_id, list(queues), True)
    )
