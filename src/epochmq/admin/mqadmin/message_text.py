"""A message as RocketMQ's tool prints it: line by line, or in one long line."""

import os
import re
import stat
import tempfile
from pathlib import Path

from epochmq.admin.messages.printer import body
from epochmq.admin.mqadmin.java_text import bytes_of, fields_of, harmless, moment, text_of
from epochmq.base.errors import EnvironmentFault, UsageError
from epochmq.model.host import format_addr
from epochmq.model.message import StoredMessage

_LINE = "{:<20} {}"
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
    """The body as text; `UsageError` for a charset there is none of."""
    try:
        text = body(message).decode(charset, errors="replace")
    except LookupError:
        raise UsageError(f"there is no charset {charset}; write UTF-8, for one") from None
    return _LINE.format("Message Body:", harmless(text))


def save_body(message: StoredMessage, index: int = 0) -> Path:
    """Write the body to a file of its own, as RocketMQ's tool does; where it is.

    The directory is the user's alone: in one that all may write, a link could lead elsewhere.
    """
    directory = _own_directory()
    # A producer chooses its id: nothing but hex digits may become a path.
    named = message.msg_id if _PLAIN_NAME.fullmatch(message.msg_id) else message.offset_msg_id
    path = directory / (f"{named}_{index}" if index else named)
    path.write_bytes(body(message))
    return path


def _own_directory() -> Path:
    directory = Path(tempfile.gettempdir(), f"rocketmq-{os.getuid()}", "msgbodys")
    for each in (directory.parent, directory):
        each.mkdir(mode=0o700, exist_ok=True)
        found = each.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise EnvironmentFault(f"{each} is not a directory of ours; remove it")
    return directory


def one_line(message: StoredMessage, broker_name: str) -> str:
    """`MSGID: ... BODY: ...`, as `consumeMessage` prints."""
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
    text = harmless(body(message).decode(errors="replace"))
    return f"MSGID: {message.msg_id} {fields_of('MessageExt', outer, ' []')} BODY: {text}"
