"""`queryMsgById`, `queryMsgByKey`, `queryMsgByUniqueKey`, `queryMsgByOffset`."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochmq.admin.messages.printer import as_json, body
from epochmq.admin.mqadmin.running import Out, flag, mq_command, opt
from epochmq.admin.shared.export_file import own_directory
from epochmq.admin.shared.java_text import bytes_of, fields_of, harmless, moment, text_of
from epochmq.base.errors import NotFound, UsageError
from epochmq.model.host import format_addr
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import MessageQueue

if TYPE_CHECKING:
    from epochmq.client.aio import Admin, SendResult


# Message text --------------------------------------------------------------------------------
# A message as RocketMQ's tool prints it: line by line, or in one long line.


_LINE = "{:<20} {}"
NOT_PRINTED = "NOT PRINT BODY"
"""RocketMQ's text in place of a body that is not printed."""
_PLAIN_NAME = re.compile(r"[0-9A-Za-z]{1,64}")


def detail_lines(message: StoredMessage, *, with_id: bool) -> list[str]:
    """Everything about a message but its body, one line each."""
    keys = " ".join(message.keys) or None
    values = {
        "Topic": message.topic,
        "Tags": f"[{text_of(message.tags)}]",
        "Keys": f"[{text_of(keys)}]",
        "Queue ID": message.queue_id,
        "Queue Offset": message.queue_offset,
        "CommitLog Offset": message.offset,
        "Reconsume Times": message.reconsume_times,
        "Born Timestamp": moment(message.born_wall_ms),
        "Store Timestamp": moment(message.store_wall_ms),
        "Born Host": format_addr(*message.born_host),
        "Store Host": format_addr(*message.store_host),
        "System Flag": message.sys_flag,
        "Properties": text_of(message.properties),
    }
    head = [_LINE.format("OffsetID:", message.offset_msg_id)] if with_id else []
    return head + [_LINE.format(f"{name}:", value) for name, value in values.items()]


def body_path_line(path: Path) -> str:
    return _LINE.format("Message Body Path:", path)


def body_line(message: StoredMessage, charset: str) -> str:
    return _LINE.format("Message Body:", body_text(message, charset))


def body_text(message: StoredMessage, charset: str) -> str:
    """Return the body as text. Raises `UsageError` for an unknown charset."""
    try:
        return harmless(body(message).decode(charset, errors="replace"))
    except LookupError:
        raise UsageError(f"charset {charset} is not known; write UTF-8, for example") from None


def save_body(message: StoredMessage, index: int = 0) -> Path:
    """Write the body to a file of its own, as RocketMQ's tool does; return where it is."""
    directory = own_directory("msgbodys")
    # A producer chooses its id: nothing but hex digits may become a path.
    named = message.msg_id if _PLAIN_NAME.fullmatch(message.msg_id) else message.offset_msg_id
    path = directory / (f"{named}_{index}" if index else named)
    path.write_bytes(body(message))
    return path


def one_line(message: StoredMessage, broker_name: str, text: str) -> str:
    """Return `MSGID: ... BODY: TEXT`, as `consumeMessage` and `printMsg` print a message."""
    inner = {
        "topic": f"'{message.topic}'",
        "flag": message.flag,
        "properties": message.properties,
        "body": bytes_of(body(message)),
        "transactionId": "'null'",
    }
    outer: dict[str, object] = {
        "brokerName": broker_name,
        "queueId": message.queue_id,
        "storeSize": message.size,
        "queueOffset": message.queue_offset,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_wall_ms,
        "bornHost": "/" + format_addr(*message.born_host),
        "storeTimestamp": message.store_wall_ms,
        "storeHost": "/" + format_addr(*message.store_host),
        "msgId": message.offset_msg_id,
        "commitLogOffset": message.offset,
        "bodyCRC": message.body_crc,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_offset,
        "toString()": fields_of("Message", inner, "{}"),
    }
    return f"MSGID: {message.msg_id} {fields_of('MessageExt', outer, ' []')} BODY: {text}"


# Queries -------------------------------------------------------------------------------------


_FOUND = "{:<50} {:>4} {:>40}"
_TOPIC = opt("t", "topic", "The topic.", required=True)
_GROUP = opt("g", "consumerGroup", "With -d: have a member of this group consume it now.")
_CLIENT = opt("d", "clientId", "With -g: that member.")
_CLUSTER = opt("c", "cluster", "Brokers of one cluster only.")
_FORMAT = opt("f", "bodyFormat", "Print the body as text in this charset.")
_LONG_MAX = (1 << 63) - 1


@mq_command(
    "queryMsgById",
    _TOPIC,
    opt("i", "msgId", "One id or more, joined by commas.", required=True),
    _GROUP,
    _CLIENT,
    opt("s", "sendMessage", "true sends it again.", bool),
    opt("u", "unitName", "Taken and not needed."),
    _FORMAT,
    _CLUSTER,
)
async def query_msg_by_id(
    admin: "Admin",
    out: Out,
    topic: str,
    msg_id: str,
    consumer_group: str | None,
    client_id: str | None,
    send_message: bool | None,
    unit_name: str | None,
    body_format: str | None,
    cluster: str | None,
) -> None:
    """Print messages by their client's or their offset id, or have them consumed, or resend."""
    _check_pair(consumer_group, client_id)
    for each in filter(None, (part.strip() for part in msg_id.split(","))):
        message = await admin.message(topic, each, cluster=cluster)
        if consumer_group and client_id:
            await _push(admin, out, message, consumer_group, client_id)
        elif send_message:
            await _resend(admin, out, message)
        elif send_message is None:
            await _print_one(admin, out, message, body_format)


def _check_pair(group: str | None, client: str | None) -> None:
    if (group is None) != (client is None):
        raise click.UsageError("-g CONSUMERGROUP and -d CLIENTID go together")


async def _print_one(admin: "Admin", out: Out, message: StoredMessage, charset: str | None) -> None:
    lines = detail_lines(message, with_id=True)
    if not out.as_json:
        lines.append(body_path_line(save_body(message)))
        if charset is not None:
            lines.append(body_line(message, charset))
    await _print_with_tracks(admin, out, message, lines)


async def _print_with_tracks(
    admin: "Admin", out: Out, message: StoredMessage, lines: list[str]
) -> None:
    tracks = await admin.tracks(message)
    for line in (*lines, "", ""):
        out.line(line)
    for track in tracks:
        values = {
            "consumerGroup": track.group,
            "trackType": track.kind,
            "exceptionDesc": track.problem,
        }
        out.line(fields_of("MessageTrack", values, " []"))
    if not tracks:
        out.line("WARN: No Consumer")
    shown = [{"group": t.group, "track": t.kind, "problem": t.problem} for t in tracks]
    out.row({**json.loads(as_json(message)), "tracks": shown})


async def _push(admin: "Admin", out: Out, message: StoredMessage, group: str, client: str) -> None:
    address = format_addr(*message.store_host)
    result = await admin.consume_directly(
        address, group, client, message.topic, message.offset_msg_id
    )
    values: dict[str, object] = {
        "order": result.order,
        "autoCommit": result.auto_commit,
        "consumeResult": result.consume_result or None,
        "remark": result.remark or None,
        "spentTimeMills": result.spent_time_mills,
    }
    text = fields_of("ConsumeMessageDirectlyResult", values, " []")
    out.line(text, {"msg_id": message.msg_id, **values})


async def _resend(admin: "Admin", out: Out, message: StoredMessage) -> None:
    from epochmq.client.aio import Producer

    again = Message(
        message.topic, message.plain_body(), properties=dict(message.properties), flag=message.flag
    )
    async with Producer(";".join(admin.name_servers), "ReSendMsgById") as producer:
        sent = await producer.send(again)
    text = f"prepare resend msg. originalMsgId={message.msg_id}"
    out.line(text + _sent_text(sent), {"msg_id": sent.msg_id, "offset_msg_id": sent.offset_msg_id})


def _sent_text(sent: "SendResult") -> str:
    queue = {
        "topic": sent.queue.topic,
        "brokerName": sent.queue.broker_name,
        "queueId": sent.queue.queue_id,
    }
    values = {
        "sendStatus": sent.status.value,
        "msgId": sent.msg_id,
        "offsetMsgId": sent.offset_msg_id,
        "messageQueue": fields_of("MessageQueue", queue, " []"),
        "queueOffset": sent.queue_offset,
        "recallHandle": None,
    }
    return fields_of("SendResult", values, " []")


@mq_command(
    "queryMsgByKey",
    _TOPIC,
    opt("k", "msgKey", "The key.", required=True),
    opt("b", "beginTimestamp", "Stored at this time (ms) or later.", int, default=0),
    opt("e", "endTimestamp", "Stored at this time (ms) or before.", int, default=_LONG_MAX),
    opt("m", "maxNum", "At most so many of each broker.", click.IntRange(1), default=64),
    _CLUSTER,
)
async def query_msg_by_key(
    admin: "Admin",
    out: Out,
    topic: str,
    msg_key: str,
    begin_timestamp: int,
    end_timestamp: int,
    max_num: int,
    cluster: str | None,
) -> None:
    """Print ids and places of messages with a key."""
    found = await admin.messages_by_key(
        topic,
        msg_key,
        count=max_num,
        begin_ms=begin_timestamp,
        end_ms=end_timestamp,
        cluster=cluster,
    )
    if not found:
        raise NotFound(f"no message of topic {topic} has the key {msg_key}")
    out.line(_FOUND.format("#Message ID", "#QID", "#Offset"))
    for message in found:
        line = _FOUND.format(message.msg_id, message.queue_id, message.queue_offset)
        out.line(line, json.loads(as_json(message)))


@mq_command(
    "queryMsgByUniqueKey",
    _TOPIC,
    opt("i", "msgId", "The id that the producer gave the message.", required=True),
    _GROUP,
    _CLIENT,
    flag("a", "showAll", "All messages with it, up to 32."),
    _CLUSTER,
)
async def query_msg_by_unique_key(
    admin: "Admin",
    out: Out,
    topic: str,
    msg_id: str,
    consumer_group: str | None,
    client_id: str | None,
    show_all: bool,
    cluster: str | None,
) -> None:
    """Print messages by the id their producer gave, or have one consumed."""
    _check_pair(consumer_group, client_id)
    found = await admin.messages_by_uniq_key(topic, msg_id, cluster=cluster)
    if not found:
        raise NotFound(f"no message of topic {topic} has the id {msg_id}")
    if consumer_group and client_id:
        await _push(admin, out, found[0], consumer_group, client_id)
        return
    for index, message in enumerate(found if show_all else found[:1]):
        lines = detail_lines(message, with_id=False)
        if not out.as_json:
            path = save_body(message, index)
            lines.append(body_path_line(path))
        await _print_with_tracks(admin, out, message, lines)


@mq_command(
    "queryMsgByOffset",
    _TOPIC,
    opt("b", "brokerName", "The broker's name.", required=True),
    opt("i", "queueId", "The queue's id.", click.IntRange(0), required=True),
    opt("o", "offset", "The offset in the queue.", click.IntRange(0), required=True),
    _FORMAT,
)
async def query_msg_by_offset(
    admin: "Admin",
    out: Out,
    topic: str,
    broker_name: str,
    queue_id: int,
    offset: int,
    body_format: str | None,
) -> None:
    """Print the message at an offset of a queue."""
    known = await admin.brokers_of(topic)
    if broker_name not in known:
        raise UsageError(f"topic {topic} is not on {broker_name}; it is on {', '.join(known)}")
    message = await admin.message_in(MessageQueue(topic, broker_name, queue_id), offset)
    await _print_one(admin, out, message, body_format)


COMMANDS = {
    "queryMsgById": query_msg_by_id,
    "queryMsgByKey": query_msg_by_key,
    "queryMsgByUniqueKey": query_msg_by_unique_key,
    "queryMsgByOffset": query_msg_by_offset,
}
