"""The version of a replicated table, which shows which of two copies is newer."""

import msgspec

STEPS_AHEAD = 1_000
"""The changes that a master may have made after its table was copied and before it
died, at most."""


class DataVersion(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """A version, ordered by state version (the master's epoch), counter, timestamp (Unix ms)."""

    state_version: int = 0
    counter: int = 0
    timestamp: int = 0

    def next_version(self, wall: int, state: int = 0) -> "DataVersion":
        """Return the version after one more change at `wall` (Unix ms) under master
        epoch `state`.
        """
        return DataVersion(state, self.counter + 1, wall)

    def leading(self, wall: int) -> "DataVersion":
        """Return a version that is newer than the master's, given the version of a copy of its
        table.
        """
        return DataVersion(self.state_version, self.counter + STEPS_AHEAD, wall)
