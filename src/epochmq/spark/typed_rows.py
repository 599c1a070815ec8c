"""Adds typed columns to the rows of `format("rocketmq")`. Runs in executors."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa

from epochmq.base.errors import EpochError
from epochmq.spark import columns
from epochmq.spark.typed import Splitter, Typing
from epochmq.spark.typed_options import COLUMN, ERROR_COLUMN, TypedColumns

_NEEDED = ("body", "topic", "brokerName", "queueId", "queueOffset")
"""The body, and where a message is whose body does not fit."""


class UnparsableBody(EpochError):
    """Raised for a message whose body does not fit the schema, with typed.errors=fail."""


def needed_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Return the stored columns that are needed for rows with the columns `names`."""
    stored = [name for name in names if name in columns.ARROW]
    return (*stored, *(name for name in _NEEDED if name not in stored))


def with_typed(
    typed: TypedColumns, names: Sequence[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield each batch with the columns `names`, in this order.

    `batches` have the columns `needed_columns(names)`. Raises `UnparsableBody` for a body that does
    not fit, unless a column shall say so.
    """
    fields = {field.name: field for field in typed.fields()}
    for batch in batches:
        arrays, errors = _splitter(typed.typing).parse(batch.column("body"))
        if typed.errors == COLUMN:
            arrays.append(pa.array(errors, pa.string()))
        else:
            _check(batch, errors)
        found = dict(zip(fields, arrays, strict=True))
        yield pa.RecordBatch.from_arrays(
            [found[name] if name in found else batch.column(name) for name in names],
            schema=pa.schema(
                [fields[name] if name in fields else batch.schema.field(name) for name in names]
            ),
        )


@lru_cache(maxsize=100)
def _splitter(typing: Typing) -> Splitter:
    """Return the parser of this process: a schema is parsed once."""
    return typing.splitter()


def _check(batch: pa.RecordBatch, errors: Sequence[str | None]) -> None:
    at = next((at for at, error in enumerate(errors) if error is not None), None)
    if at is None:
        return
    topic, broker, queue, offset = (batch.column(name)[at].as_py() for name in _NEEDED[1:])
    raise UnparsableBody(
        f"topic {topic}, queue {queue} of broker {broker}: the body at queue offset {offset} does"
        f" not fit the schema: {errors[at]}. typed.errors=column goes on with nulls and says why in"
        f" column {ERROR_COLUMN}"
    )
