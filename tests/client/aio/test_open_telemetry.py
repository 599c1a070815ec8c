"""OpenTelemetry: one trace from an HTTP request through producer and broker to the consumer."""

import asyncio
from collections.abc import Iterator, Sequence

import httpx
import pytest
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.client.aio.collecting import Collector

from epochmq.client import sync
from epochmq.client.aio import ConsumeResult, OpenTelemetry, PopConsumer, Producer, PushConsumer
from epochmq.model.message import Message, StoredMessage

pytestmark = [pytest.mark.compat, pytest.mark.slow]


class Spans:
    """A provider of tracers, and the spans that ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("tests")

    @property
    def ended(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.ended if span.name == name]
        return found


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.provider.shutdown()


def trace_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


async def test_from_an_http_request_to_the_consumer(namesrv: str, topic: str, spans: Spans) -> None:
    hook = OpenTelemetry(spans.provider)
    collector = Collector(1)
    inside: list[int] = []

    async with Producer(namesrv, "shop", hooks=[hook]) as producer:

        async def order(request: Request) -> Response:
            parent = propagate.extract(request.headers)
            with spans.tracer.start_as_current_span("POST /order", parent, SpanKind.SERVER):
                await producer.send(Message(topic, await request.body(), "paid", ("order-1",)))
            return PlainTextResponse("ok")

        app = Starlette(routes=[Route("/order", order, methods=["POST"])])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as browser:
            with spans.tracer.start_as_current_span("browser"):
                headers: dict[str, str] = {}
                propagate.inject(headers)
                await browser.post("/order", content=b"one", headers=headers)

    async def listener(messages: list[StoredMessage]) -> ConsumeResult:
        with spans.tracer.start_as_current_span("write to the database") as span:
            inside.append(span.get_span_context().trace_id)
        return await collector(messages)

    async with PushConsumer(namesrv, f"g_{topic}", start="first", hooks=[hook]) as consumer:
        consumer.on_message(listener)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait()

    names = ("browser", "POST /order", f"send {topic}", f"process {topic}", "write to the database")
    found = [spans.named(name) for name in names]
    assert len({trace_id(span) for span in found}) == 1
    assert inside == [trace_id(found[0])]
    for child, parent in zip(found[1:], found, strict=False):
        assert child.parent is not None
        assert child.parent.span_id == parent.get_span_context().span_id  # type: ignore[union-attr]
    assert found[2].kind is SpanKind.PRODUCER
    assert found[3].kind is SpanKind.CONSUMER
    assert collector.accepted[0].properties["traceparent"].split("-")[1] == f"{inside[0]:032x}"


async def test_attributes_follow_the_conventions(namesrv: str, topic: str, spans: Spans) -> None:
    hook = OpenTelemetry(spans.provider)
    collector = Collector(1)
    async with Producer(namesrv, "shop", hooks=[hook]) as producer:
        sent = await producer.send_ordered(Message(topic, b"12345", "paid", ("k1", "k2")), "key")
    async with PopConsumer(namesrv, f"g_{topic}", start="first", hooks=[hook]) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait()
    send = dict(spans.named(f"send {topic}").attributes or {})
    assert send.pop("server.address") == "127.0.0.1"
    assert isinstance(send.pop("server.port"), int)
    common = {
        "messaging.system": "rocketmq",
        "messaging.destination.name": topic,
        "messaging.message.id": sent.msg_id,
        "messaging.message.body.size": 5,
        "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ("k1", "k2"),
    }
    assert send == common | {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.client.group": "shop",
        "messaging.rocketmq.message.type": "fifo",
        "messaging.destination.partition.id": f"{sent.queue.broker_name}:{sent.queue.queue_id}",
    }
    assert dict(spans.named(f"process {topic}").attributes or {}) == common | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": f"g_{topic}",
        "messaging.rocketmq.consumption_model": "clustering",
    }


async def test_a_batch_for_one_listener_call_has_links(
    namesrv: str, topic: str, spans: Spans
) -> None:
    hook = OpenTelemetry(spans.provider)
    async with Producer(namesrv, "shop", hooks=[hook]) as producer:
        queue = (await producer.queues(topic))[0]
        await producer.send_batch([Message(topic, b"1"), Message(topic, b"2")], queue=queue)
        await producer.send(Message(topic, b"3"), queue=queue)
    collector = Collector(3)
    async with PushConsumer(
        namesrv, f"g_{topic}", start="first", batch_size=3, hooks=[hook]
    ) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait()
    sends = [span for span in spans.ended if span.name == f"send {topic}"]
    assert [dict(s.attributes or {}).get("messaging.batch.message_count") for s in sends] == [
        2,
        None,
    ]
    calls = [span for span in spans.ended if span.name == f"process {topic}"]
    linked = {link.context.trace_id for call in calls for link in call.links}
    parents = {call.parent.trace_id for call in calls if call.parent is not None}
    assert linked | parents == {trace_id(send) for send in sends}
    assert linked


async def test_failures_are_errors(namesrv: str, topic: str, spans: Spans) -> None:
    hook = OpenTelemetry(spans.provider)
    async with Producer(namesrv, "shop", hooks=[hook]) as producer:
        await producer.send(Message(topic, b"one"))
        with pytest.raises(Exception, match="bytes"):
            await producer.send(Message(topic, b"x" * (5 << 20)))
    seen = asyncio.Event()

    def listener(messages: list[StoredMessage]) -> ConsumeResult:
        if messages[0].reconsume_times == 0:
            raise ValueError("broken")
        seen.set()
        return ConsumeResult.LATER

    async with PushConsumer(namesrv, f"g_{topic}", start="first", hooks=[hook]) as consumer:
        consumer.on_message(listener)
        await consumer.subscribe(topic)
        await consumer.start()
        async with asyncio.timeout(30):
            await seen.wait()
    failed = [span for span in spans.ended if span.status.status_code is StatusCode.ERROR]
    kinds = [dict(span.attributes or {})["error.type"] for span in failed]
    assert kinds[1:3] == ["ValueError", "consume_later"]
    assert failed[0].name == f"send {topic}"
    assert trace.get_current_span() is trace.INVALID_SPAN  # nothing stays the current span


def test_blocking_clients_continue_the_trace_of_their_thread(
    namesrv: str, topic: str, spans: Spans
) -> None:
    hook = OpenTelemetry(spans.provider)
    with (
        sync.Producer(namesrv, "shop", hooks=[hook]) as producer,
        spans.tracer.start_as_current_span("request") as span,
    ):
        producer.send(Message(topic, b"one"))
    found = spans.named(f"send {topic}")
    assert found.parent is not None
    assert found.parent.span_id == span.get_span_context().span_id
