"""`epochmq message`: single messages by id, key or place."""

import json
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.name_completion import complete_topics
from epochmq.admin.local.where import namesrv_option
from epochmq.admin.nouns.noun_base import NounGroup, Row, route_of, shows
from epochmq.admin.shared.asking import ask
from epochmq.admin.shared.output import JSON, note, output_option, print_json, show
from epochmq.base.errors import NotFound, UsageError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.model.message import StoredMessage
    from epochmq.model.topic import MessageQueue

_COUNT = 64
_CELL_CHARS = 60


@click.group(cls=NounGroup, short_help="Find messages by id, key, offset or time.")
def command() -> None:
    """Find messages by id, key, offset or time."""


@command.command("show")
@click.argument("msg_id", metavar="ID")
@click.option(
    "-t",
    "--topic",
    shell_complete=complete_topics,
    help="Topic of the message; required for an id that a client made.",
)
@click.option(
    "--tracks", is_flag=True, help="Also show the state of the message in each consumer group."
)
@namesrv_option
@output_option
def show_message(msg_id: str, topic: str | None, tracks: bool, namesrv: str, output: str) -> None:
    """Show a message by its client's or its offset id."""

    async def work(admin: "Admin") -> Row:
        if topic is not None:
            await route_of(admin, topic)
            found = await _in_topic(admin, topic, msg_id)
        else:
            at = await admin.message_by_place(msg_id, (await admin.masters()).values())
            if at is None:
                raise NotFound(f"no broker has {msg_id}; for a client's id give --topic as well")
            found = at
        row = {**row_of(found), **await _state(admin, found)}
        return {**row, **(await _tracks(admin, found) if tracks else {})}

    print_detail(output, ask(namesrv, work))


async def _in_topic(admin: "Admin", topic: str, msg_id: str) -> "StoredMessage":
    """The message in its topic, or on its way there."""
    try:
        return await admin.message(topic, msg_id)
    except NotFound:
        waiting = await admin.waiting_messages(topic, msg_id)
        if not waiting:
            raise
        return waiting[0]


async def _state(admin: "Admin", message: "StoredMessage") -> Row:
    """What it is, if it does not just lie in its topic: delayed, half, in flight; until when."""
    from epochmq.admin.messages.hidden import describe
    from epochmq.admin.shared.java_text import moment
    from epochmq.base.errors import ConfigError
    from epochmq.model import delay_levels
    from epochmq.model.host import format_addr
    from epochmq.model.names import SCHEDULE_TOPIC

    levels = delay_levels.DEFAULT
    if message.topic == SCHEDULE_TOPIC:
        config = await admin.broker_config(format_addr(*message.store_host))
        try:
            levels = delay_levels.parse(config.get("messageDelayLevel", ""))
        except ConfigError:
            note("the broker does not tell its delay levels; RocketMQ's are assumed")
    row = describe(message, levels)
    due = row.get("due_ms")
    return {**row, "due": moment(due)} if isinstance(due, int) else row


async def _tracks(admin: "Admin", message: "StoredMessage") -> Row:
    found = await admin.tracks(message)
    return {"tracks": [{"group": t.group, "track": t.kind, "problem": t.problem} for t in found]}


@command.command("find")
@click.argument("topic", shell_complete=complete_topics)
@click.option("-k", "--key", help="One of the message's keys.")
@click.option("-u", "--unique-key", help="The id that the producer gave the message.")
@click.option("--count", type=click.IntRange(1, 1024), default=_COUNT, show_default=True)
@click.option(
    "--since", help="Stored at this time or later: 15m (ago), 2024-05-01T12:00, @1714564800000."
)
@click.option("--until", help="Stored at this time or before.")
@namesrv_option
@output_option
def find_messages(
    topic: str,
    key: str | None,
    unique_key: str | None,
    count: int,
    since: str | None,
    until: str | None,
    namesrv: str,
    output: str,
) -> None:
    """Find messages of TOPIC by a key, or by the id their producer gave."""
    if (key is None) == (unique_key is None):
        raise click.UsageError("give one of --key KEY, --unique-key ID")

    async def work(admin: "Admin") -> list[Row]:
        await route_of(admin, topic)
        if unique_key is not None:
            found = await admin.messages_by_uniq_key(topic, unique_key)
        else:
            now = admin.instance.clock.wall_ms()
            begin = _time(since, now) if since else 0
            end = _time(until, now) if until else (1 << 63) - 1
            found = await admin.messages_by_key(
                topic, key or "", count=count, begin_ms=begin, end_ms=end
            )
        return [row_of(message) for message in found[:count]]

    rows = ask(namesrv, work)
    if not rows:
        raise NotFound(f"no message of topic {topic} has it")
    columns = ("msg_id", "queue_id", "queue_offset", "stored", "tags", "keys", "body")
    show(output, columns, rows if output == JSON else map(_in_a_line, rows))


def _in_a_line(row: Row) -> Row:
    """What strangers wrote made fit for a cell: no line ends, nothing that moves the cursor."""
    from epochmq.admin.shared.java_text import harmless
    from epochmq.admin.shared.output import text_of

    def cell(value: object) -> str:
        text = text_of(value)[:_CELL_CHARS]
        return harmless(text.replace("\n", "\\n").replace("\t", "\\t"))

    return {**row, **{name: cell(row.get(name)) for name in ("msg_id", "tags", "keys", "body")}}


def _time(text: str, now_wall_ms: int) -> int:
    from epochmq.admin.messages.position import PositionKind, parse

    position = parse(text, now_wall_ms)
    if position.kind is not PositionKind.TIME:
        raise UsageError(f"'{text}' is not a time; write 15m, 2024-05-01T12:00 or @1714564800000")
    return position.value


@command.command("trace")
@click.argument("msg_id", metavar="ID")
@click.option(
    "--topic", default="RMQ_SYS_TRACE_TOPIC", show_default=True, help="Topic of the traces."
)
@shows("time", "what", "group", "client", "cost_ms", "ok", title="msg_id")
async def trace(admin: "Admin", msg_id: str, topic: str) -> list[Row]:
    """Show who sent a message and which groups consumed it, as their clients traced it."""
    from epochmq.admin.shared.java_text import moment
    from epochmq.admin.shared.trace_figures import message_trace

    rows = await message_trace(admin, msg_id, topic)
    if not rows:
        raise NotFound(f"no client traced a message with the id {msg_id}")
    return [{"time": moment(each.wall_ms), **each.row()} for each in rows]


@command.command("at")
@click.argument("queue", metavar="TOPIC[@BROKER]:QUEUE")
@click.argument("offset", type=click.IntRange(0))
@namesrv_option
@output_option
def show_at(queue: str, offset: int, namesrv: str, output: str) -> None:
    """Show the message at an offset of a queue, as `orders:0` or `orders@broker-a:0`."""

    async def work(admin: "Admin") -> Row:
        found = await admin.message_in(await _queue(admin, queue), offset)
        return {**row_of(found), **await _state(admin, found)}

    print_detail(output, ask(namesrv, work))


async def _queue(admin: "Admin", text: str) -> "MessageQueue":
    from epochmq.model.topic import MessageQueue

    place, _, number = text.rpartition(":")
    topic, _, broker = place.partition("@")
    if not topic or not number.isdigit():
        raise UsageError(f"'{text}' is not a queue; write TOPIC:QUEUE or TOPIC@BROKER:QUEUE")
    route = await route_of(admin, topic)
    brokers = {data.broker_name: data for data in route.queue_datas}
    if not broker and len(brokers) > 1:
        raise UsageError(f"topic {topic} is on {', '.join(sorted(brokers))}; name one of them")
    name = broker or next(iter(brokers))
    if name not in brokers or int(number) >= brokers[name].read_queue_nums:
        raise NotFound(f"topic {topic} has no queue {number} on {name}")
    return MessageQueue(topic, name, int(number))


def row_of(message: "StoredMessage") -> Row:
    """Everything about a message, as `epochmq consume -o json` has it, and the time in words."""
    from epochmq.admin.messages.printer import as_json
    from epochmq.admin.shared.java_text import moment
    from epochmq.model.host import format_addr

    row: Row = json.loads(as_json(message))
    row["stored"] = moment(message.store_wall_ms)
    row["born_host"] = format_addr(*message.born_host)
    row["store_host"] = format_addr(*message.store_host)
    row["size"] = message.size
    return row


def print_detail(output: str, row: Row) -> None:
    """JSON, or a line for each part and then the body."""
    from epochmq.admin.shared.java_text import harmless
    from epochmq.admin.shared.output import text_of

    if output == JSON:
        print_json(row)
        return
    hidden = ("body", "body_base64", "properties", "born_ms", "stored_ms", "due_ms", "tracks")
    lines = [
        (name.replace("_", " "), value)
        for name, value in row.items()
        if name not in hidden and value not in (None, [])
    ]
    properties = row["properties"]
    assert isinstance(properties, dict)
    lines += [(f"property {name}", value) for name, value in properties.items()]
    tracks = row.get("tracks", [])
    assert isinstance(tracks, list)
    lines += [(f"group {track['group']}", track["track"]) for track in tracks]
    for name, value in lines:
        click.echo(f"{harmless(name) + ':':<28}{harmless(text_of(value))}")
    click.echo()
    if "body" in row:
        click.echo(harmless(str(row["body"])))
    else:
        note("the body is not text; -o json has it in base64")
