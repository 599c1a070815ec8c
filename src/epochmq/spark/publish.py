"""A Spark listener that commits a streaming query's offsets as those of a consumer group.

`consumerProgress` and exporters read the offsets of consumer groups from brokers, but Spark keeps
offsets in its checkpoint only. The option `groupId` publishes offsets from within the source. This
listener does the same from outside, for queries that were started without the option, and once
more when a query ends: Spark does not notify a source that its last batch is done.
"""

import json
import logging
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from epochmq.base.errors import EpochError, UsageError
from epochmq.model.queue_offsets import Offsets
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.spark_cluster import Cluster
from epochmq.spark.spark_offsets import StreamOffset

log = logging.getLogger(__name__)

TIMEOUT_MS = 10_000


class PublishOffsets(StreamingQueryListener):
    """Commits end offsets as those of consumer group `group`, after each batch that changes them.

        spark.streams.addListener(PublishOffsets("127.0.0.1:9876", "flights-etl"))

    With `query` it handles only the query of that name: two queries that read one topic need a
    group each. Errors are logged and never affect the query.
    """

    def __init__(
        self,
        name_server: str,
        group: str,
        query: str | None = None,
        tls: OutgoingTls | None = None,
    ) -> None:
        self._query = query
        self._group = group
        self._cluster = Cluster(name_server, failover_timeout_ms=TIMEOUT_MS, tls=tls)
        self._published: Offsets = {}
        self._failed: Offsets = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        return

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        if self._query is None or progress.name == self._query:
            self._publish(end_offsets(source.endOffset for source in progress.sources))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self._publish({})

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._publish({})

    def close(self) -> None:
        """Close the connections; call this after `removeListener`."""
        self._cluster.close()

    def _publish(self, offsets: Offsets) -> None:
        """Commit the offsets that changed, and those whose commit failed before."""
        wanted = {**self._failed, **offsets}
        moved = {q: at for q, at in wanted.items() if self._published.get(q) != at}
        if not moved:
            return
        try:
            self._cluster.commit_all(self._group, moved)
            self._published.update(moved)
            self._failed = {}
        except EpochError as error:
            self._failed = moved
            log.warning(
                "offsets of group %(group)s are not published: %(error)s",
                {"group": self._group, "error": error},
            )


def end_offsets(texts: Any) -> Offsets:
    """Return the offsets in the JSON texts of a query's progress; skip offsets of other sources."""
    found: Offsets = {}
    for text in texts:
        try:
            found.update(StreamOffset.from_json(json.loads(text or "null")).at)
        except (ValueError, TypeError, UsageError):
            continue
    return found
