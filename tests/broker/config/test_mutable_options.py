"""Each option that may change at runtime is read while the broker runs, not at its start alone."""

import ast
from functools import cache
from pathlib import Path

import pytest

import epochmq
from epochmq.base.options import OptionRow, describe
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.config.replica_keys import ReplicaKeys

SOURCES = Path(epochmq.__file__).parent
AT_THE_START = frozenset(
    {"__init__", "_wishes", "_resolved", "resolve", "reach_warnings", "acting_warnings"}
)
"""Functions that run once: what they alone read is fixed until the next start."""

OTHERS = {row.key for row in describe(ReplicaKeys)}  # adopted as a whole by replication
MUTABLE = [row for row in describe(BrokerOptions) if row.mutable and row.key not in OTHERS]


def reads_in(tree: ast.AST, function: str = "") -> set[tuple[str, str]]:
    """(attribute, function it is read in) of a module."""
    found = set()
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.add((node.attr, inner))
        found |= reads_in(node, inner)
    return found


@cache
def all_reads() -> dict[str, set[str]]:
    """Functions by the attribute that they read, of the broker, the store and the metrics."""
    found: dict[str, set[str]] = {}
    for folder in ("broker", "store", "replication", "observe"):
        for path in (SOURCES / folder).rglob("*.py"):
            for attribute, function in reads_in(ast.parse(path.read_text())):
                found.setdefault(attribute, set()).add(function)
    return found


@pytest.mark.parametrize("row", MUTABLE, ids=lambda row: row.key)
def test_it_is_read_at_runtime(row: OptionRow) -> None:
    readers = all_reads().get(row.field, set())
    assert readers - AT_THE_START, f"{row.key} may change, but is read in {readers or 'no place'}"


def test_there_are_such_options() -> None:
    assert len(MUTABLE) > 30
