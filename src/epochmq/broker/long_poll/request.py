"""A pull request as it is kept while it waits: everything its second execution needs."""

from collections.abc import Callable

from epochmq.wire.session import Session


class PullRequest:
    """`offset` moves on when a held request is woken by messages its filter does not want.

    `accept` takes a consume-queue unit's tags code, `verify` a whole record; None lets all pass.
    """

    __slots__ = (
        "accept",
        "binary",
        "deadline",
        "group",
        "group_sys_flag",
        "max_count",
        "offset",
        "opaque",
        "queue_id",
        "session",
        "slow_broker",
        "suggested_broker",
        "topic",
        "topic_sys_flag",
        "verify",
    )

    def __init__(
        self,
        session: Session,
        opaque: int,
        *,
        group: str,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
    ) -> None:
        self.session = session
        self.opaque = opaque
        self.binary = False
        """Whether the request came with a binary header, as its answer then must."""
        self.group = group
        self.topic = topic
        self.queue_id = queue_id
        self.offset = offset
        self.max_count = max_count
        self.accept: Callable[[int], bool] | None = None
        self.verify: Callable[[memoryview], bool | None] | None = None
        self.topic_sys_flag = 0
        self.group_sys_flag = 0
        self.suggested_broker = 0
        self.slow_broker = 0
        """The replica suggested to who reads what lies far back; 0 is the master."""
        self.deadline = 0
        """Monotonic ms until which it may be held; 0 when it may not."""
