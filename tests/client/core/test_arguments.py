"""A wrong argument is named."""

from types import ModuleType

import pytest

from epochmq.base.errors import UsageError
from epochmq.client import aio, sync
from epochmq.client.aio.name_server_list import parse_addresses
from epochmq.client.core.outgoing import body_bytes, prepare
from epochmq.model.message import Message


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("body", Message("T", "text")),  # type: ignore[arg-type]
        ("body", Message("T", None)),  # type: ignore[arg-type]
        ("topic", Message(None, b"")),  # type: ignore[arg-type]
        ("tags", Message("T", b"", tags=5)),  # type: ignore[arg-type]
        ("keys", Message("T", b"", keys=5)),  # type: ignore[arg-type]
        ("keys", Message("T", b"", keys=(5,))),  # type: ignore[arg-type]
        ("properties", Message("T", b"", properties=None)),  # type: ignore[arg-type]
        ("'a'", Message("T", b"", properties={"a": 5})),  # type: ignore[dict-item]
        ("name of a property", Message("T", b"", properties={5: "a"})),  # type: ignore[dict-item]
        ("delay_level", Message("T", b"", delay_level="1")),  # type: ignore[arg-type]
        ("delay_ms", Message("T", b"", delay_ms=1.5)),  # type: ignore[arg-type]
        ("deliver_at_ms", Message("T", b"", deliver_at_ms="now")),  # type: ignore[arg-type]
        ("flag", Message("T", b"", flag=None)),  # type: ignore[arg-type]
    ],
)
def test_a_field_of_a_wrong_type(field: str, message: Message) -> None:
    with pytest.raises(UsageError, match=field):
        prepare(message, "ID")


def test_what_is_no_message() -> None:
    with pytest.raises(UsageError, match="Message"):
        body_bytes("text")


def test_one_text_is_one_key() -> None:
    message = Message("T", b"", keys="1001")  # type: ignore[arg-type]
    assert message.keys == ("1001",)
    assert message.all_properties()["KEYS"] == "1001"


@pytest.mark.parametrize("namesrv", [["a:1"], None, 9876])
def test_name_servers(namesrv: object) -> None:
    with pytest.raises(UsageError, match="namesrv"):
        parse_addresses(namesrv)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "kind", [aio.Producer, aio.PushConsumer, aio.PullConsumer, aio.PopConsumer]
)
def test_a_group_that_is_no_text(kind: type) -> None:
    with pytest.raises(UsageError, match="group"):
        kind("127.0.0.1:1", None)


async def test_arguments_of_calls() -> None:
    producer = aio.Producer("127.0.0.1:1", "p")
    with pytest.raises(UsageError, match="key"):
        await producer.send_ordered(Message("T", b""), 5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="topic"):
        await producer.queues(None)  # type: ignore[arg-type]
    for consumer in (aio.PushConsumer("127.0.0.1:1", "g"), aio.PopConsumer("127.0.0.1:1", "g")):
        with pytest.raises(UsageError, match="listener"):
            consumer.on_message("listener")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="topic"):
            await consumer.subscribe(None)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="expression"):
            await consumer.subscribe("T", 5)  # type: ignore[arg-type]


class OnlyExecutes:
    def execute_local(self, message: Message, arg: object) -> None: ...


@pytest.mark.parametrize(
    ("listener", "missing"), [(object(), "execute_local"), (OnlyExecutes(), "check")]
)
@pytest.mark.parametrize("client", [aio, sync])
def test_a_transaction_listener_without_its_functions(
    client: ModuleType, listener: object, missing: str
) -> None:
    with pytest.raises(UsageError, match=f"listener.{missing}"):
        client.TransactionProducer("127.0.0.1:1", "g", listener)
