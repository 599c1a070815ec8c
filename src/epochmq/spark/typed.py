"""Parses message bodies to typed columns: the options, and how a batch is split.

Each format is a function body -> {column: value}, which rejects a body with a reason. Columns are
nullable: a field that a body lacks is null.
"""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from epochmq.base.errors import UsageError
from epochmq.base.needs import need
from epochmq.spark.schema_registry import SchemaRegistry

ERROR = "error"
"""Column of the dead-letter table: why the body cannot be parsed."""
ERROR_LENGTH_MAX = 500
SCHEMA_BYTES_MAX = 4 << 20
FORMATS = ("json", "avro", "protobuf")
_MODULES = {
    "json": "epochmq.spark.typed_json",
    "avro": "epochmq.spark.typed_avro",
    "protobuf": "epochmq.spark.typed_protobuf",
}

ParseBody = Callable[[bytes], dict[str, Any]]
"""Parses a body; raises `Unparsable` for one that does not match."""
Split = Callable[[Any], tuple[Any, Any]]
"""RecordBatch -> (the rows that match, with typed columns; the others, with `error`)."""


class Unparsable(ValueError):
    """Raised for a body that does not match its schema."""


@dataclass(frozen=True)
class Typing:
    """Options of typed columns; plain values, pickled to executors, which create their own
    parsers.
    """

    format: str | None = None
    schema: str = ""
    """Columns ("carrier string, delay double") for JSON, an Avro schema, or a descriptor set in
    base 64.
    """
    message: str = ""
    """The full name of the Protobuf message."""
    prefix: str = ""
    """The prefix of the names of typed columns."""
    registry: SchemaRegistry | None = None
    """Where the schemas are that bodies name; None: bodies have the schema above."""

    def fields(self) -> list[Any]:
        """Return the typed columns as `pyarrow.Field`s."""
        if self.format is None:
            return []
        pa = need("pyarrow", "spark")
        found = _format(self).fields(self)
        return [pa.field(self.prefix + each.name, each.type) for each in found]

    def parser(self) -> Split:
        """Return a function that splits batches; without a format all rows match."""
        return self.splitter() if self.format is not None else lambda batch: (batch, None)

    def splitter(self) -> "Splitter":
        """Return the parser of batches of this format."""
        return Splitter(self.fields(), _format(self).parser(self), self.prefix)


NOT_TYPED = Typing()


def _format(typing: Typing) -> Any:
    if typing.format not in _MODULES:
        raise UsageError(f"'{typing.format}' is not a format of bodies: use {', '.join(_MODULES)}")
    return import_module(_MODULES[typing.format])


def read_schema(format: str, schema: str, option: str) -> str:
    """Return the text of a schema, which is read from FILE if it is given as `@FILE`.

    The descriptor set of Protobuf is binary: it is returned in base 64. Raises `UsageError`, which
    names the `option`, for a file that cannot be read, that is too large or that is not text.
    """
    if not schema.startswith("@"):
        return schema
    file = Path(schema[1:])
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{option}: {file} cannot be read: {error.strerror}") from None
    if len(data) > SCHEMA_BYTES_MAX:
        raise UsageError(f"{option}: {file} has more than {SCHEMA_BYTES_MAX} bytes")
    if format == "protobuf":
        return base64.b64encode(data).decode()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{option}: {file} is not text") from None


def typing_by_registry(
    registry: SchemaRegistry,
    format: str,
    schema: str | None,
    prefix: str,
    subject: str | None,
    topics: Sequence[str],
    message: str = "",
) -> Typing:
    """Return typed columns for bodies whose schemas a registry has.

    Without `schema` the columns are those of the newest version of `subject`, by default
    `TOPIC-value` of the only topic. Without `message` the
    columns are those of the first message of a Protobuf schema. Raises `UsageError` for what does
    not fit together, `NotFound` and `EnvironmentFault` for a schema that the registry does not have
    or give.
    """
    is_protobuf = format == "protobuf"
    if schema is None:
        if subject is None and len(topics) != 1:
            raise UsageError(
                "a schema registry needs a subject or a schema, unless one topic is read"
            )
        ask = registry.latest_protobuf if is_protobuf else registry.latest
        schema = ask(subject or f"{topics[0]}-value")
    if is_protobuf and not message:
        message = import_module(_MODULES["protobuf"]).first_message(schema)
    if format == "json" and schema.lstrip().startswith("{"):
        schema = import_module(_MODULES["json"]).columns_of_json_schema(schema)
    return Typing(format, schema, message, prefix, registry)


def check_names(typed: list[Any], plain: list[str]) -> None:
    """Raise `UsageError` when a typed column has the name of another column."""
    taken = sorted({each.name for each in typed}.intersection(plain))
    if taken:
        raise UsageError(
            f"typed columns {', '.join(taken)} have names of other columns:"
            " give all typed ones a prefix with --typed-prefix, or option typed.prefix"
        )


class Splitter:
    """Parses bodies one by one, so that a bad row does not affect the others."""

    def __init__(self, fields: list[Any], parse: ParseBody, prefix: str) -> None:
        self._fields = fields
        self._parse = parse
        self._names = [each.name.removeprefix(prefix) for each in fields]

    def __call__(self, batch: Any) -> tuple[Any, Any]:
        pa = need("pyarrow", "spark")
        found, errors = self._parse_all(batch.column("body"))
        good = pa.array([each is None for each in errors], pa.bool_())
        fits = batch.filter(good)
        rows = [each for each in found if each is not None]
        for field, column in zip(self._fields, self._columns(rows), strict=True):
            fits = fits.append_column(field, column)
        fails = batch.filter(pa.array([each is not None for each in errors], pa.bool_()))
        said = pa.array([each for each in errors if each is not None], pa.string())
        return fits, fails.append_column(ERROR, said)

    def parse(self, bodies: Any) -> tuple[list[Any], list[str | None]]:
        """Return a typed array for each column, and for each body why it cannot be parsed.

        A row that cannot be parsed is null in each array.
        """
        found, errors = self._parse_all(bodies)
        return self._columns([{} if each is None else each for each in found]), errors

    def _parse_all(self, bodies: Any) -> tuple[list[dict[str, Any] | None], list[str | None]]:
        found: list[dict[str, Any] | None] = []
        errors: list[str | None] = []
        for body in bodies:
            values, error = self._one(body.as_py())
            found.append(values)
            errors.append(error)
        self._convert(found, errors)
        return found, errors

    def _one(self, body: bytes | None) -> tuple[dict[str, Any] | None, str | None]:
        try:
            return self._parse(body or b""), None
        except Unparsable as error:
            return None, str(error)[:ERROR_LENGTH_MAX]

    def _convert(self, found: list[dict[str, Any] | None], errors: list[str | None]) -> None:
        """Find the rows with values that do not have the column's type."""
        try:
            self._columns([each for each in found if each is not None])
            return
        except Exception:  # one of many rows: look at each of them
            pass
        for at, values in enumerate(found):
            if values is not None:
                try:
                    self._columns([values])
                except Exception as error:
                    found[at], errors[at] = None, str(error)[:ERROR_LENGTH_MAX]

    def _columns(self, rows: list[dict[str, Any]]) -> list[Any]:
        pa = need("pyarrow", "spark")
        return [
            pa.array([row.get(name) for row in rows], field.type)
            for name, field in zip(self._names, self._fields, strict=True)
        ]
