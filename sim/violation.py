"""What a checker raises: one broken rule, who is concerned, and at which offsets or indexes."""


class Violation(Exception):
    """A rule of docs/INVARIANTS.md does not hold; ends the history."""

    def __init__(
        self, rule: str, text: str, nodes: tuple[str, ...] = (), offsets: tuple[int, ...] = ()
    ) -> None:
        where = f" [{', '.join(nodes)}]" if nodes else ""
        at = f" at {', '.join(map(str, offsets))}" if offsets else ""
        super().__init__(f"{rule}: {text}{where}{at}")
        self.rule = rule
        self.nodes = nodes
        self.offsets = offsets
