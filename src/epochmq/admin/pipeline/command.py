"""The group `epochmq pipeline`: names every job and imports none of them."""

from epochmq.admin.lazy import LazyGroup

JOBS = {
    "archive": ("epochmq.admin.pipeline.archive", "Topics to a lakehouse table, exactly once."),
    "replay": ("epochmq.admin.pipeline.replay", "Messages of a table into a topic."),
    "backfill": ("epochmq.admin.pipeline.backfill", "Ask a table and the live tail as one."),
    "compact": ("epochmq.admin.pipeline.compact", "The latest message of each key, as a table."),
    "audit": ("epochmq.admin.pipeline.audit", "Compare the replicas of a group by digests."),
    "reconcile": ("epochmq.admin.pipeline.reconcile", "Sent, stored, consumed: what is missing?"),
    "dlq": ("epochmq.admin.pipeline.dlq", "Dead letters by cause; send them once more."),
}

command = LazyGroup(
    JOBS,
    {"Jobs": tuple(JOBS)},
    name="pipeline",
    help="Jobs on Spark: archive topics, bring them back, compare and check.",
    epilog="Needs Java 17 and `pip install 'epochmq[spark]'`; tables need 'epochmq[lake]'.",
)
