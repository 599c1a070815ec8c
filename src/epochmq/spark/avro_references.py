"""Makes one text of an Avro schema and the schemas to which it refers."""

import json
from collections.abc import Mapping
from typing import Any

from epochmq.base.needs import need

_MAIN = "the schema itself"
"""The name under which fastavro asks for `text`; a type cannot have it, because of the spaces."""
_LOADS_MAX = 500
"""The most schemas that are loaded. Where references form a cycle, fastavro would load without an
end and crash the process."""


def with_references(text: str, referenced: Mapping[str, str]) -> str:
    """Return `text` with the definition of each referenced type where it is used first.

    Args:
        text: an Avro schema.
        referenced: the texts of other schemas, by the full name of the type that each defines.

    Raises `ValueError` for texts that are not Avro, and for a type that none of them defines.
    """
    need("fastavro", "typed")
    from fastavro.repository import AbstractSchemaRepository, SchemaRepositoryError
    from fastavro.schema import UnknownType, load_schema

    class GivenSchemas(AbstractSchemaRepository):
        """The schemas that were given, where fastavro looks for types that it does not know."""

        def __init__(self) -> None:
            self.loads = 0

        def load(self, name: str) -> Any:
            self.loads += 1
            found = text if name == _MAIN else referenced.get(name)
            if found is None or self.loads > _LOADS_MAX:
                raise SchemaRepositoryError  # fastavro makes it UnknownType
            return json.loads(found)

    repo = GivenSchemas()
    try:
        found = load_schema(_MAIN, repo=repo)
        if isinstance(found, dict):
            found = {key: value for key, value in found.items() if not key.startswith("__")}
        return json.dumps(found)
    except UnknownType as error:
        if repo.loads > _LOADS_MAX:
            raise ValueError(f"its references form a cycle through {error.name}") from None
        raise ValueError(f"no reference defines {error.name}") from None
    except Exception as error:  # many kinds of errors, all because of the schemas
        reason = str(error) or type(error).__name__
        raise ValueError(f"the schema and its references are not Avro: {reason}") from None
