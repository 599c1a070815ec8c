"""The commit log's positions (start, confirmed, synced ...) and their order (INV-11).

`start <= dispatched <= confirmed <= appended` and `synced <= appended`; `synced` and `confirmed`
have no fixed order. Readers see nothing at or beyond `readable`.
"""

from epochmq.base.errors import check


class Pointers:
    """Byte offsets in the commit log; only the store moves them."""

    __slots__ = ("appended", "confirmed", "dispatched", "reads_bounded", "start", "synced")

    def __init__(self, start: int = 0, appended: int = 0, *, reads_bounded: bool = True) -> None:
        self.start = start
        """Offset of the first byte that is still kept."""
        self.dispatched = appended
        """Consume queues show messages up to this offset."""
        self.confirmed = appended
        """Confirm offset: a failover cannot lose bytes below it; moved by flush or by
        replication.
        """
        self.appended = appended
        """End of the log."""
        self.synced = appended
        """All bytes below this offset are on the device."""
        self.reads_bounded = reads_bounded
        """`Safeguards.read_limit_is_confirmed`; the simulator switches it off."""

    @property
    def readable(self) -> int:
        """Offset up to which readers see the log."""
        if self.dispatched < self.confirmed or not self.reads_bounded:
            return self.dispatched
        return self.confirmed

    def check_order(self) -> None:
        """Check INV-11; a violation is a bug of ours. One comparison in the normal case."""
        if not (
            self.start <= self.dispatched <= self.confirmed <= self.appended
            and self.synced <= self.appended
        ):
            self._explain()

    def _explain(self) -> None:
        check(self.start <= self.dispatched, f"INV-11 start <= dispatched: {self}")
        if self.reads_bounded:
            check(self.dispatched <= self.confirmed, f"INV-11 dispatched <= confirmed: {self}")
        check(self.confirmed <= self.appended, f"INV-11 confirmed <= appended: {self}")
        check(self.synced <= self.appended, f"INV-11 synced <= appended: {self}")

    def __repr__(self) -> str:
        return (
            f"Pointers(start={self.start}, dispatched={self.dispatched}, "
            f"confirmed={self.confirmed}, appended={self.appended}, synced={self.synced})"
        )
