"""Simulated consumers that also pop in order, and acknowledge many messages by one request."""

from functools import partial
from typing import TYPE_CHECKING

from epochmq.client.core.pop_state import PopHandle, batches, complete, handle_of
from epochmq.model import record
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.pop_bodies import BatchAck, BatchAckBody
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pop_headers import PopHeader, PopResponseHeader
from sim.controller.member import GROUP
from sim.kernel.host import Host
from sim.kernel.workload import TOPICS, records
from sim.kernel.world import MS
from sim.secondary.secondary_clients import CALL_US, IN_ORDER, TRIES, SecondaryClient, group_of

if TYPE_CHECKING:
    from sim.popping.popping_world import PoppingHistory

Wanted = list[tuple[PopHandle, str]]
"""Messages to acknowledge, each with the topic that was requested."""


class PoppingClient(SecondaryClient):
    """A consumer of two groups: one pops without order, one in order."""

    history: "PoppingHistory"

    def __init__(self, history: "PoppingHistory", host: Host) -> None:
        super().__init__(history, host)
        self.waiting: dict[str, Wanted] = {}
        """By broker: acknowledgements for the next request."""
        self.in_order = 0
        self.attempts = 0
        self.again: tuple[str, int, str] | None = None
        """An ordered pop whose answer was lost: topic, queue, attempt."""

    # Many acknowledgements in one request -------------------------------------------------------

    def _ack(self, handle: PopHandle, topic: str, name: str, tries: int) -> None:
        if not self.history.bundles or self.chance.randrange(4) == 0:
            super()._ack(handle, topic, name, tries)
            return
        waiting = self.waiting.setdefault(name, [])
        waiting.append((handle, topic))
        if len(waiting) == 1:
            pause = self.chance.choice((0, 5, 50)) * MS
            self.world.after(pause, "bundle", partial(self._send_bundle, name), self.host)

    def _send_bundle(self, name: str) -> None:
        self._ack_all(self.waiting.pop(name), name, TRIES)

    def _ack_all(self, wanted: Wanted, name: str, tries: int) -> None:
        self.world.mark("covered.bundle")
        body = BatchAckBody(broker_name=GROUP, acks=_rows(wanted))

        def answered(answer: Command) -> None:
            self.world.mark(f"covered.bundle_{answer.code}")
            self.was_late(answer)
            if answer.code not in (0, 13, 208):
                again()

        def again(_lost: bool = True) -> None:
            if tries > 1:
                other = self.chance.choice(self.history.cluster.broker_names)
                self.world.after(
                    50 * MS, "bundle", lambda: self._ack_all(wanted, other, tries - 1), self.host
                )

        command = request(RequestCode.BATCH_ACK_MESSAGE, None, encode_body(body))
        self.rpc.call(name, command, CALL_US, answered, again)

    # In order -----------------------------------------------------------------------------------

    def pop_in_order(self) -> None:
        """Pop a batch of a random queue, or of any; repeat an attempt whose answer was lost."""
        history, chance = self.history, self.chance
        if self.in_order >= 2:
            return
        again, self.again = self.again, None
        self.attempts += 1
        topic = TOPICS[chance.randrange(len(TOPICS))]
        queue = chance.choice((-1, -1, 0, 1))
        attempt = f"{self.host.name}-{self.host.incarnation}-{self.attempts}"
        if again is not None and chance.randrange(4):
            topic, queue, attempt = again
        target = self.target
        name = history.cluster.broker_names[target]
        header = PopHeader(
            IN_ORDER,
            topic,
            queue,
            32 if history.draining else chance.choice((1, 3, 8)),
            max(chance.choice(history.invisible_ms), self.asks_ms),
            chance.choice((0, 0, 250)),
            0,
            0,
            order=True,
            attemptId=attempt if chance.randrange(3) else None,
        )

        def answered(answer: Command) -> None:
            self.in_order -= 1
            if answer.code == 0:
                self._batch(answer, topic, name)
            elif answer.code in (1, 11, 14):
                self.turn_from(target)

        def failed(_lost: bool) -> None:
            self.in_order -= 1
            self.again = (topic, queue, attempt) if header.attemptId else None
            self.turn_from(target)

        self.in_order += 1
        wait_us = CALL_US if chance.randrange(2) else 6 * CALL_US
        self.rpc.call(name, request(RequestCode.POP_MESSAGE, header), wait_us, answered, failed)

    def _batch(self, answer: Command, topic: str, name: str) -> None:
        """Acknowledge a batch: all of it, a part, in any order, or nothing."""
        header = decode_header(PopResponseHeader, answer.ext)
        found = [record.decode(raw) for raw in records([memoryview(bytes(answer.body))])]
        complete(found, header, topic=topic, group=IN_ORDER, broker_name=GROUP)
        handles = [handle_of(message) for message in found]
        chance, drains = self.chance, self.history.draining
        kind = 0 if drains else chance.randrange(8)
        if kind == 7:
            return
        if kind == 6:
            chance.shuffle(handles)
        if kind == 5:
            handles = handles[: chance.randrange(len(handles) + 1)]
        if kind == 4:
            self._hide(handles[-1], topic, name)
            handles.pop()
        pause = 0
        for handle in handles:
            if not drains:
                pause += chance.randrange(max(1, header.invisibleTime * (1 + kind) // 8)) * MS
            self.world.after(
                pause, "ack", partial(self._ack, handle, topic, name, TRIES), self.host
            )


def _rows(wanted: Wanted) -> list[BatchAck]:
    """Build the acknowledgements as the client does; ordered ones have one message each."""
    rows: list[BatchAck] = []
    for topic in TOPICS:
        for group in sorted({group_of(handle) for handle, _ in wanted}):
            mine = [h for h, of in wanted if of == topic and group_of(h) == group]
            body, alone = batches(GROUP, group, topic, mine)
            rows += body.acks
            rows += [_row_in_order(handle, topic) for handle in alone]
    return rows


def _row_in_order(handle: PopHandle, topic: str) -> BatchAck:
    return BatchAck(
        consumer_group=group_of(handle),
        topic=topic,
        retry=handle.mark,
        start_offset=handle.offset,
        queue_id=handle.queue_id,
        revive_queue_id=handle.revive_queue_id,
        pop_time=handle.pop_wall_ms,
        invisible_time=handle.invisible_ms,
        bit_set="AQ==",
    )
