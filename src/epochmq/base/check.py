"""Checks that stay on in production; a breach is our bug and stops the node (INV-11 and others)."""

from epochmq.base.errors import OurBug


def check(condition: bool, rule: str) -> None:
    """Raise `OurBug` naming `rule` unless `condition` holds."""
    if not condition:
        raise OurBug(f"invariant broken: {rule}")
