"""`consumerConnection`, `producerConnection`, `producer`."""

from typing import TYPE_CHECKING

from epochmq.admin.mqadmin.running import Out, mq_command, opt
from epochmq.admin.shared.java_text import harmless, text_of
from epochmq.client.core.release_names import release_name

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.wire.bodies.group_bodies import ClientConnection

_MEMBER = "{:<36} {:<22} {:<10} {}"
_TOPIC = "{:<20} {}"


@mq_command(
    "consumerConnection",
    opt("g", "consumerGroup", "The group.", required=True),
    opt("b", "brokerAddr", "As this broker sees it, HOST:PORT."),
)
async def consumer_connection(
    admin: "Admin", out: Out, consumer_group: str, broker_addr: str | None
) -> None:
    """Print the members of a consumer group and what they subscribe to."""
    found = await admin.consumers(consumer_group, broker_addr)
    out.line(_MEMBER.format("#ClientId", "#ClientAddr", "#Language", "#Version"))
    for each in found.connection_set:
        version = release_name(each.version)
        line = _MEMBER.format(each.client_id, each.client_addr, each.language, version)
        out.line(line, _row(each))
    out.line()
    out.line("Below is subscription:")
    out.line(_TOPIC.format("#Topic", "#SubExpression"))
    for topic, data in found.subscription_table.items():
        row = {"topic": topic, "expression": data.sub_string, "type": data.expression_type}
        out.line(_TOPIC.format(topic, data.sub_string), row)
    out.line()
    out.line(f"ConsumeType: {text_of(found.consume_type or None)}")
    out.line(f"MessageModel: {text_of(found.message_model or None)}")
    out.line(f"ConsumeFromWhere: {text_of(found.consume_from_where or None)}")


@mq_command(
    "producerConnection",
    opt("g", "producerGroup", "The group.", required=True),
    opt("t", "topic", "A topic it sends to.", required=True),
)
async def producer_connection(admin: "Admin", out: Out, producer_group: str, topic: str) -> None:
    """Print the producers of a group that brokers of a topic know."""
    found = await admin.producers(producer_group, topic)
    for number, each in enumerate(found.connection_set, 1):
        text = f"{number:04d}  {each.client_id:<32} {each.client_addr:<22} {each.language:<8}"
        out.line(f"{text} {release_name(each.version)}", _row(each))


@mq_command(
    "producer",
    opt("b", "broker", "The broker, HOST:PORT.", required=True),
)
async def producer(admin: "Admin", out: Out, broker: str) -> None:
    """Print all producers that are connected to a broker."""
    for group, members in (await admin.all_producers(broker)).items():
        if not members:
            out.line(f"producer group ({group}) instances are empty")
        for each in members:
            name = harmless(each.client_id)
            text = (
                f"clientId={name},remoteIP={each.remote_ip}, language={each.language},"
                f" version={each.version}, lastUpdateTimestamp={each.last_update_timestamp}"
            )
            row = {"group": group, "client": each.client_id, "address": each.remote_ip}
            row |= {"language": each.language, "version": release_name(each.version)}
            out.line(f"producer group ({group}) instance : {text}", row)


def _row(each: "ClientConnection") -> dict[str, object]:
    return {
        "client": each.client_id,
        "address": each.client_addr,
        "language": each.language,
        "version": release_name(each.version),
    }


COMMANDS = {
    "consumerConnection": consumer_connection,
    "producerConnection": producer_connection,
    "producer": producer,
}
