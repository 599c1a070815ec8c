"""The group `epochmq pipeline`: names every job and imports none of them."""

from epochmq.admin.lazy import LazyGroup

JOBS = {
    "archive": ("epochmq.admin.pipeline.archive", "Topics to a lakehouse table, exactly once."),
    "audit": ("epochmq.admin.pipeline.audit", "Compare the replicas of a group by digests."),
    "reconcile": ("epochmq.admin.pipeline.reconcile", "Sent, stored, consumed: what is missing?"),
}

command = LazyGroup(
    JOBS,
    {"Jobs": tuple(JOBS)},
    name="pipeline",
    help="Jobs on Spark: archive topics, bring them back, compare and check.",
    epilog="Needs Java 17 and `pip install 'epochmq[spark]'`; tables need 'epochmq[lake]'.",
)
