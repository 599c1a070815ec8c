"""Simulated clients that also send transactions and consume by POP, with acting masters."""

import asyncio
from typing import TYPE_CHECKING

from epochmq.client.core.pop_state import PopHandle, complete, handle_of
from epochmq.model.message_id import parse_offset_id
from epochmq.model.record import decode_all
from epochmq.model.sys_flag import TX_PREPARED
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.group_bodies import HeartbeatData, ProducerData
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pop_headers import AckHeader, PopHeader, PopResponseHeader
from epochmq.wire.headers.send_headers import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    CheckTransactionStateHeader,
    EndTransactionHeader,
    SendResponseHeader,
)
from epochmq.wire.session import Session
from sim.acting.acting_book import Sent, number_in
from sim.acting.acting_clients import PRODUCERS, ActingClient
from sim.kernel.host import Host
from sim.kernel.workload import TOPICS

if TYPE_CHECKING:
    from sim.acting.acting_world import ActingHistory

POPPERS = "PCG"
TRIES = 4
HOWS = {"commit": COMMIT, "rollback": ROLLBACK, "silent": UNKNOWN}


class SpecialClient(ActingClient):
    """Beside the plain ones."""

    def __init__(self, history: "ActingHistory", host: Host, share: tuple[int, int]) -> None:
        super().__init__(history, host, share)
        self.peers._requests = self._asked

    async def main(self) -> None:
        await super().main()
        if "half" in self.history.mix:
            self.loop.begin(self._beat())
        if self.history.pops:
            self.loop.begin(self._pop())

    async def _beat(self) -> None:
        """Every broker knows the producer, to ask it."""
        data = HeartbeatData(self.host.name, [ProducerData(PRODUCERS)])
        while self.history.consuming():
            route = await self.route(TOPICS[0])
            for group in route.broker_datas:
                for _, address in sorted(group.broker_addrs.items()):
                    await self._tell(
                        address, request(RequestCode.HEART_BEAT, None, encode_body(data))
                    )
            await asyncio.sleep(0.3)

    # Transactions -------------------------------------------------------------------------------

    def flags(self, kind: str) -> int:
        return TX_PREPARED if kind == "half" else 0

    def wishes(self, kind: str) -> dict[str, str]:
        if kind == "half":
            return {"TRAN_MSG": "true", "PGROUP": PRODUCERS}
        return super().wishes(kind)

    def called(self, sent: Sent) -> None:
        if sent.kind == "half":
            sent.decision = self.chance.choice(("commit", "commit", "rollback", "silent"))

    def acked(self, sent: Sent, said: SendResponseHeader, address: str) -> None:
        if sent.kind == "half" and sent.decision != "silent" and self.chance.randrange(4):
            place = said.queueOffset, parse_offset_id(said.msgId)[2]
            self.loop.begin(self._end(sent, place))

    async def _end(self, sent: Sent, place: tuple[int, int]) -> None:
        """Say how it ends, to whom the route shows as the group's master."""
        for _ in range(TRIES):
            await asyncio.sleep(self.chance.randrange(400) / 1000)
            route = await self.route(sent.queue.topic)
            shown = [d for d in route.broker_datas if d.broker_name == sent.queue.group]
            if not shown or 0 not in shown[0].broker_addrs:
                continue
            sent.said = True
            answer = await self._tell(shown[0].broker_addrs[0], _ending(sent, place, checked=False))
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                sent.ended = True
                return

    def _asked(self, command: Command, session: Session) -> Reply | None:
        """A broker asks how a transaction ended; one whose send failed was never begun."""
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            header = decode_header(CheckTransactionStateHeader, command.ext)
            sent = self.history.book.sends[int((header.transactionId or "k0")[1:])]
            if not sent.acked and not sent.said:
                sent.decision = "rollback"
            self.world.mark("covered.checked")
            sent.said = sent.said or sent.decision != "silent"
            place = header.tranStateTableOffset, header.commitLogOffset
            session.oneway(_ending(sent, place, checked=True))
        return None

    # POP ----------------------------------------------------------------------------------------

    async def _pop(self) -> None:
        while self.history.consuming():
            for topic in TOPICS:
                for group in self.history.groups:
                    await self._pop_of(topic, group)
            await asyncio.sleep(3 * self.history.pace_ms / 1000)

    async def _pop_of(self, topic: str, group: str) -> None:
        route = await self.route(topic)
        shown = [data for data in route.broker_datas if data.broker_name == group]
        if not shown or 0 not in shown[0].broker_addrs:
            return
        address = shown[0].broker_addrs[0]
        header = PopHeader(
            POPPERS,
            topic,
            -1,
            self.chance.choice((1, 4, 16)),
            self.history.invisible_ms,
            0,
            self.host.wall,
            0,
        )
        since_us = self.world.time_us
        answer = await self._tell(address, request(RequestCode.POP_MESSAGE, header))
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return
        said = decode_header(PopResponseHeader, answer.ext)
        found = decode_all(bytes(answer.body))
        complete(found, said, topic=topic, group=POPPERS, broker_name=group)
        calm = not self.history.busy()
        for message in found:
            number, handle = number_in(bytes(message.body)), handle_of(message)
            self.history.book.popped.add(number)
            self.world.mark("covered.popped")
            by = self.history.host_at(address)
            self.tell("popped", number, handle, by, since_us)
            if calm or self.chance.randrange(5):
                await self._ack(handle, topic, address, number)

    async def _ack(self, handle: PopHandle, topic: str, address: str, number: int) -> None:
        header = AckHeader(
            POPPERS,
            handle.real_topic(topic, POPPERS),
            handle.queue_id,
            str(handle),
            handle.offset,
        )
        since_us = self.world.time_us
        answer = await self._tell(address, request(RequestCode.ACK_MESSAGE, header))
        if answer is not None:
            self.world.mark(f"covered.ack_{answer.code}")
            if answer.code == ResponseCode.SUCCESS:
                self.tell("acked_pop", number, handle, since_us)


def _ending(sent: Sent, place: tuple[int, int], *, checked: bool) -> Command:
    key = f"k{sent.number}"
    header = EndTransactionHeader(PRODUCERS, *place, HOWS[sent.decision], key, checked, key)
    return request(RequestCode.END_TRANSACTION, header)
