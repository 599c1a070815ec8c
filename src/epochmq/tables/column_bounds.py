"""Minimum, maximum and number of nulls of the columns of a data file: readers skip files and row
groups by them.

All columns of a suitable type have bounds. delta-rs 1.6 returns no rows at all for a filter on a
column without them (`DeltaTable.to_pyarrow_dataset`).
"""

import math
from datetime import datetime, timedelta
from typing import Any

from epochmq.base.needs import need
from epochmq.tables.archive_table import plain

Stats = dict[str, list[Any]]
"""Column -> [minimum, maximum, number of nulls] as JSON values. Minimum and maximum are None if the
column has only nulls, or a value that no bound can describe. The number is None where Delta's log
does not have it.
"""

TEXT_MAX = 64
"""The longest text that is a bound, in characters; a longer one is cut."""
LAST_CHARACTER = "\U0010ffff"

_US = timedelta(microseconds=1)


class ColumnBounds:
    """Collects the bounds of all columns that can have them, over the batches of one file."""

    def __init__(self) -> None:
        self.found: Stats = {}
        self._unbounded: set[str] = set()

    def add(self, table: Any) -> None:
        """Extend the bounds by the rows of an Arrow table."""
        compute = need("pyarrow.compute", "spark")
        for name in bounded_columns(table.schema):
            column = table.column(name)
            known = self.found.setdefault(name, [None, None, 0])
            known[2] += column.null_count
            limits = compute.min_max(column).as_py()
            if name in self._unbounded or limits["min"] is None:
                continue
            low, high = _low(limits["min"]), _high(limits["max"])
            if low is None or high is None or _has_nan(column):
                self._unbounded.add(name)
                known[:2] = None, None
                continue
            known[0] = low if known[0] is None else min(known[0], low)
            known[1] = high if known[1] is None else max(known[1], high)


def bounded_columns(schema: Any) -> list[str]:
    """Return the names of the columns that can have bounds."""
    return [field.name for field in schema if has_bounds(field.type)]


def footer_columns(schema: Any) -> list[str]:
    """Return the columns whose bounds are written to the footer of Parquet files.

    Not floating-point numbers: readers differ in how they compare a bound with NaN.
    """
    types = need("pyarrow", "spark").types
    return [
        name for name in bounded_columns(schema) if not types.is_floating(schema.field(name).type)
    ]


def has_bounds(kind: Any) -> bool:
    """Return whether all table formats compare values of this Arrow type in the same way."""
    pa = need("pyarrow", "spark")
    types = pa.types
    if types.is_timestamp(kind):
        return bool(kind.tz is not None and kind.unit != "ns")
    return bool(
        (types.is_integer(kind) and kind != pa.uint64())
        or types.is_floating(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_date32(kind)
    )


def _has_nan(column: Any) -> bool:
    pa, compute = need("pyarrow", "spark"), need("pyarrow.compute", "spark")
    return pa.types.is_floating(column.type) and bool(compute.any(compute.is_nan(column)).as_py())


def _low(value: Any) -> Any:
    """Return a JSON value that is not above `value`, or None."""
    return value[:TEXT_MAX] if isinstance(value, str) else _finite(value)


def _high(value: Any) -> Any:
    """Return a JSON value that is not below `value`, or None."""
    if isinstance(value, str):
        if len(value) <= TEXT_MAX:
            return value
        return None if value[TEXT_MAX] == LAST_CHARACTER else value[:TEXT_MAX] + LAST_CHARACTER
    if isinstance(value, datetime):
        value += -value.microsecond % 1000 * _US
    return _finite(value)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else plain(value)
