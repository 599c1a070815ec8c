"""What the page about jobs of the pipeline shows."""

from dataclasses import asdict

from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.paging import Row
from epochmq.admin.messages.following import merged, spans_of
from epochmq.admin.messages.position import PositionKind, StartPosition
from epochmq.base.errors import EpochError, NotFound
from epochmq.spark.jobs.job_status import (
    REPORT_S,
    RUNNING,
    TOPIC,
    JobStatus,
    decode_status,
    latest_by_job,
)

READ_MAX = 1_000
"""Reports of each queue that are read."""
SILENT_MS = int(6 * REPORT_S * 1_000)
"""A job that runs and has not reported for this time is shown as silent."""


async def job_list(client: ClusterClient, now_wall_ms: int) -> Row:
    """Return the latest report of each job, and whether jobs report at all.

    Args:
        client: connections to the cluster.
        now_wall_ms: the time, Unix milliseconds.
    """
    try:
        spans = await spans_of(client.consumer, TOPIC, StartPosition(PositionKind.BACK, READ_MAX))
    except NotFound:
        return {"topic": TOPIC, "is_there": False, "rows": []}
    found: list[JobStatus] = []
    async for message in merged(client.consumer, spans, "*"):
        try:
            status = decode_status(message.plain_body())
        except EpochError:
            continue  # somebody wrote something else into the topic
        if status is not None:
            found.append(status)
    rows = [job_row(each, now_wall_ms) for each in latest_by_job(found)]
    return {"topic": TOPIC, "is_there": True, "rows": rows}


def job_row(status: JobStatus, now_wall_ms: int) -> Row:
    """Return one job; a running one that does not report any more is silent."""
    is_silent = status.state == RUNNING and now_wall_ms - status.wall_ms >= SILENT_MS
    return {**asdict(status), "state": "silent" if is_silent else status.state}
