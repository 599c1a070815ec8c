"""OpenTelemetry: a hook that makes spans of sends and listener calls (extra `telemetry`).

Only the API package is used: the application chooses an SDK and an exporter. Names and attributes
follow OpenTelemetry's semantic conventions for messaging and for RocketMQ. The context of the
producer travels in the properties of the message (`traceparent`, `tracestate`).
"""

from collections.abc import Mapping
from typing import NamedTuple

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

from epochmq import __version__
from epochmq.client.aio.hooks import ClientHook, ConsumeCall, MessageKind, SendCall
from epochmq.model.message import StoredMessage
from epochmq.model.names import RETRY

SYSTEM = "rocketmq"
_KINDS = {
    MessageKind.NORMAL: "normal",
    MessageKind.ORDERED: "fifo",
    MessageKind.DELAYED: "delay",
    MessageKind.HALF: "transaction",
}

Attributes = dict[str, str | int | tuple[str, ...]]


class _Consuming(NamedTuple):
    span: Span
    token: object


class OpenTelemetry(ClientHook):
    """Makes a span `send TOPIC` of each send and a span `process TOPIC` of each listener call.

    The span of a listener call is a child of the span that sent the message, if it gets one
    message; it has links to the spans of several. It is the current span while the listener runs.
    One object serves any number of clients.

    Args:
        tracer_provider: makes the tracer; None means the provider of the process.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("epochmq", __version__, tracer_provider)

    def begin_send(self, call: SendCall) -> None:
        """Start a span, and write its context into the messages."""
        attributes = {**_common(call.topic, "send", "send"), "messaging.client.group": call.group}
        kind = _KINDS.get(call.kind)
        if kind is not None:
            attributes["messaging.rocketmq.message.type"] = kind
        if len(call.messages) > 1:
            attributes["messaging.batch.message_count"] = len(call.messages)
        else:
            (message,) = call.messages
            attributes["messaging.message.body.size"] = len(message.body)
            attributes |= _labels(message.tags, message.keys)
        span = self._tracer.start_span(
            f"send {call.topic}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        call.notes[self] = span
        own = trace.set_span_in_context(span)
        for message in call.messages:
            propagate.inject(message.properties, own)

    def end_send(self, call: SendCall) -> None:
        """End the span."""
        span = call.notes.get(self)
        if not isinstance(span, Span):
            return
        if call.result is not None:
            if len(call.messages) == 1:
                span.set_attribute("messaging.message.id", call.result.msg_id)
            partition = f"{call.result.queue.broker_name}:{call.result.queue.queue_id}"
            span.set_attribute("messaging.destination.partition.id", partition)
        if call.address is not None:
            host, _, port = call.address.rpartition(":")
            span.set_attribute("server.address", host)
            span.set_attribute("server.port", int(port))
        _end(span, call.error)

    def begin_consume(self, call: ConsumeCall) -> None:
        """Start a span and make it the current one."""
        topic = _topic(call.messages[0])
        attributes = {
            **_common(topic, "process", "process"),
            "messaging.consumer.group.name": call.group,
            "messaging.rocketmq.consumption_model": "clustering",
        }
        parent: Context | None = None
        links: list[Link] = []
        if len(call.messages) == 1:
            (message,) = call.messages
            attributes["messaging.message.id"] = message.msg_id
            attributes["messaging.message.body.size"] = len(message.body)
            attributes |= _labels(message.tags, message.keys)
            parent = _sender(message.properties)
        else:
            attributes["messaging.batch.message_count"] = len(call.messages)
            spans = (_span_of(_sender(each.properties)) for each in call.messages)
            links = [Link(each.get_span_context()) for each in spans if each is not None]
        span = self._tracer.start_span(
            f"process {topic}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=links,
        )
        token = context.attach(trace.set_span_in_context(span, parent))
        call.notes[self] = _Consuming(span, token)

    def end_consume(self, call: ConsumeCall) -> None:
        """End the span; the one before is the current one again."""
        found = call.notes.get(self)
        if not isinstance(found, _Consuming):
            return
        context.detach(found.token)  # type: ignore[arg-type] # what attach returned
        if call.error is None and not call.is_done:
            found.span.set_attribute("error.type", "consume_later")
            found.span.set_status(Status(StatusCode.ERROR, "the listener returned LATER"))
            found.span.end()
        else:
            _end(found.span, call.error)


def _common(topic: str, name: str, kind: str) -> Attributes:
    return {
        "messaging.system": SYSTEM,
        "messaging.destination.name": topic,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }


def _labels(tags: str | None, keys: tuple[str, ...]) -> Attributes:
    found: Attributes = {}
    if tags:
        found["messaging.rocketmq.message.tag"] = tags
    if keys:
        found["messaging.rocketmq.message.keys"] = tuple(keys)
    return found


def _topic(message: StoredMessage) -> str:
    """Return the topic without the group's name: names of spans must be few."""
    return RETRY.strip("%").lower() if message.topic.startswith(RETRY) else message.topic


def _sender(properties: Mapping[str, str]) -> Context | None:
    """Return the context that the producer wrote, or None."""
    found = propagate.extract(properties, Context())
    return found if _span_of(found) is not None else None


def _span_of(found: Context | None) -> Span | None:
    span = trace.get_current_span(found) if found is not None else None
    return span if span is not None and span.get_span_context().is_valid else None


def _end(span: Span, error: BaseException | None) -> None:
    if error is not None:
        span.record_exception(error)
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()
