"""The version of a replicated table: which of two copies is newer (remoting.md 2.4)."""

import msgspec


class DataVersion(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """Ordered by state version (the master's epoch), then counter, then timestamp (wall ms)."""

    state_version: int = 0
    counter: int = 0
    timestamp: int = 0

    def next_version(self, wall: int, state: int = 0) -> "DataVersion":
        """The version after one more change at `wall` under master epoch `state`."""
        return DataVersion(state, self.counter + 1, wall)
