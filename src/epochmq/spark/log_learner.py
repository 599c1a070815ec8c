"""The replication protocol's learner, without a log of its own: parses what a master sends. Pure.

`needs` is the number of bytes of the next frame head, `left` the number of log bytes that follow.
The code that reads the socket passes both on. A learner is asynchronous: its acknowledgements do
not count for the confirmed offset and only keep the connection alive.

Frames are those of `replication.frames`. The checks are those of `replication.follower`: offsets
without gaps, and epochs that rise and keep their start.
"""

import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from epochmq.auth.credentials import Credentials
from epochmq.base.errors import NotFound, NotReachable, PeerError, Refused, StoreDamaged, UsageError
from epochmq.base.limits import BROKER_ID_MAX
from epochmq.client.aio.admin_client import Admin
from epochmq.client.core.route_cache import MASTER_ID
from epochmq.model.host import parse_addr
from epochmq.replication.frames import (
    REPLY_BYTES,
    TRANSFER_BYTES,
    HandshakeReply,
    Hello,
    ReplicationProtocol,
    TransferHead,
    decode_entries,
    decode_reply,
    decode_transfer,
    encode_ack,
    encode_hello,
)
from epochmq.runtime.tls import DISABLED, ENFORCING, OutgoingTls, client_tls
from epochmq.spark.connection_options import credentials_in
from epochmq.spark.spark_loop_thread import LoopThread
from epochmq.store.epochs import OPEN_END, consistent_point
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import ExchangeHAInfoHeader

LEARNER_IDS = BROKER_ID_MAX - 1
"""There are so many ids above `BROKER_ID_MAX`, which no broker uses.

A new link of a learner id ends the older one with that id.
"""


class EpochStart(NamedTuple):
    """An epoch and its start offset in the log."""

    epoch: int
    start: int


class Learner:
    """The state of one connection; `offset` is the next log byte to read, 0 for the first."""

    def __init__(self, number: int, offset: int, known: Sequence[tuple[int, int]] = ()) -> None:
        self.offset = offset
        self.entries: list[EpochStart] = []
        """The master's epochs, from its handshake and its frames."""
        self.confirmed: int | None = None
        """The master's last confirmed offset; None before its first frame."""
        self.left = 0
        """The number of log bytes that come next."""
        self._number = BROKER_ID_MAX + 1 + number % LEARNER_IDS
        self._known = [EpochStart(*each) for each in known]
        """The epochs of the log that was read before, up to `offset`."""
        self._reply: HandshakeReply | None = None
        self._agreed = False

    def hello(self) -> bytes:
        """Return the handshake, which is sent in one write."""
        return encode_hello(Hello(False, True, self._number))

    @property
    def needs(self) -> int:
        """The number of bytes of the next frame head; 0 while log bytes come next."""
        if self._reply is None:
            return REPLY_BYTES[ReplicationProtocol.G2]
        if not self._agreed:
            return self._reply.body_bytes
        return 0 if self.left else TRANSFER_BYTES

    def took(self, count: int) -> None:
        """Record that `count` log bytes have arrived."""
        self.offset += count
        self.left -= count

    def head(self, data: bytes) -> bytes:
        """Process exactly `needs` bytes; returns the bytes to send back, which may be empty.

        Raises `PeerError` for an invalid frame, and `StoreDamaged` when the master's log differs
        from the log that was read before.
        """
        if self._reply is None:
            self._reply = decode_reply(data)
            return b"" if self._reply.body_bytes else self._agree(self._reply, [])
        if not self._agreed:
            return self._agree(self._reply, decode_entries(data))
        self._frame(decode_transfer(data))
        return b""

    def _agree(self, reply: HandshakeReply, entries: list[tuple[int, int]]) -> bytes:
        self.entries = [EpochStart(*each) for each in entries]
        point: int | None = reply.end
        if self._known and self.offset:
            point = consistent_point(self._known, self.offset, entries, reply.end)
        if point is None or point < self.offset:
            raise StoreDamaged(
                f"the broker's log, which ends at {reply.end}, is not the one that was read up to"
                f" {self.offset}: they part at {point}; compare the replicas before going on"
            )
        self._agreed = True
        return encode_ack(self.offset)

    def ack(self) -> bytes:
        """Return an acknowledgement, which keeps the connection alive."""
        return encode_ack(self.offset)

    def _frame(self, head: TransferHead) -> None:
        if head.offset != self.offset:
            if self.offset or head.offset < 0:
                raise PeerError(f"log from {head.offset}, where {self.offset} is next")
            self.offset = head.offset  # the first byte that the master keeps
        if head.body_bytes or head.epoch >= 0:
            self._learn(head)
        self.left = head.body_bytes
        self.confirmed = max(head.confirmed, self.confirmed or 0)

    def _learn(self, head: TransferHead) -> None:
        known = dict(self.entries).get(head.epoch)
        last = self.entries[-1] if self.entries else EpochStart(-1, 0)
        if known is None and head.epoch > last.epoch and head.epoch_start >= last.start:
            self.entries.append(EpochStart(head.epoch, head.epoch_start))
        elif known is None and head.epoch > last.epoch:
            raise PeerError(f"epoch {head.epoch} from {head.epoch_start} is not the master's")
        elif known is not None and known != head.epoch_start:
            raise PeerError(f"epoch {head.epoch} began at {known}, now at {head.epoch_start}")

    def epoch_at(self, offset: int) -> tuple[int | None, int]:
        """Return the epoch of byte `offset`, None if unknown, and the offset where that epoch
        ends.
        """
        for index in range(len(self.entries) - 1, -1, -1):
            if self.entries[index].start <= offset:
                later = (entry.start for entry in self.entries[index + 1 :])
                end = next((start for start in later if start > offset), OPEN_END)
                return self.entries[index].epoch, end
        return None, self.entries[0].start if self.entries else OPEN_END


# Log home ------------------------------------------------------------------------------------
# Finds the replication port of a broker group's master, from the name server and the master.


T = TypeVar("T")

FILE_BYTES_KEY = "mappedFileSizeCommitLog"
AUTHENTICATION_KEYS = ("authenticationEnabled", "aclEnable")
TLS_KEY = "haTlsMode"
_FILE_BYTES = 1 << 30


class Home(NamedTuple):
    """A master and the address of its replication port."""

    broker: str
    host: str
    port: int
    file_bytes: int
    authenticated: bool = False
    """Whether a reader must prove that it knows the credentials of the brokers."""
    credentials: Credentials | None = None
    """The credentials for that; None means those of the process."""
    tls_mode: str = DISABLED
    """The option haTlsMode of the master."""
    tls: ssl.SSLContext | None = None
    """The context of the link; None for a plain one."""


def find_brokers(name_server: str, tls: OutgoingTls | None = None) -> list[str]:
    """Return the broker groups that the name server knows, sorted."""
    return _ask(name_server, tls, _names)


def find_home(name_server: str, broker: str, tls: OutgoingTls | None = None) -> Home:
    """Return the current master of `broker`; raises `NotReachable` while there is none.

    Raises `UsageError` for a broker that is not in controller mode: it has no learners, and could
    count the acknowledgements of an unknown peer on its replication port.
    """
    home = _ask(name_server, tls, lambda admin: _home(admin, broker))
    context = None if home.tls_mode == DISABLED else client_tls(tls or OutgoingTls())
    if home.tls_mode == ENFORCING and context is None:
        raise UsageError(
            f"broker {broker} sends its log over TLS only (haTlsMode): set the option tls.enable"
        )
    return home._replace(credentials=credentials_in(tls), tls=context)


def _ask(name_server: str, tls: OutgoingTls | None, work: Callable[[Admin], Awaitable[T]]) -> T:
    async def connected() -> T:
        context = client_tls(tls or OutgoingTls())
        async with Admin(name_server, tls=context, credentials=credentials_in(tls)) as admin:
            return await work(admin)

    loop = LoopThread("log-home")
    try:
        return loop.run(connected())
    finally:
        loop.close()


async def _names(admin: Admin) -> list[str]:
    return list(await admin.broker_groups())


async def _home(admin: Admin, broker: str) -> Home:
    groups = await admin.broker_groups()
    if broker not in groups:
        known = ", ".join(groups) or "none"
        raise NotFound(f"there is no broker {broker}; known to the name server: {known}")
    address = groups[broker].broker_addrs.get(MASTER_ID)
    if address is None:
        raise NotReachable(f"broker {broker} has no master now; try again")
    try:
        await admin.broker_epochs(address)
    except Refused as error:
        raise UsageError(
            f"broker {broker} cannot be read as a learner: {error}. Read its store directory"
            " instead, with option path"
        ) from None
    command = request(RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoHeader())
    answer = decode_header(ExchangeHAInfoHeader, (await admin.ask(address, command)).ext)
    if answer.masterHaAddress is None:
        raise NotReachable(f"{address} is not the master of {broker} any more; try again")
    host, port = parse_addr(answer.masterHaAddress)
    config = await admin.broker_config(address)
    authenticated = any(config.get(key) == "true" for key in AUTHENTICATION_KEYS)
    file_bytes = int(config.get(FILE_BYTES_KEY, _FILE_BYTES))
    tls_mode = config.get(TLS_KEY, DISABLED)
    return Home(broker, host, port, file_bytes, authenticated, tls_mode=tls_mode)
