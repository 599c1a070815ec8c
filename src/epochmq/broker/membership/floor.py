"""minInSyncReplicas while the broker runs: the controllers know a lower one before it is used.

While the set is smaller than this number the master acknowledges nothing, so the controllers keep
who left the set eligible (KIP-966). A master that used a lower number than they know would
acknowledge alone while somebody without its messages may be elected cleanly.
"""


class Floor:
    """The number that is wanted, and the highest that the controllers may know."""

    def __init__(self, value: int) -> None:
        self.wanted = value
        self._known = value
        self._highest = 0
        self._last = (0, value)

    @property
    def in_use(self) -> int:
        """Never below what the controllers may know."""
        return max(self.wanted, self._highest)

    @property
    def is_known(self) -> bool:
        """Whether the controllers know what is wanted."""
        return self._known == self.wanted

    def asked(self, number: int) -> None:
        """Registration `number` carries what is wanted; it may be recorded at any time now."""
        self._last = number, self.wanted
        self._highest = max(self._highest, self.wanted)

    def recorded(self, number: int) -> None:
        """Registration `number` succeeded. An older one than the last says nothing for sure."""
        if number == self._last[0]:
            self._known = self._highest = self._last[1]
