"""The exception that checkers raise: a violated rule, with its nodes and offsets or indexes."""


class Violation(Exception):
    """Raised when a rule of docs/INVARIANTS.md does not hold; ends the history."""

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
        """Make the exception picklable, for campaigns in other processes."""
        return Violation, (self.rule, self.text, self.nodes, self.offsets)
