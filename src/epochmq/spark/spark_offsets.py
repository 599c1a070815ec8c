"""The offsets of streaming queries in Spark's checkpoints, and JSON texts of users."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from epochmq.base.errors import UsageError
from epochmq.model.queue_offsets import Offsets, by_topic, check_offset, from_topics
from epochmq.model.topic import MessageQueue

EARLIEST, LATEST = -2, -1
"""Values in place of an offset, as in Spark's Kafka source."""

VERSION = 1
TEXT_LENGTH_MAX = 16 << 20


def load(text: str) -> Any:
    """Parse a user's JSON text; raises `UsageError` with the place of the error."""
    if len(text) > TEXT_LENGTH_MAX:
        raise UsageError(f"a JSON text of more than {TEXT_LENGTH_MAX} characters")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is not JSON ({error})") from None


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The offset of a streaming query: the next queue offset of every queue that it has seen.

    `init` has the begin of the batch that ends at this offset, for queues whose begin is not in the
    offset before. `fresh` marks the position from which a query is planned before its first batch
    is in the checkpoint. Spark does not store the start position of Python sources. If the position
    is `latest` or a time, and the first batch fails, resolving it again would give another position
    and lose the messages between them. The end offset of the first batch therefore contains it.

    `newest` is the newest store time (wall ms) of each topic. After a restart it shows whether a
    topic was deleted and created again.
    """

    at: Offsets
    init: Offsets = field(default_factory=dict)
    fresh: bool = False
    newest: dict[str, int] = field(default_factory=dict)

    def begin_of(self, before: "StreamOffset", queue: MessageQueue) -> int | None:
        """Return where the batch from `before` to here begins in `queue`; None if it does not
        include it.
        """
        found = self.init.get(queue)
        return before.at.get(queue) if found is None else found

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value for Spark's checkpoint; equal offsets give equal texts."""
        table: dict[str, Any] = {"version": VERSION, "offsets": by_topic(self.at)}
        if self.init:
            table["init"] = by_topic(self.init)
        if self.fresh:
            table["fresh"] = True
        if self.newest:
            table["newest"] = dict(sorted(self.newest.items()))
        return table

    @classmethod
    def from_json(cls, table: Any) -> "StreamOffset":
        """Parse a JSON value of a checkpoint; raises `UsageError` for other sources and later
        versions.
        """
        if not isinstance(table, dict) or table.get("version") != VERSION:
            raise UsageError(
                "the checkpoint's offsets are not of this source, or of a later version of it:"
                f" {str(table)[:120]}"
            )
        return cls(
            from_topics(table.get("offsets")),
            from_topics(table.get("init", {})),
            table.get("fresh") is True,
            _times(table.get("newest", {})),
        )


def _times(table: Any) -> dict[str, int]:
    if not isinstance(table, dict):
        raise UsageError(f"times must be an object by topic, not {str(table)[:80]!r}")
    return {topic: check_offset(topic, "(time)", ms, 0) for topic, ms in table.items()}


def topics_of(queues: Iterable[MessageQueue]) -> list[str]:
    """Return the topics of `queues`, sorted."""
    return sorted({queue.topic for queue in queues})
