"""Message request modes: whether a group reads a topic by pull or by POP (set with code 401).

File: config/messageRequestMode.json, in the format of the body of code 402.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.state.row_changes import RowChanges, TablePart
from epochmq.broker.state.saved_files import readable
from epochmq.model import names
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.pop_bodies import (
    MODE_POP,
    MODE_PULL,
    MessageRequestMode,
    MessageRequestModeTable,
)
from epochmq.wire.codes import ResponseCode

MODES = (MODE_PULL, MODE_POP)
MODE_BYTES = 256
"""The mode of a group in JSON, about."""


class RequestModes:
    """Request modes by topic and group; a pair without a row has the broker's default."""

    file = "config/messageRequestMode.json"
    replicas_know_deltas: ClassVar[bool] = True
    """They add the rows of an answer, and remove none."""

    def __init__(self) -> None:
        self.dirty = False
        self.changes = RowChanges[str]()
        """Topics whose modes changed, for the copies of replicas."""
        self.table: dict[str, dict[str, MessageRequestMode]] = {}

    def get(self, topic: str, group: str) -> MessageRequestMode | None:
        return self.table.get(topic, {}).get(group)

    def put(self, row: MessageRequestMode) -> None:
        """Set the mode of a topic and group. Raises `Refused`: 16 for a retry topic, 1 else."""
        if names.is_retry_topic(row.topic):
            raise Refused(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if row.mode not in MODES:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"mode is {row.mode[:64]!r}; use {' or '.join(MODES)}"
            )
        known = self.get(row.topic, row.consumer_group)
        if known is None and len(self) >= limits.REQUEST_MODES_MAX:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"this broker has {limits.REQUEST_MODES_MAX} request modes already",
            )
        self.table.setdefault(row.topic, {})[row.consumer_group] = row
        self._changed(row.topic)

    def adopt(self, table: Mapping[str, Mapping[str, MessageRequestMode]]) -> None:
        """Add the rows of the master, as RocketMQ does: no row is ever removed.

        Raises `ValueError` if there are too many rows.
        """
        merged = {topic: {**self.table.get(topic, {}), **rows} for topic, rows in table.items()}
        changed = {topic: rows for topic, rows in merged.items() if rows != self.table.get(topic)}
        if sum(map(len, {**self.table, **changed}.values())) > limits.REQUEST_MODES_MAX:
            raise ValueError(f"more than {limits.REQUEST_MODES_MAX} request modes")
        self.table.update(changed)
        for topic in changed:
            self._changed(topic)

    def __len__(self) -> int:
        return sum(map(len, self.table.values()))

    def _changed(self, topic: str) -> None:
        self.changes.touch(topic)
        self.dirty = True

    def weigh(self, topic: str) -> int:
        """Return the estimated bytes of a topic's modes in JSON."""
        return MODE_BYTES * len(self.table[topic])

    def encode_part(self, part: TablePart[str]) -> bytes:
        """Return the body of GET_ALL_MESSAGE_REQUEST_MODE with the topics of a part."""
        return encode_body(MessageRequestModeTable({t: self.table[t] for t in part.rows}))

    def content(self) -> MessageRequestModeTable:
        """The shape of the file and of GET_ALL_MESSAGE_REQUEST_MODE's body."""
        return MessageRequestModeTable(self.table)

    def encode(self) -> bytes:
        return readable(msgspec.to_builtins(self.content()))

    def load(self, content: dict[str, Any]) -> None:
        """Take over messageRequestMode.json."""
        found = msgspec.convert(content, MessageRequestModeTable, strict=False)
        self.table = found.message_request_mode_map
        self.changes.renew(self.table)
