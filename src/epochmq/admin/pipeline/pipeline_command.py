"""The group `epochmq pipeline`: names every job and imports none of them."""

from epochmq.admin.shared.exits import LazyGroup

JOBS = {
    "archive": (
        "epochmq.admin.pipeline.archive_command",
        "Topics to a lakehouse table, exactly once.",
    ),
    "replay": ("epochmq.admin.pipeline.replay_command", "Messages of a table into a topic."),
    "backfill": (
        "epochmq.admin.pipeline.backfill_command",
        "Ask a table and the live tail as one.",
    ),
    "compact": (
        "epochmq.admin.pipeline.compact_command",
        "The latest message of each key, as a table.",
    ),
    "upsert": (
        "epochmq.admin.pipeline.upsert_command",
        "The latest message of each key, kept up to date as a table.",
    ),
    "verify": (
        "epochmq.admin.pipeline.verify_command",
        "Check a table: files, rows, bodies, against its topics.",
    ),
    "repair": (
        "epochmq.admin.pipeline.repair_command",
        "Restore damaged files of a table from a copy or its topics.",
    ),
    "audit": (
        "epochmq.admin.pipeline.audit_command",
        "Compare the replicas of a group by digests.",
    ),
    "reconcile": (
        "epochmq.admin.pipeline.reconcile_command",
        "Sent, stored, consumed: what is missing?",
    ),
    "dlq": ("epochmq.admin.pipeline.dlq_command", "Dead letters by cause; send them once more."),
}
TOOLS = {
    "package": (
        "epochmq.admin.pipeline.package_command",
        "EpochMQ as one file for a Spark cluster without it.",
    ),
    "kubernetes": (
        "epochmq.admin.pipeline.kubernetes_command",
        "Pod templates and settings for Spark on Kubernetes.",
    ),
}

command = LazyGroup(
    {**JOBS, **TOOLS},
    {"Jobs": tuple(JOBS), "Clusters": tuple(TOOLS)},
    name="pipeline",
    help="Jobs on Spark: archive topics, bring them back, compare and check.",
    epilog="Needs Java 17 and `pip install 'epochmq[spark]'`; tables need 'epochmq[lake]'.",
)
