"""INV-04: at one index every state machine applies one command and comes to one state.

Also: a confirmed read sees everything that anybody had applied when it was asked for.
"""

from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation


class StateMachineSafety(Checker):
    """Hears of everything applied, restored and read."""

    rule = "INV-04"

    def __init__(self) -> None:
        self.applied: dict[int, tuple[int, bytes]] = {}
        self.hashes: dict[int, int] = {}
        self.highest = 0
        """Of all indexes that anybody applied."""

    def machine_applied(self, host: Host, index: int, term: int, data: bytes, state: int) -> None:
        known = self.applied.setdefault(index, (term, data))
        if known != (term, data):
            text = f"two commands, of terms {known[0]} and {term}"
            raise Violation(self.rule, text, (host.name,), (index,))
        self._compare(host, index, state)
        self.highest = max(self.highest, index)

    def machine_restored(self, host: Host, index: int, state: int) -> None:
        self._compare(host, index, state)

    def _compare(self, host: Host, index: int, state: int) -> None:
        if self.hashes.setdefault(index, state) != state:
            raise Violation(self.rule, "the states differ", (host.name,), (index,))

    def read_confirmed(self, host: Host, needed: int, applied: int) -> None:
        if applied < needed:
            text = f"a read saw {applied}, {needed} was applied before it was asked for"
            raise Violation(self.rule, text, (host.name,), (needed,))
