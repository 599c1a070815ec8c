"""Simulated clients that send delayed, timed and transactional messages, and POP consumers."""

from typing import TYPE_CHECKING

from epochmq.client.core.pop_state import PopHandle, complete, handle_of
from epochmq.model import record
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pop_headers import (
    AckHeader,
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeResponseHeader,
    PopHeader,
    PopResponseHeader,
)
from epochmq.wire.headers.send_headers import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    CheckTransactionStateHeader,
    EndTransactionHeader,
)
from sim.controller.member import GROUP
from sim.group.clients import Client
from sim.kernel.host import Host
from sim.kernel.oracle import Result
from sim.kernel.workload import TOPICS, records
from sim.kernel.world import MS
from sim.secondary.secondary_broker import PRODUCERS

if TYPE_CHECKING:
    from sim.secondary.secondary_world import SecondaryHistory

CONSUMERS = "CG"
IN_ORDER = "OG"
"""The group that pops in order."""
TRIES = 4
CALL_US = 400 * MS
HOWS = {"commit": COMMIT, "rollback": ROLLBACK, "silent": UNKNOWN}


class SecondaryClient(Client):
    """A producer of plain, delayed, timed and transactional messages, and a POP consumer."""

    history: "SecondaryHistory"

    def __init__(self, history: "SecondaryHistory", host: Host) -> None:
        super().__init__(history, host)
        self.rpc.on_told = self._asked
        self.popping = 0
        self.asks_ms = 0
        """The minimum invisible time (ms) of its requests; see `was_late`."""
        self.timed: list[tuple[int, str, int]] = []
        """Timed messages that may still be cancelled: number, topic, wall time."""
        self._beat()

    def _beat(self) -> None:
        """Send heartbeats to all brokers, which check transactions with known producers."""
        for name in self.history.cluster.broker_names:
            beat = request(RequestCode.HEART_BEAT)
            self.rpc.call(name, beat, CALL_US, lambda _answer: None, lambda _lost: None)
        self.world.after(self.history.beat_us, "heartbeat", self._beat, self.host)

    # Sending ------------------------------------------------------------------------------------

    def wishes(self) -> dict[str, str]:
        history, chance = self.history, self.chance
        kind = chance.choice(history.mix)
        number = len(history.oracle.sends) - 1
        if kind == "level":
            return {"level": str(1 + chance.randrange(len(history.delays_ms)))}
        if kind == "half":
            how = chance.choice(("commit", "commit", "commit", "rollback", "silent"))
            history.transactions.decided(number, how)
            return {"half": "1", "born": str(self.host.wall)}
        if kind == "timer":
            return {"timer": "1", "properties": self._time(number)}
        return {}

    def _time(self, number: int) -> str:
        chance, host = self.chance, self.host
        delay = chance.choice(self.history.timers_ms) + chance.randrange(100)
        kind = chance.randrange(6)
        if kind == 0:
            return f"TIMER_DELAY_MS\x01{delay}\x02"
        if kind == 1:
            return f"TIMER_DELAY_SEC\x01{1 + delay // 1000}\x02"
        send = self.history.oracle.sends[number]
        mine = [one for one in self.timed if one[1] == send.queue[0] and one[2] > host.wall]
        if kind == 2 and mine:
            target, _, at = chance.choice(mine)
            self.timed.remove((target, send.queue[0], at))
            return f"TIMER_DELIVER_MS\x01{at}\x02TIMER_DEL_UNIQKEY\x01k{target}\x02"
        at = host.wall + delay
        self.timed.append((number, send.queue[0], at))
        del self.timed[:-8]
        return f"TIMER_DELIVER_MS\x01{at}\x02"

    def acked(self, number: int, ext: dict[str, str], name: str) -> None:
        history = self.history
        half = number in history.transactions.decisions
        if not half and number not in history.delayed.due:
            super().acked(number, ext, name)
            return
        history.oracle.held(number, int(ext["epoch"]), name, self.world.time_us)
        if not half:
            self.world.mark("covered.delayed")
            return
        self.world.mark("covered.half")
        place = int(ext["queueOffset"]), int(ext["offset"])
        how = history.transactions.decisions[number]
        if how != "silent" and self.chance.randrange(4):
            pause = self.chance.randrange(300) * MS
            self.world.after(pause, "end", lambda: self._end(number, place, TRIES), self.host)

    # Transactions -------------------------------------------------------------------------------

    def _end(self, number: int, place: tuple[int, int], tries: int) -> None:
        """Send the end of a transaction to the broker that it believes to be the master."""
        target = self.target
        name = self.history.cluster.broker_names[target]
        how = self.history.transactions.decisions[number]

        def answered(answer: Command) -> None:
            if answer.code == 0:
                self.world.tell("ended", number)
            else:
                again()

        def again(_lost: bool = True) -> None:
            self.turn_from(target)
            if tries > 1:
                pause = self.chance.randrange(300) * MS
                self.world.after(
                    pause, "end", lambda: self._end(number, place, tries - 1), self.host
                )

        self.world.tell("ending", number)
        command = end_of(number, place, how, checked=False)
        self.rpc.call(name, command, CALL_US, answered, again)

    def _asked(self, name: str, command: Command) -> None:
        """Answer a broker's check of a transaction; one whose send failed never began."""
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            return
        header = decode_header(CheckTransactionStateHeader, command.ext)
        number = int((header.transactionId or "k-1")[1:])
        book = self.history
        how = book.transactions.decisions[number]
        if book.oracle.sends[number].result is not Result.OK:
            how = "rollback"
            book.transactions.decided(number, how)
        self.world.mark("covered.checked")
        if how != "silent":
            self.world.tell("ending", number)
        place = header.tranStateTableOffset, header.commitLogOffset
        answer = end_of(number, place, how, checked=True)

        def answered(reply: Command) -> None:
            if reply.code == 0 and how != "silent":
                self.world.tell("ended", number)

        self.rpc.call(name, answer, CALL_US, answered, lambda _lost: None)

    # POP ----------------------------------------------------------------------------------------

    def pop(self) -> None:
        """Pop some messages of a random topic."""
        history, chance = self.history, self.chance
        if self.popping >= 2:
            return
        topic = TOPICS[chance.randrange(len(TOPICS))]
        target = self.target
        name = history.cluster.broker_names[target]
        invisible = max(chance.choice(history.invisible_ms), self.asks_ms)
        header = PopHeader(
            CONSUMERS,
            topic,
            chance.choice((-1, -1, 0, 1)),
            chance.choice((1, 3, 8)),
            invisible,
            chance.choice((0, 0, 250)),
            0,
            0,
        )

        def answered(answer: Command) -> None:
            self.popping -= 1
            if answer.code == 0:
                self._popped(answer, topic, name)
            elif answer.code in (1, 11, 14):
                self.turn_from(target)

        def failed(_lost: bool) -> None:
            self.popping -= 1
            self.turn_from(target)

        self.popping += 1
        self.rpc.call(name, request(RequestCode.POP_MESSAGE, header), CALL_US, answered, failed)

    def _popped(self, answer: Command, topic: str, name: str) -> None:
        header = decode_header(PopResponseHeader, answer.ext)
        found = [record.decode(raw) for raw in records([memoryview(bytes(answer.body))])]
        complete(found, header, topic=topic, group=CONSUMERS, broker_name=GROUP)
        for message in found:
            self.world.mark("covered.popped")
            self._deal(handle_of(message), topic, name, header.invisibleTime)

    def _deal(self, handle: PopHandle, topic: str, name: str, invisible: int) -> None:
        """Acknowledge a message soon, late or never, or extend its invisible time."""
        chance, history = self.chance, self.history
        kind = 0 if history.draining else chance.randrange(8)
        pause = 0 if history.draining else chance.randrange(max(1, invisible * kind // 3)) * MS
        if kind == 7:
            return
        if kind == 6:
            self._hide(handle, topic, name)
            return
        self.world.after(pause, "ack", lambda: self._ack(handle, topic, name, TRIES), self.host)

    def _ack(self, handle: PopHandle, topic: str, name: str, tries: int) -> None:
        group = group_of(handle)
        real = handle.real_topic(topic, group)
        header = AckHeader(group, real, handle.queue_id, str(handle), handle.offset)

        def answered(answer: Command) -> None:
            self.world.mark(f"covered.ack_{answer.code}")
            self.was_late(answer)
            if answer.code not in (0, 13, 208):
                again()

        def again(_lost: bool = True) -> None:
            if tries > 1:
                other = self.chance.choice(self.history.cluster.broker_names)
                self.world.after(
                    50 * MS, "ack", lambda: self._ack(handle, topic, other, tries - 1), self.host
                )

        self.rpc.call(name, request(RequestCode.ACK_MESSAGE, header), CALL_US, answered, again)

    def was_late(self, answer: Command) -> None:
        """While draining, use the longest invisible time after an acknowledgement that came too
        late.

        With slow disks an acknowledgement takes longer than the shortest time, and the consumer
        would get the same messages again and again.
        """
        if self.history.draining and answer.code == 208:
            self.asks_ms = max(self.history.invisible_ms)

    def _hide(self, handle: PopHandle, topic: str, name: str) -> None:
        """Change the invisible time; acknowledge by the new handle, or not."""
        chance = self.chance
        group = group_of(handle)
        real = handle.real_topic(topic, group)
        invisible = chance.choice(self.history.invisible_ms)
        header = ChangeInvisibleTimeHeader(
            group, real, handle.queue_id, str(handle), handle.offset, invisible
        )

        def answered(answer: Command) -> None:
            if answer.code == 0:
                self.world.mark("covered.hidden")
                told = decode_header(ChangeInvisibleTimeResponseHeader, answer.ext)
                new = handle.renewed(told.popTime, told.invisibleTime, told.reviveQid)
                self._deal(new, topic, name, told.invisibleTime)

        command = request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        self.rpc.call(name, command, CALL_US, answered, lambda _lost: None)


def group_of(handle: PopHandle) -> str:
    return IN_ORDER if handle.is_ordered else CONSUMERS


def end_of(number: int, place: tuple[int, int], how: str, *, checked: bool) -> Command:
    key = f"k{number}"
    header = EndTransactionHeader(PRODUCERS, *place, HOWS[how], key, checked, key)
    return request(RequestCode.END_TRANSACTION, header)
