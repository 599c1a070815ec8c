"""Offset index: which groups have offsets in a topic, and in which topics a group has offsets."""

from collections.abc import Iterable

SEPARATOR = "@"
"""Between topic and group in the name of a row."""


class OffsetIndex:
    """The rows `topic@group` of the table of consumer offsets, by topic and by group."""

    __slots__ = ("_groups", "_topics")

    def __init__(self, rows: Iterable[str]) -> None:
        self._groups: dict[str, dict[str, None]] = {}
        self._topics: dict[str, dict[str, None]] = {}
        for row in rows:
            self.add(row)

    def add(self, row: str) -> None:
        topic, _, group = row.partition(SEPARATOR)
        self._groups.setdefault(topic, {})[group] = None
        self._topics.setdefault(group, {})[topic] = None

    def remove(self, row: str) -> None:
        """Remove a row; it must be in the index."""
        topic, _, group = row.partition(SEPARATOR)
        for names, key, name in (
            (self._groups, topic, group),
            (self._topics, group, topic),
        ):
            del names[key][name]
            if not names[key]:
                del names[key]

    def groups_of(self, topic: str) -> set[str]:
        """Return the groups that have offsets in the topic."""
        return set(self._groups.get(topic, ()))

    def topics_of(self, group: str) -> set[str]:
        """Return the topics in which the group has offsets."""
        return set(self._topics.get(group, ()))
