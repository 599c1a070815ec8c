"""The values that mean "no bound": each is beyond every real value of its kind."""

FOREVER = 1 << 62
"""An instant in ms that never comes: no deadline, a lease without end, the end of all time. With a
duration added it still fits 64 bits."""

UNLIMITED = 1 << 62
"""An offset, a count or a size in bytes that nothing reaches: read to the end, as much as there
is."""

LONG_MAX = (1 << 63) - 1
"""Java's `Long.MAX_VALUE`: the largest value of a 64-bit field, and what RocketMQ's protocol sends
where a field has no bound."""
