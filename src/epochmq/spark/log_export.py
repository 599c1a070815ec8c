"""Reads a broker's whole log over the replication protocol, as a stream of ranges with their epoch.

An export ends at the offset that was confirmed when it began, so no failover truncates what it has
returned. After a lost connection, or with a new master, it continues at the same offset, once the
new master's epochs were compared with those that were read before. Memory holds one block and the
socket's buffers; a slow reader slows the master's sending to it, but not the broker.
"""

import itertools
import os
import select
import socket
import ssl
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from epochmq.auth.credentials import outgoing_credentials
from epochmq.base.errors import (
    EnvironmentFault,
    NotReachable,
    PeerError,
    Refused,
    UsageError,
)
from epochmq.client.aio.client_credentials import credentials_of
from epochmq.replication.link_authentication import (
    ANSWER_BYTES,
    FollowerHandshake,
    LinkKeys,
    NotAuthenticated,
    derive_key,
)
from epochmq.runtime.rng import new_nonce
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.log_learner import EpochStart, Home, Learner, find_home

BLOCK_BYTES = 4 << 20
RECEIVE_BYTES = 512 << 10
"""The size of the socket's receive buffer in bytes.

With a larger buffer, the sender's CPU copies segments that the reader would else copy itself: on
loopback the broker needed 0.25 to 0.45 s for each GB instead of 0.16 to 0.20.
"""
CONNECT_S = 5.0
SILENCE_S = 15.0
"""A master sends something every 5 s (haSendHeartbeatInterval)."""
ACK_S = 5.0
STARVED_S = 30.0
"""When confirmed log does not arrive for this long, the master no longer has the offset."""
FAILOVER_S = 60.0
FIRST_CONTACT_S = 5.0
"""A wrong address must be reported soon."""

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes of the log from `offset` on, which belong to one epoch and one log file."""

    offset: int
    epoch: int | None
    """None below the first epoch that the master knows."""
    data: memoryview

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class LogExport:
    """One export: `ranges` yields the log, `offset` is the next byte to read.

    `start` is 0 for the first byte that the master has, or the offset at which an earlier export
    ended. `to` is the end; it is lowered to the confirmed offset. `known` has the epochs of the log
    before `start`. `find` returns the current master. After an error, `ranges` retries for
    `failover_s` seconds.
    """

    def __init__(
        self,
        find: Callable[[], Home],
        start: int = 0,
        to: int | None = None,
        known: "list[EpochStart] | None" = None,
        *,
        failover_s: float = FAILOVER_S,
    ) -> None:
        self.offset = start
        self.end = to
        """The end of the export; the master's first frame can lower it."""
        self.entries = list(known or [])
        """The epochs of the log that was read, and all later ones that the master reported."""
        self.began = start
        """The log offset of the first byte."""
        self.reconnected = 0
        self._find = find
        self._settled = False
        self._failover_s = failover_s
        self.file_bytes = 0

    def ranges(self) -> Generator[LogRange]:
        """Yield the log up to `end`; raises `NotReachable` when no master continues in time."""
        failed_at: float | None = None
        while not self.done:
            before = self.offset
            try:
                known = [entry for entry in self.entries if entry.start < self.offset]
                with ExportLink(self._find(), self.offset, known) as link:
                    self.file_bytes = link.home.file_bytes
                    yield from self._read(link)
                failed_at = None
            except (NotReachable, PeerError, Refused) as error:
                now = time.monotonic()
                failed_at = now if failed_at is None or self.offset > before else failed_at
                if now - failed_at >= (self._failover_s if self._settled else FIRST_CONTACT_S):
                    raise NotReachable(
                        f"the export stopped at {self.offset}: {error}; begin again there"
                    ) from error
                self.reconnected += 1
                time.sleep(0.2)

    def find_bounds(self) -> tuple[int, int]:
        """Return the first offset and the end of the export; this uses the export up."""
        with closing(self.ranges()) as ranges:
            next(ranges, None)
        return self.began, self.end or 0

    @property
    def done(self) -> bool:
        """Whether the whole range was read."""
        return self._settled and self.end is not None and self.offset >= self.end

    def _read(self, link: "ExportLink") -> Iterator[LogRange]:
        learner = link.learner
        while not self.done:
            link.heads()
            end = self._choose_end(learner)
            if self.offset >= end:
                return
            epoch, epoch_end = learner.epoch_at(self.offset)
            file_end = self.offset - self.offset % self.file_bytes + self.file_bytes
            size = min(end, epoch_end, file_end) - self.offset
            block = memoryview(bytearray(min(size, BLOCK_BYTES)))
            filled = link.fill(block)
            self.offset += filled
            yield LogRange(self.offset - filled, epoch, block[:filled])

    def _choose_end(self, learner: Learner) -> int:
        """Return the end of the export; the first frame has the log's begin and its confirmed
        offset.
        """
        self.entries = [*self._older(learner), *learner.entries]
        if not self._settled:
            confirmed = learner.confirmed or 0
            self._settled = True
            self.began = self.offset = learner.offset
            self.end = confirmed if self.end is None else min(confirmed, self.end)
        return self.end or 0

    def _older(self, learner: Learner) -> list[EpochStart]:
        """Return the known epochs that the master does not have any more."""
        first = learner.entries[0].epoch if learner.entries else -1
        return [entry for entry in self.entries if entry.epoch < first]


class ExportLink:
    """A connection to a master's replication port, with blocking calls and timeouts."""

    def __init__(self, home: Home, offset: int, known: "list[EpochStart]") -> None:
        self.home = home
        self.learner = Learner(_number(), offset, known)
        self._told = self._fed = time.monotonic()
        try:
            self._socket = _connect(home)
        except OSError as error:
            raise NotReachable(
                f"cannot connect to {home.host}:{home.port}, where {home.broker} takes replicas:"
                f" {error.strerror or error}"
            ) from None

    def __enter__(self) -> "ExportLink":
        try:
            if self.home.authenticated:
                self._authenticate()
            self._send(self.learner.hello())
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _authenticate(self) -> None:
        """Prove to the master that this process knows the credentials of the brokers.

        Raises `UsageError` without credentials, `NotReachable` with others than the brokers'.
        """
        home = self.home
        found = home.credentials or outgoing_credentials.get() or credentials_of(os.environ)
        if found is None:
            raise UsageError(
                f"{self._name} gives its log only to the cluster's own servers: set the credentials"
                " of the brokers (option credentials.path, or EPOCHMQ_ACCESS_KEY and"
                " EPOCHMQ_SECRET_KEY)"
            )
        key = derive_key(found.access_key, found.secret_key)
        handshake = FollowerHandshake(LinkKeys(key, True, new_nonce))
        self._send(handshake.call)
        try:
            self._send(handshake.proof(self._exactly(ANSWER_BYTES)))
        except NotAuthenticated as error:
            text = f"the credentials of this process are not those of the brokers: {error}"
            raise NotReachable(f"{self._name} was not asked for its log; {text}") from None

    def heads(self) -> None:
        """Read frame heads until log bytes follow, or the master has sent everything confirmed."""
        learner = self.learner
        while needs := learner.needs:
            self._send(learner.head(self._exactly(needs)))
            if learner.confirmed is not None and learner.offset >= learner.confirmed:
                return
            self._keep_alive()

    def fill(self, block: memoryview) -> int:
        """Read log bytes into `block`, from several frames; returns how many.

        It returns fewer bytes than the block has when no further frame is here, or another epoch
        begins. Call `heads` before, so that at least one byte follows.
        """
        learner, filled = self.learner, 0
        while filled < len(block):
            if not learner.left:
                known = len(learner.entries)
                if not self._head_waits():
                    break
                self.heads()
                if filled and len(learner.entries) > known:
                    break  # another epoch begins
                continue
            count = self._receive(block[filled : filled + min(learner.left, len(block) - filled)])
            learner.took(count)
            filled += count
        self._fed = time.monotonic()
        self._keep_alive()
        return filled

    def _head_waits(self) -> bool:
        """Return whether the next frame has begun to arrive, so that reading it does not delay
        the block.
        """
        sock = self._socket
        if isinstance(sock, ssl.SSLSocket) and sock.pending():
            return True
        return bool(select.select([sock], [], [], 0)[0])

    def _exactly(self, count: int) -> bytes:
        data = bytearray(count)
        view = memoryview(data)
        while len(view):
            view = view[self._receive(view) :]
        return bytes(data)

    def _receive(self, view: memoryview) -> int:
        try:
            count = self._socket.recv_into(view)
        except TimeoutError:
            raise NotReachable(f"{self._name} is silent for {SILENCE_S:g} s") from None
        except OSError as error:
            raise NotReachable(f"the link to {self._name} broke: {error.strerror}") from None
        if not count:
            raise NotReachable(f"{self._name} closed the link")
        return count

    def _send(self, data: bytes) -> None:
        if data:
            try:
                self._socket.sendall(data)
            except OSError as error:
                raise NotReachable(f"the link to {self._name} broke: {error.strerror}") from None
            self._told = time.monotonic()

    def _keep_alive(self) -> None:
        now = time.monotonic()
        if now - self._told >= ACK_S:
            self._send(self.learner.ack())
        if now - self._fed >= STARVED_S:
            raise EnvironmentFault(
                f"{self._name} sends no log from {self.learner.offset} on, though it is confirmed"
                f" up to {self.learner.confirmed}: most likely it has deleted what comes next;"
                " begin at 0, the first byte that it keeps"
            )

    @property
    def _name(self) -> str:
        return f"the master of {self.home.broker} at {self.home.host}:{self.home.port}"


def _connect(home: Home) -> socket.socket:
    family = socket.AF_INET6 if ":" in home.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Set before connecting: the first packet determines the scale of the TCP window.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        made.settimeout(CONNECT_S)
        made.connect((home.host, home.port))
        if home.tls is not None:
            made = home.tls.wrap_socket(made, server_hostname=home.host)
    except BaseException:
        made.close()
        raise
    made.settimeout(SILENCE_S)
    return made


def _number() -> int:
    """Return a learner number for a link: a second link with the same number would end the
    first.
    """
    return int.from_bytes(os.urandom(4), "big") + next(_numbers)


def open_export(
    name_server: str,
    broker: str,
    start: int = 0,
    to: int | None = None,
    known: "list[EpochStart] | None" = None,
    tls: OutgoingTls | None = None,
    *,
    failover_s: float = FAILOVER_S,
) -> LogExport:
    """Create an export from the current master of broker group `broker`."""
    find = partial(find_home, name_server, broker, tls)
    return LogExport(find, start, to, known, failover_s=failover_s)
