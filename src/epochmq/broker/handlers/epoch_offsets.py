"""EPOCH_OFFSETS 34004: where a master's epoch begins in each queue of a topic (ADR 0037)."""

from epochmq.base.errors import Refused
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.handlers.common import NodeHandler, known_topic, ok
from epochmq.wire.bodies.bulk_bodies import EpochOffsets
from epochmq.wire.bodies.controller_bodies import EpochEntryBody
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.headers.bulk_headers import EpochOffsetsHeader
from epochmq.wire.headers.header import decode_header
from epochmq.wire.session import Session


def handle_epoch_offsets(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """The first message of each queue that the master of `epoch`, or a later one, wrote.

    An epoch that retention took, or in which nothing was written, is answered by what follows.
    """
    header = decode_header(EpochOffsetsHeader, command.ext)
    topic = known_topic(node, header.topic)
    start = start_of(epochs_of(node), header.epoch)
    store = node.store
    queues = {*range(topic.read_queue_nums), *store.queues(header.topic)}
    offsets = {str(q): store.offset_at_place(header.topic, q, start) for q in sorted(queues)}
    return ok(EpochOffsets(offsets))


def epochs_of(node: BrokerNode) -> list[EpochEntryBody]:
    """The epochs of the broker's log, `Refused` 1 when it is not in controller mode."""
    if node.replica is None or not node.options.enable_controller_mode:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, "this broker has no epochs: it is not in controller mode"
        )
    return node.replica.epochs()


def start_of(epochs: list[EpochEntryBody], epoch: int) -> int:
    """The log offset at which `epoch` begins; `Refused` 29 for one that has not begun."""
    for entry in epochs:
        if entry.epoch >= epoch:
            return entry.start_offset
    last = str(epochs[-1].epoch) if epochs else "none"
    raise Refused(
        ResponseCode.INVALID_PARAMETER,
        f"epoch {epoch} has not begun in this broker's log; the last one there is {last}",
    )


HANDLERS: dict[int, NodeHandler] = {RequestCode.EPOCH_OFFSETS: handle_epoch_offsets}
