"""A broker without sockets: a real store on a simulated disk, frames in, answers out."""

from collections.abc import Callable
from typing import Any

from sim.kernel.disk import SimDisk
from tests.broker.fake_session import NoTransport

from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.context.broker_context import BrokerContext, BrokerPorts
from epochmq.broker.server.broker_sink import BrokerSink
from epochmq.broker.state.keeper import Done, write_here
from epochmq.broker.state.topic_table import Wishes, system_topics
from epochmq.model import properties as props
from epochmq.model.host import pack
from epochmq.model.message import StoredMessage
from epochmq.model.record import decode_all
from epochmq.model.topic import TopicConfig
from epochmq.store.gate import LOOKS_WHILE_FULL
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import FLAG_ONEWAY, Command, decode, encode_frame
from epochmq.wire.frame import FrameReader
from epochmq.wire.session import Session

WALL = 1_700_000_000_000
HOST = "127.0.0.1"
PORT = 10911

SMALL = {
    "commit_log_file_bytes": 1 << 20,
    "consume_queue_file_bytes": 2000,
    "index_slots": 64,
    "index_items": 256,
}


class HarnessClock:
    """Both clocks, moved by the test."""

    def __init__(self) -> None:
        self.now = 1000
        self.wall = WALL

    def now_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return self.wall

    def step(self, ms: int) -> None:
        self.now += ms
        self.wall += ms


class BrokerHarness:
    """One broker's sink with its clients; `turn` is one turn of the loop."""

    def __init__(
        self,
        options: BrokerOptions | None = None,
        *,
        disk: SimDisk | None = None,
        **changes: Any,
    ) -> None:
        self.clock = HarnessClock()
        self.disk = disk or SimDisk()
        self.options = options or BrokerOptions(
            broker_name="b", broker_ip1=HOST, broker_cluster_name="c", **changes
        )
        sync = self.options.flush_disk_type == "SYNC_FLUSH"
        index = self.options.message_index_enable
        self.store = Store.open(
            self.disk, StoreOptions(sync_flush=sync, index=index, **SMALL), pack(HOST, PORT), WALL
        )
        self.later: list[Any] = []
        self._held_writes: list[tuple[Callable[[], None], Done]] | None = None
        self.held_reads: list[Callable[[], None]] = []
        """Reads of messages that are not in memory (`evict`)."""
        self.node = BrokerContext(
            self.options,
            clock=self.clock,
            disk=self.disk,
            store=self.store,
            port=PORT,
            process=7,
            ports=BrokerPorts(
                soon=self.later.append,
                read_cold=self._read_cold,
                write_in_background=self._write,
            ),
        )
        self.node.topics.add_system(system_topics(Wishes("c", "b")))
        self.sink = BrokerSink(self.node)
        self._sessions = 0

    def _write(self, call: Callable[[], None], done: Done) -> None:
        if self._held_writes is None:
            write_here(call, done)
        else:
            self._held_writes.append((call, done))

    def _read_cold(self, call: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.held_reads.append(lambda: done(call()))

    def evict(self) -> None:
        """The log leaves the memory; `read_device` brings back what was asked for."""
        self.disk.evicted = {f"commitlog/{name}" for name in self.disk.list("commitlog")}

    def read_device(self) -> int:
        """The thread for cold reads reads all that it was asked for; return how many reads."""
        held, self.held_reads = self.held_reads, []
        for call in held:
            call()
        self.turn()
        return len(held)

    def hold_writes(self) -> list[tuple[Callable[[], None], Done]]:
        """Do no write of tables from now on; the writes are added to the list."""
        self._held_writes = []
        return self._held_writes

    def topic(self, name: str = "T", queues: int = 4, **more: Any) -> TopicConfig:
        """Create a topic beforehand, so that sends find it."""
        config = TopicConfig(name, queues, queues, **more)
        made = self.node.topics.put(config, self.clock.wall)
        self.sink.save_metadata(self.clock.now)
        return made

    def client(self, *, fast_port: bool = False) -> "Client":
        self._sessions += 1
        return Client(self, self._sessions, fast_port)

    def turn(self) -> None:
        """The loop's turn ends; then what it put off is run."""
        self.sink.end_of_turn(self.clock.now)
        later, self.later[:] = self.later[:], []
        for call in later:
            call()

    def look_at_disk(self) -> None:
        """The store looks whether its disk has space, as it does in each interval."""
        self.clock.step(self.store.options.disk_check_interval_ms)
        self.store.tick(self.clock.now, self.clock.wall)

    def wait_writable(self) -> None:
        """Time passes until the store accepts writes again."""
        for _ in range(LOOKS_WHILE_FULL):
            if not self.store.writable:
                self.look_at_disk()
        assert self.store.writable

    def stored(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        """All messages of a queue, as a consumer would decode them."""
        messages: list[StoredMessage] = []
        at = 0
        while (found := self.store.read_queue(topic, queue_id, at, 1000, 1 << 20)).count:
            messages += decode_all(b"".join(found.chunks))
            at = found.next_offset
        return messages


class Client:
    """One connection; sends frames, collects answers."""

    def __init__(self, harness: BrokerHarness, number: int, fast_port: bool) -> None:
        self.harness = harness
        self.transport = NoTransport()
        port = 40000 + number
        self.session = Session(
            number,
            self.transport,
            peer=f"10.0.0.9:{port}",
            peer_packed=pack("10.0.0.9", port),
            fast_port=fast_port,
        )
        harness.sink.opened(self.session)
        self.reader = FrameReader()
        self._answers = FrameReader()
        self.opaque = 0

    def put(self, *commands: Command) -> None:
        """All frames of one read."""
        for command in commands:
            if not command.opaque and not command.is_response:
                self.opaque += 1
                command.opaque = self.opaque
        data = b"".join(map(encode_frame, commands))
        self.harness.sink.receive(self.session, self.reader.feed(data), self.harness.clock.now)

    def put_raw(self, data: bytes) -> int:
        """Offer the bytes of a read to the native code first; return how many it took."""
        buffer = memoryview(bytearray(data))
        taken = self.harness.sink.receive_raw(self.session, buffer, 0, len(buffer))
        rest = self.reader.feed(data[taken:])
        self.harness.sink.receive(self.session, rest, self.harness.clock.now)
        return taken

    def take(self) -> list[Command]:
        """What the broker has said since the last call."""
        data = b"".join(map(bytes, self.session.pop_outbox()))
        return [decode(f.header, f.binary, bytes(f.body)) for f in self._answers.feed(data)]

    def ask(self, command: Command) -> Command:
        """One request, the end of the turn, its one answer."""
        self.put(command)
        self.harness.turn()
        (answer,) = self.take()
        assert answer.opaque == command.opaque
        return answer


def send(
    body: bytes = b"hello",
    *,
    topic: str = "T",
    queue_id: int = 0,
    properties: dict[str, str] | str | None = None,
    code: int = Code.SEND_MESSAGE_V2,
    binary: bool = False,
    version: int = 401,
    oneway: bool = False,
    **more: Any,
) -> Command:
    """A send request as a Java client makes it; `more` by long field names."""
    if properties is None:
        properties = {"UNIQ_KEY": "0A0000090BAD18B4AAC2000000000001", "WAIT": "true"}
    text = properties if isinstance(properties, str) else props.encode(properties)
    fields = {
        "producerGroup": "PID",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": queue_id,
        "sysFlag": 0,
        "bornTimestamp": WALL - 5,
        "flag": 0,
        "properties": text,
        "reconsumeTimes": 0,
        "unitMode": "false",
        "batch": "true" if code == Code.SEND_BATCH_MESSAGE else "false",
        **more,
    }
    if code in (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE_V2):
        from epochmq.wire.headers.send_headers import V2_KEYS

        fields = {V2_KEYS[name]: value for name, value in fields.items()}
    ext = {name: str(value) for name, value in fields.items() if value is not None}
    flag = FLAG_ONEWAY if oneway else 0
    return Command(
        code, ext=ext, body=body, language="JAVA", version=version, binary=binary, flag=flag
    )


def pull(
    *,
    topic: str = "T",
    queue_id: int = 0,
    offset: int = 0,
    group: str = "G",
    count: int = 32,
    sys_flag: int = 4,
    commit: int = 0,
    suspend_ms: int = 15_000,
    expression: str | None = "*",
    kind: str | None = "TAG",
    sub_version: int = 0,
    code: int = Code.PULL_MESSAGE,
    binary: bool = False,
    version: int = 401,
) -> Command:
    """A pull request; sys_flag 1 commits, 2 may be held, 4 brings its subscription."""
    fields: dict[str, object] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": offset,
        "maxMsgNums": count,
        "sysFlag": sys_flag,
        "commitOffset": commit,
        "suspendTimeoutMillis": suspend_ms,
        "subVersion": sub_version,
        "subscription": expression,
        "expressionType": kind,
    }
    ext = {name: str(value) for name, value in fields.items() if value is not None}
    return Command(code, ext=ext, language="JAVA", version=version, binary=binary)


def ext(command: Command) -> dict[str, str]:
    assert command.ext is not None
    return command.ext
