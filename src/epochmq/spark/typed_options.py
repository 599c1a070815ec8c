"""Typed columns of `format("rocketmq")`: the options, and what they mean.

A schema of a file or a registry is read once, where Spark plans the query; executors get its text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from epochmq.base.errors import UsageError
from epochmq.spark import columns
from epochmq.spark.option_table import SparkOption, choice, text
from epochmq.spark.schema_registry import SchemaRegistry
from epochmq.spark.typed import (
    FORMATS,
    NOT_TYPED,
    Typing,
    check_names,
    read_schema,
    typing_by_registry,
)

FAIL, COLUMN = "fail", "column"
ERROR_COLUMN = "typedError"
"""Why the body of a row cannot be parsed; a column of `typed.errors=column`."""

TYPED_ROWS: tuple[SparkOption, ...] = (
    SparkOption("typed", choice(*FORMATS), None, "columns from bodies of this format"),
    SparkOption("typed.schema", text, None, "columns, an Avro schema, or @FILE"),
    SparkOption("typed.message", text, "", "Protobuf: full name of the message"),
    SparkOption("typed.prefix", text, "", "prefix of the names of typed columns"),
    SparkOption("typed.errors", choice(FAIL, COLUMN), FAIL, "what a body that does not fit does"),
    SparkOption("typed.registry", text, None, "http://host:port of a schema registry"),
    SparkOption("typed.registry.credentials", text, "", "file with user:password of the registry"),
    SparkOption("typed.subject", text, None, "name in the registry, else TOPIC-value"),
)


@dataclass(frozen=True)
class TypedColumns:
    """The typed columns of a read; plain values, which travel to executors."""

    typing: Typing = NOT_TYPED
    errors: str = FAIL

    def __bool__(self) -> bool:
        return self.typing.format is not None

    def fields(self) -> list[pa.Field]:
        """Return the typed columns, with the column for errors if it is wanted."""
        found = list(self.typing.fields())
        if self and self.errors == COLUMN:
            found.append(pa.field(ERROR_COLUMN, pa.string()))
        return found


def typed_columns(values: Mapping[str, Any], topics: tuple[str, ...]) -> TypedColumns:
    """Return the typed columns for the values of `TYPED_ROWS`; `topics` are those that are read.

    Raises `UsageError` for options that do not fit together, `NotFound` and `EnvironmentFault` for
    a schema that the registry does not have or give.
    """
    format = values["typed"]
    if format is None:
        given = [row.name for row in TYPED_ROWS if values[row.name] != row.default]
        if given:
            raise UsageError(f"{', '.join(given)} without option typed: give it a format of bodies")
        return TypedColumns()
    message = values["typed.message"]
    if format == "protobuf" and not message and values["typed.registry"] is None:
        raise UsageError("typed=protobuf needs typed.message=package.Message, or typed.registry")
    if not re.fullmatch(r"\w*", values["typed.prefix"]):
        raise UsageError("typed.prefix may have letters, digits and _ only")
    schema = values["typed.schema"]
    if schema is not None:
        schema = read_schema(format, schema, "typed.schema")
    prefix, subject = values["typed.prefix"], values["typed.subject"]
    if (registry := _registry(values)) is not None:
        typing = typing_by_registry(registry, format, schema, prefix, subject, topics, message)
    elif schema is not None:
        typing = Typing(format, schema, message, prefix)
    else:
        raise UsageError(f"typed={format} needs typed.schema or typed.registry")
    errors = values["typed.errors"]
    others = [ERROR_COLUMN] if errors == COLUMN else []
    check_names(typing.fields(), [*columns.NAMES, *others])
    return TypedColumns(typing, errors)


def _registry(values: Mapping[str, Any]) -> SchemaRegistry | None:
    url = values["typed.registry"]
    if url is not None:
        return SchemaRegistry(url, values["typed.registry.credentials"])
    for name in ("typed.registry.credentials", "typed.subject"):
        if values[name]:
            raise UsageError(f"{name} without typed.registry has no use")
    return None
