"""The tables of a broker that a backup holds, and how they are read from the master.

They are the tables that a replica copies (`broker/group/metadata_sync.py`), in the form of their
files. Queues, index, timer wheel and the progress of Spark sinks are derived from the log.
"""

from typing import Any

import msgspec

from epochmq.base.errors import EpochError, PeerError
from epochmq.model.saved_file import seal
from epochmq.store.timer import timer_checkpoint
from epochmq.wire import json_tolerant
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command

TOPICS = "config/topics.json"
CONFIGURATION = {
    TOPICS: RequestCode.GET_ALL_TOPIC_CONFIG,
    "config/subscriptionGroup.json": RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    "config/messageRequestMode.json": RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    "config/accounts.json": RequestCode.GET_ALL_ACCOUNTS,
}
"""What people configure. It is read after the log: the log may have messages of a new topic."""
PROGRESS = {
    "config/consumerOffset.json": RequestCode.GET_ALL_CONSUMER_OFFSET,
    "config/delayOffset.json": RequestCode.GET_ALL_DELAY_OFFSET,
    "config/consumerOrderInfo.json": RequestCode.GET_ALL_CONSUMER_ORDER_INFO,
    timer_checkpoint.FILE: RequestCode.GET_TIMER_CHECK_POINT,
}
"""How far consumers and the broker's own services are. It is read before the end of the log, so
that it never leads past it."""
ALL = {**CONFIGURATION, **PROGRESS}


def encode_table(content: dict[str, Any]) -> bytes:
    """Return the content of a table file in JSON."""
    return msgspec.json.format(json_tolerant.dumps(content), indent=2)


def checkpoint_of(answer: Command) -> bytes | None:
    """Return the content of the timer's checkpoint file from the answer of a broker.

    Returns None if the broker has no timer. Raises `PeerError` if the answer is no checkpoint.
    """
    if answer.code != ResponseCode.SUCCESS:
        return None
    body = bytes(answer.body)
    if timer_checkpoint.decode(body) is None:
        code = RequestCode.GET_TIMER_CHECK_POINT
        raise PeerError(f"the answer to request {code} is not a timer checkpoint")
    return body


def topics_of(table: bytes) -> set[str]:
    """Return the names in the content of topics.json."""
    content = json_tolerant.loads(table)
    return set(content.get("topicConfigTable") or {}) if isinstance(content, dict) else set()


def file_of(path: str, table: bytes) -> bytes:
    """Return the bytes of the table file `path`; JSON gets the checksum that brokers expect.

    Raises `EpochError` if a backup has a table that a broker does not keep in this file.
    """
    if path not in ALL:
        raise EpochError(f"the backup has a table for {path}, which this release does not know")
    return table if path == timer_checkpoint.FILE else seal(table)
