"""Bodies of requests about POP: 200151, 400, 401, 402."""

import base64
import binascii
import re

from msgspec import UNSET, UnsetType

from epochmq.base.errors import HeaderError
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import Body

_NOT_ZERO = re.compile(rb"[^\0]", re.DOTALL)

MODE_PULL = "PULL"
MODE_POP = "POP"


class BatchAck(
    Body,
    rename={
        "consumer_group": "c",
        "topic": "t",
        "retry": "r",
        "start_offset": "so",
        "queue_id": "q",
        "revive_queue_id": "rq",
        "pop_time": "pt",
        "invisible_time": "it",
        "bit_set": "b",
    },
):
    """Acknowledgements of one queue of one pop; `bit_set` is Base64, see `offsets`."""

    consumer_group: str = ""
    topic: str = ""
    retry: str = "0"
    start_offset: int = 0
    queue_id: int = 0
    revive_queue_id: int = 0
    pop_time: int = 0
    invisible_time: int = 0
    bit_set: str = ""

    def offsets(self, most: int) -> list[int] | None:
        """Return the acknowledged queue offsets: bit i of byte j stands for `start_offset` + 8 j +
        i. None if there are more than `most`.

        Raises:
            HeaderError: the bit set is not Base64.
        """
        try:
            data = base64.b64decode(self.bit_set, validate=True)
        except (binascii.Error, ValueError):
            raise HeaderError("the bit set of a batch ack is not Base64") from None
        if int.from_bytes(data).bit_count() > most:
            return None
        return [
            self.start_offset + 8 * byte.start() + bit
            for byte in _NOT_ZERO.finditer(data)
            for bit in range(8)
            if byte[0][0] >> bit & 1
        ]


class BatchAckBody(Body):
    """BATCH_ACK_MESSAGE 200151."""

    broker_name: str = ""
    acks: list[BatchAck] = []


class QueryAssignmentRequest(Body):
    """QUERY_ASSIGNMENT 400: asks the broker which queues are assigned to this client."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str = "AVG"
    message_model: str = "CLUSTERING"


class MessageQueueAssignment(Body):
    """One assigned queue, and whether it is consumed by pull or POP."""

    message_queue: MessageQueue
    mode: str = MODE_PULL
    attachments: dict[str, str] | UnsetType | None = UNSET


class QueryAssignmentResponse(Body):
    """Answer to 400. UNSET means "no change in this round", an empty list "no queues"."""

    message_queue_assignments: list[MessageQueueAssignment] | UnsetType | None = UNSET


class MessageRequestMode(Body):
    """SET_MESSAGE_REQUEST_MODE 401."""

    topic: str
    consumer_group: str
    mode: str = MODE_PULL
    pop_share_queue_num: int = 0


class MessageRequestModeTable(Body):
    """Answer to GET_ALL_MESSAGE_REQUEST_MODE 402: by topic, then group."""

    message_request_mode_map: dict[str, dict[str, MessageRequestMode]] = {}
