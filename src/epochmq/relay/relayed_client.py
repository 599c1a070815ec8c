"""The requests of one client that a relay passes on: what is sent, held, repeated or refused.

The connection of a client stays open while the master changes. Requests that arrive meanwhile wait.
When a new master is connected, it first gets the client's last heartbeat, because a broker knows
its clients by connection, then all requests without an answer, in their order.

A request that was sent to a master which died may have been carried out. Reads and what clients
keep at brokers (offsets, locks, heartbeats) are repeated. Sends are repeated too, as clients'
retries do, unless `resend_sends` is false. Everything else, for example a change of a topic, is
answered with SERVICE_NOT_AVAILABLE.

A master that answers SERVICE_NOT_AVAILABLE may be about to be replaced: the request waits for up to
`REFUSED_MS`, and is sent again now and then; after that the client gets the answer.
"""

from collections.abc import Iterable

import msgspec

from epochmq.base import limits
from epochmq.base.ports import Buffer
from epochmq.relay.relayed_frames import (
    FrameHead,
    RelayedFrame,
    answer_frame,
    read_frames,
)
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE

SENDS = frozenset(
    {
        Code.SEND_MESSAGE,
        Code.SEND_MESSAGE_V2,
        Code.SEND_BATCH_MESSAGE,
        Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2,
        Code.CONSUMER_SEND_MSG_BACK,
    }
)
"""Requests that store a message; repeated only with `resend_sends`."""

REPEATED = frozenset(
    {
        Code.PULL_MESSAGE,
        Code.LITE_PULL_MESSAGE,
        Code.BULK_READ,
        Code.EPOCH_OFFSETS,
        Code.KEY_PLACES,
        Code.PEEK_MESSAGE,
        Code.NOTIFICATION,
        Code.POLLING_INFO,
        Code.POP_MESSAGE,
        Code.ACK_MESSAGE,
        Code.BATCH_ACK_MESSAGE,
        Code.CHANGE_MESSAGE_INVISIBLETIME,
        Code.QUERY_CONSUMER_OFFSET,
        Code.UPDATE_CONSUMER_OFFSET,
        Code.SEARCH_OFFSET_BY_TIMESTAMP,
        Code.GET_MAX_OFFSET,
        Code.GET_MIN_OFFSET,
        Code.GET_EARLIEST_MSG_STORETIME,
        Code.QUERY_MESSAGE,
        Code.VIEW_MESSAGE_BY_ID,
        Code.GET_CONSUMER_LIST_BY_GROUP,
        Code.QUERY_ASSIGNMENT,
        Code.LOCK_BATCH_MQ,
        Code.UNLOCK_BATCH_MQ,
        Code.END_TRANSACTION,
        Code.HEART_BEAT,
        Code.UNREGISTER_CLIENT,
        Code.CHECK_CLIENT_CONFIG,
        Code.GET_TOPIC_CONFIG,
        Code.GET_BROKER_RUNTIME_INFO,
    }
)
"""Requests that may be carried out twice without harm."""

CLIENT_BYTES_MAX = 64 * 1024 * 1024
"""Requests of one client without an answer."""
UNREGISTERED_MAX = 100
"""Requests to unregister that are repeated after a heartbeat."""
HEARTBEAT_BYTES_MAX = 1024 * 1024
_WITHOUT_SUBSCRIPTIONS = b'"withoutSub":true'
"""In a heartbeat that repeats only the fingerprint of the subscriptions (RIP-47)."""

REFUSED_MS = 1_000
"""How long (ms) a request waits that a master refused; its disk may be full, too."""

BUSY = "the relay holds too many requests without an answer; send more slowly"


class HeldBytes:
    """The bytes of all requests without an answer, of all clients of a relay."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0

    def has_room(self, size: int) -> bool:
        return self.total + size <= self.limit


class RelayedRequest(msgspec.Struct, gc=False):
    """A request without an answer."""

    code: int
    frame: memoryview
    at_ms: int
    sent: bool
    refusal: bytes | None = None
    """The answer SERVICE_NOT_AVAILABLE of a master, and below when it came first."""
    refused_at_ms: int = 0

    def expires_at_ms(self, hold_ms: int) -> int:
        return self.at_ms + hold_ms if self.refusal is None else self.refused_at_ms + REFUSED_MS


class RelayedClient:
    """The requests of one client. `now` is monotonic ms.

    `to_master` and `to_client` are bytes that the caller sends and then clears.
    """

    def __init__(self, hold_ms: int, held: HeldBytes, *, resend_sends: bool) -> None:
        self._hold_ms = hold_ms
        self._held = held
        self._resend_sends = resend_sends
        self.connected = False
        self.to_master: list[Buffer] = []
        self.to_client: list[Buffer] = []
        self._requests: dict[int, RelayedRequest] = {}
        """Requests without an answer by opaque, in their order."""
        self._oneways: list[RelayedRequest] = []
        """One-way requests that wait for a master."""
        self._asked: set[int] = set()
        """Opaques of the requests of the present master that the client has not answered."""
        self._heartbeat: bytes | None = None
        self._unregistered: list[bytes] = []
        """What the client has unregistered since its last heartbeat, which still names it."""
        self._bytes = 0
        """Bytes of requests without an answer, and of waiting one-way requests."""
        self.waiting = 0
        """Requests that wait for a master."""

    # From the client --------------------------------------------------------------------------

    def from_client(self, data: memoryview, start: int, size: int, now: int) -> int:
        """Handle the whole frames of `data[start:size]`; return their size.

        Raises:
            PeerError: a frame is not valid.
        """
        frames = read_frames(data, start, size, limits.HEADER_BYTES_MAX)
        if not frames:
            return 0
        stop = frames[-1][1]
        copied = memoryview(bytes(data[start:stop]))
        whole = self.connected
        passed: list[memoryview] = []
        for begin, end, head in frames:
            frame = copied[begin - start : end - start]
            if self._accept(head, frame, now):
                passed.append(frame)
            else:
                whole = False
        if whole:
            self.to_master.append(copied)
        elif self.connected:
            self.to_master += passed
        return stop - start

    def _accept(self, head: FrameHead, frame: memoryview, now: int) -> bool:
        """Note one frame of the client; return whether it goes to the master now."""
        if head.flag & FLAG_RESPONSE:
            if head.opaque not in self._asked:
                return False  # it answers an earlier master
            self._asked.discard(head.opaque)
            return self.connected
        if not self._held.has_room(len(frame)) or self._bytes + len(frame) > CLIENT_BYTES_MAX:
            if not head.flag & FLAG_ONEWAY:
                self.to_client.append(answer_frame(head.opaque, ResponseCode.SYSTEM_BUSY, BUSY))
            return False
        if head.code == Code.HEART_BEAT:
            self._remember(frame)
        elif head.code == Code.UNREGISTER_CLIENT and len(self._unregistered) < UNREGISTERED_MAX:
            self._unregistered.append(bytes(frame))
        request = RelayedRequest(head.code, frame, now, self.connected)
        if head.flag & FLAG_ONEWAY:
            if not self.connected:
                self._oneways.append(request)
                self._hold(len(frame))
            return self.connected
        if head.opaque in self._requests:
            self._forget(head.opaque)
        self._requests[head.opaque] = request
        self._hold(len(frame))
        self.waiting += not self.connected
        return self.connected

    def _remember(self, frame: memoryview) -> None:
        if len(frame) <= HEARTBEAT_BYTES_MAX:
            data = bytes(frame)
            if self._heartbeat is None or _WITHOUT_SUBSCRIPTIONS not in data:
                self._heartbeat = data
                self._unregistered.clear()

    # From the master --------------------------------------------------------------------------

    def from_master(self, data: memoryview, start: int, size: int, now: int) -> int:
        """Handle the whole frames of `data[start:size]`; return their size.

        Raises:
            PeerError: a frame is not valid.
        """
        frames = read_frames(data, start, size, limits.ANSWER_HEADER_BYTES_MAX)
        if not frames:
            return 0
        stop = frames[-1][1]
        passed = [frame for frame in frames if self._passes(frame, data, now)]
        if len(passed) == len(frames):
            self.to_client.append(bytes(data[start:stop]))
        else:
            self.to_client += [bytes(data[begin:end]) for begin, end, _ in passed]
        return stop - start

    def _passes(self, frame: RelayedFrame, data: memoryview, now: int) -> bool:
        """Note one frame of the master; return whether the client gets it."""
        begin, end, head = frame
        if not head.flag & FLAG_RESPONSE:
            if not head.flag & FLAG_ONEWAY:
                self._asked.add(head.opaque)
            return True
        request = self._requests.get(head.opaque)
        if request is None or not request.sent:
            return False
        if head.code == ResponseCode.SERVICE_NOT_AVAILABLE and self._may_repeat(request):
            request.sent = False
            self.waiting += 1
            if request.refusal is None:
                request.refused_at_ms = now
            request.refusal = bytes(data[begin:end])
            return False
        self._forget(head.opaque)
        return True

    def _forget(self, opaque: int) -> None:
        request = self._requests.pop(opaque, None)
        if request is not None:
            self._hold(-len(request.frame))
            self.waiting -= not request.sent

    def _may_repeat(self, request: RelayedRequest) -> bool:
        return request.code in REPEATED or (self._resend_sends and request.code in SENDS)

    # The connection to the master -------------------------------------------------------------

    def master_connected(self) -> None:
        """Send what waits to a new master: first the heartbeat, then the requests in order."""
        self.connected = True
        if self._heartbeat is not None:  # second answers to these are dropped
            self.to_master += (self._heartbeat, *self._unregistered)
        self.send_waiting()

    def send_waiting(self) -> None:
        """Send the requests that wait, to a master that refused them or to a new one."""
        if not self.connected:
            return
        for request in self._requests.values():
            if not request.sent:
                request.sent = True
                self.to_master.append(request.frame)
        self.waiting = 0
        for oneway in self._oneways:
            self.to_master.append(oneway.frame)
            self._hold(-len(oneway.frame))
        self._oneways.clear()

    def master_lost(self) -> None:
        """Keep the requests that may be repeated; answer the others, whose outcome is unknown."""
        if not self.connected:
            return
        self.connected = False
        self._asked.clear()
        self.to_master.clear()
        refused = []
        for opaque, request in self._requests.items():
            if not request.sent:
                continue
            if self._may_repeat(request):
                request.sent = False
                self.waiting += 1
            else:
                refused.append(opaque)
        self._refuse(refused, "the master was lost before it answered; the outcome is unknown")

    def expire(self, now: int) -> None:
        """Answer the requests that have waited for a master for too long."""
        if not self.waiting and not self._oneways:
            return
        hold_ms = self._hold_ms
        late = [
            opaque
            for opaque, request in self._requests.items()
            if not request.sent and request.expires_at_ms(hold_ms) <= now
        ]
        self._refuse(late, f"no master for {hold_ms} ms")
        kept = [oneway for oneway in self._oneways if oneway.expires_at_ms(hold_ms) > now]
        self._hold(_bytes_of(kept) - _bytes_of(self._oneways))
        self._oneways = kept

    def _hold(self, size: int) -> None:
        self._bytes += size
        self._held.total += size

    def _refuse(self, opaques: Iterable[int], remark: str) -> None:
        for opaque in opaques:
            refusal = self._requests[opaque].refusal
            self._forget(opaque)
            code = ResponseCode.SERVICE_NOT_AVAILABLE
            self.to_client.append(refusal or answer_frame(opaque, code, remark))

    def close(self) -> None:
        """Drop everything: the client is gone."""
        self._hold(-self._bytes)
        self._requests.clear()
        self._oneways.clear()
        self.to_master.clear()
        self.to_client.clear()
        self.waiting = 0


def _bytes_of(requests: Iterable[RelayedRequest]) -> int:
    return sum(len(request.frame) for request in requests)
