"""How long a master may go on acknowledging: until the lease that the controllers gave ends.

A lease counts from before the heartbeat was sent, so it ends here no later than the controllers
think it does, whatever the network did. A controller that knows no leases, which
is RocketMQ's, fences nobody: then there is no end.
"""

from epochmq.broker.group_position import FOREVER


class Lease:
    """The end of the present lease, in monotonic ms; of one master epoch only."""

    def __init__(self) -> None:
        self.until_ms = 0
        self.supported: bool | None = None
        """Whether the controllers give leases; None until one said."""
        self.span_ms = 0
        """Length of the last lease."""
        self._may_hold = False
        """The last lease came with leave to go on past it."""
        self._from_ms = 0
        """What was asked before is no lease."""

    def valid(self, now: int) -> bool:
        return now < self.until_ms

    def begin(self) -> None:
        """A new role or epoch: nothing is granted for it yet."""
        self.until_ms = FOREVER if self.supported is False else 0
        self._may_hold = False

    def granted(self, sent_at_ms: int, span_ms: int, *, may_hold: bool = False) -> None:
        """Longer or not at all: an answer that was overtaken must not shorten it.

        `may_hold`: past its end the master may go on as long as its whole set is behind it.
        """
        if sent_at_ms < self._from_ms:
            return
        self.supported = True
        self.span_ms = span_ms
        self._may_hold = may_hold
        if self.until_ms >= FOREVER:
            self.until_ms = 0
        self.until_ms = max(self.until_ms, sent_at_ms + span_ms)

    def is_supported(self, supported: bool) -> None:
        """The active controller gives leases, or knows none."""
        if supported and self.until_ms >= FOREVER:
            self.until_ms = 0
        elif not supported:
            self.until_ms = FOREVER
        self.supported = supported

    def give_back(self) -> None:
        """Acknowledge nothing more under it, nor past it."""
        self.until_ms = 0
        self._may_hold = False

    def drop(self, now: int) -> None:
        """The clock stood still for a while: a lease asked for before `now` may be over."""
        self._from_ms = now
        if self.until_ms < FOREVER:
            self.give_back()

    @property
    def hold_span_ms(self) -> int:
        """Past its end: how lately each member must have been heard (ADR 0044); 0: it is the end.

        Only in an epoch that a lease was given in.
        """
        return self.span_ms if self._may_hold and 0 < self.until_ms < FOREVER else 0
