"""The shape of a checker."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.kernel.world import World


class Checker:
    """Looks after every event, hears facts, and judges the whole history at the end.

    A fact is a call of `World.tell`: a checker that has a method of the fact's name gets it.
    """

    rule = "INV-00"

    def observe(self, world: "World") -> None:
        """After every event; `world.touched` is the host it ran on."""

    def finish(self, world: "World") -> None:
        """At the end of the history."""
