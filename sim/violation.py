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
        self.text = text
        self.nodes = nodes
        self.offsets = offsets

    def __reduce__(self) -> tuple[type["Violation"], tuple[object, ...]]:
        """Campaigns bring it home from another process."""
        return Violation, (self.rule, self.text, self.nodes, self.offsets)
