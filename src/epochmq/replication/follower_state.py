"""What a master knows of one follower, over all its links."""

from dataclasses import dataclass

NEVER = -1
"""No acknowledgement has come on the present link."""


@dataclass(slots=True)
class FollowerState:
    """A follower by its id. Times are monotonic."""

    lost_at_ms: int
    """Since when it has no link; for one that never had, when this master began."""
    caught_up_at_ms: int
    """When it last had all there was (RIP-44: lastCaughtUpTimeMs)."""
    link: int | None = None
    learner: bool = False
    linked_once: bool = False
    ack: int = NEVER
    """End of its log as it last said; kept when the link breaks, forgotten on the next one."""
    mark_end: int | None = None
    """End of our log at a moment in the past, `mark_at_ms`; an acknowledgement of it tells that
    the follower is behind by no more than the time since (lastMasterMaxOffset)."""
    mark_at_ms: int = 0
    hold_until_ms: int = -(1 << 40)
    """`confirmed` waits for it, as it is about to join; see `InSync`."""

    def sent(self, end: int, now: int) -> None:
        """Log was sent while ours ended at `end`: the next mark, when there is none."""
        if self.mark_end is None:
            self.mark_end, self.mark_at_ms = end, now

    def acked(self, ack: int, end: int, now: int) -> bool:
        """Its log ends at `ack`, ours at `end`. Whether it reached the mark or the end."""
        self.ack = ack
        reached = self.mark_end is not None and ack >= self.mark_end
        if ack >= end:
            self.caught_up_at_ms = now
        elif reached:
            self.caught_up_at_ms = max(self.caught_up_at_ms, self.mark_at_ms)
        if reached:
            self.mark_end = None
        return reached or ack >= end

    def behind(self, end: int, now: int, limit_ms: int) -> bool:
        """Whether it was not caught up for longer than `limit_ms`.

        With nothing to send it is caught up only when it has acknowledged all (H11).
        """
        return self.ack < end and now - self.caught_up_at_ms > limit_ms
