"""The version of a replicated table: which of two copies is newer."""

import msgspec

STEPS_AHEAD = 1_000
"""So many steps a master may have made since somebody copied its table, and died."""


class DataVersion(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """Ordered by state version (the master's epoch), then counter, then timestamp (wall ms)."""

    state_version: int = 0
    counter: int = 0
    timestamp: int = 0

    def next_version(self, wall: int, state: int = 0) -> "DataVersion":
        """The version after one more change at `wall` under master epoch `state`."""
        return DataVersion(state, self.counter + 1, wall)

    def leading(self, wall: int) -> "DataVersion":
        """Newer than the master's, of whose table this is the version of a copy."""
        return DataVersion(self.state_version, self.counter + STEPS_AHEAD, wall)
