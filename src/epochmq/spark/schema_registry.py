"""Reads schemas from a registry, by Confluent's protocol or versions 2 and 3 of Apicurio's own.

A producer that uses a registry writes a byte 0 and the number of the schema before each body: four
bytes for Confluent's registry, and for Apicurio's registry behind its Confluent address
(`/apis/ccompat/...`). Apicurio's own serializers write eight bytes, a global id, with version 2
(`/apis/registry/v2`), and four bytes, a content id, with version 3 (`/apis/registry/v3`).
The calls block: they are for planners and executors of Spark, never for an event loop.
"""

import base64
import functools
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochmq.base.backoff import backoff_ms
from epochmq.base.errors import EnvironmentFault, NotFound, NotReachable, UsageError
from epochmq.spark.avro_references import with_references
from epochmq.spark.protobuf_source import descriptor_set

MAGIC = b"\x00"
ANSWER_BYTES_MAX = 4 << 20
TIMEOUT_S = 10.0
"""For each step of one request."""
TRIES = 4
_PAUSE_MS, _PAUSE_MS_MAX = 250, 2_000
_KEPT_MAX = 1_000
_REFERENCES_MAX = 100
"""The most schemas to which one schema may refer."""
_VERSION_LENGTH_MAX = 256
_SERIALIZED = "?format=serialized"
"""Asks Confluent's registry for a Protobuf schema as a descriptor; others ignore it."""
_APICURIO_V2, _APICURIO_V3 = "/apis/registry/v2", "/apis/registry/v3"


@dataclass(frozen=True)
class SchemaRegistry:
    """The address of a registry; plain values, which travel to executors."""

    url: str
    """`http://host:port` or `https://host:port`, with a path for Apicurio's registry."""
    credentials_file: str = ""
    """A file with `user:password` in one line; executors read it at the same path."""

    def __post_init__(self) -> None:
        if "@" in self.url:  # and do not repeat a password in an error
            raise UsageError("a registry's address has no user and password: use a file for them")
        try:
            parts = urllib.parse.urlsplit(self.url)
            is_address = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:  # brackets or a port that cannot be
            is_address = False
        if not is_address or parts.scheme not in ("http", "https") or parts.query:
            raise UsageError(
                f"'{self.url}' is not an address of a schema registry; write http://host:port"
            )

    @property
    def id_bytes(self) -> int:
        """The size of a schema's number in a body."""
        return 8 if self._speaks(_APICURIO_V2) else 4

    @property
    def names_message(self) -> bool:
        """Whether a Protobuf body has the name of its message, as Apicurio's own serializers write
        it; Confluent's write its indexes.
        """
        return self._speaks(_APICURIO_V2, _APICURIO_V3)

    def _speaks(self, *apicurio: str) -> bool:
        """Return whether the address is one of these of Apicurio's own protocol."""
        return self.url.rstrip("/").endswith(apicurio)

    def split(self, body: bytes) -> tuple[int, bytes] | None:
        """Return the number of a body's schema and the bytes behind it; None without a number."""
        end = len(MAGIC) + self.id_bytes
        if not body.startswith(MAGIC) or len(body) < end:
            return None
        return int.from_bytes(body[len(MAGIC) : end], "big"), body[end:]

    def latest(self, subject: str) -> str:
        """Return the text of the newest version of a schema.

        `subject` is Confluent's name, as `flights-value`; for Apicurio's own address it is
        `artifact` or `group/artifact`. Raises `NotFound` for a subject that does not exist,
        `NotReachable` when the registry does not answer, `EnvironmentFault` when it refuses.
        """
        if self._speaks(_APICURIO_V2):
            return self.by_id(self._global_id(subject))
        if self._speaks(_APICURIO_V3):
            return self._apicurio_text(*_newest(subject))
        return self._schema(f"/subjects/{_quoted(subject)}/versions/latest")

    def latest_protobuf(self, subject: str) -> str:
        """Return the newest version of a Protobuf schema as a descriptor set in base 64.

        Raises as `latest` does.
        """
        if self._speaks(_APICURIO_V2):
            return self.protobuf_by_id(self._global_id(subject))
        if self._speaks(_APICURIO_V3):
            return self._apicurio_protobuf(*_newest(subject))
        return self._protobuf(f"/subjects/{_quoted(subject)}/versions/latest")

    def protobuf_by_id(self, number: int) -> str:
        """Return the Protobuf schema with this number as `latest_protobuf` does."""
        return _protobuf_by_id(self, number)

    def _ask_protobuf_by_id(self, number: int) -> str:
        if self._speaks(_APICURIO_V2, _APICURIO_V3):
            return self._apicurio_protobuf(*self._apicurio_by_id(number))
        return self._protobuf(f"/schemas/ids/{number}")

    def _protobuf(self, path: str) -> str:
        """Return the schema at `path` with all schemas that it imports."""
        answer = self._answer(path + _SERIALIZED)
        if (kind := answer.get("schemaType", "AVRO")) != "PROTOBUF":
            raise EnvironmentFault(f"{self.url}{path}: the schema is {kind}, not PROTOBUF")
        try:
            return descriptor_set(
                str(answer["schema"]), self._referenced(path, answer, query=_SERIALIZED)
            )
        except ValueError as error:
            raise EnvironmentFault(f"{self.url}{path}: {error}") from None

    def by_id(self, number: int) -> str:
        """Return the text of the schema with this number; raises as `latest` does.

        A number always names the same schema, so each process asks once.
        """
        return _by_id(self, number)

    def _ask_by_id(self, number: int) -> str:
        """Ask the registry, as `by_id` does when it does not know the schema."""
        if self._speaks(_APICURIO_V2, _APICURIO_V3):
            return self._apicurio_text(*self._apicurio_by_id(number))
        return self._schema(f"/schemas/ids/{number}")

    def _schema(self, path: str) -> str:
        """Return the text that Confluent's protocol wraps in an object.

        The Avro types of other schemas that it refers to become part of the text.
        """
        answer = self._answer(path)
        text = str(answer["schema"])
        if not answer.get("references"):
            return text
        if answer.get("schemaType", "AVRO") != "AVRO":
            return text  # a JSON Schema: a property of a referenced type becomes JSON text
        try:
            return with_references(text, self._referenced(path, answer))
        except ValueError as error:
            raise EnvironmentFault(f"{self.url}{path}: {error}") from None

    def _answer(self, path: str) -> dict[str, Any]:
        """Return an answer of Confluent's protocol that has a schema."""
        answer = self._json(path)
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise EnvironmentFault(f"{self.url}{path}: the answer has no schema")
        return answer

    def _referenced(self, path: str, answer: dict[str, Any], *, query: str = "") -> dict[str, str]:
        """Return the texts of all schemas that an answer refers to, directly or not, by name."""

        def fetch(each: _Reference) -> tuple[str, list[_Reference | None]]:
            found = self._answer(f"{each.place}{query}")
            return str(found["schema"]), _references(found.get("references"), _reference)

        return self._collected(path, _references(answer.get("references"), _reference), fetch)

    def _collected(
        self,
        path: str,
        first: list["_Reference | None"],
        fetch: Callable[["_Reference"], tuple[str, list["_Reference | None"]]],
    ) -> dict[str, str]:
        """Return the texts of all schemas to which the schema at `path` refers, by name.

        `first` are its own references, None for one that is malformed. `fetch` returns the text and
        the references of another schema.
        """
        known: dict[str, _Reference] = {}
        texts: dict[str, str] = {}
        waiting = first
        while waiting:
            each = waiting.pop(0)
            if each is None:
                raise EnvironmentFault(f"{self.url}{path}: the references are malformed")
            if known.setdefault(each.name, each) != each:
                raise EnvironmentFault(
                    f"{self.url}{path}: the references name two definitions of {each.name}"
                )
            if len(known) > _REFERENCES_MAX:
                raise EnvironmentFault(f"{self.url}{path}: more than {_REFERENCES_MAX} references")
            if each.name not in texts:
                texts[each.name], more = fetch(each)
                waiting += more
        return texts

    # Apicurio's own protocol: a schema is a text at one path, and its references are at another.

    def _global_id(self, subject: str) -> int:
        """Return the number of the newest version of an artifact (version 2)."""
        path = f"{_artifact_path(subject)}/meta"
        found = self._json(path)
        number = found.get("globalId") if isinstance(found, dict) else None
        if not isinstance(number, int):
            raise EnvironmentFault(f"{self.url}{path}: the answer has no globalId")
        return number

    def _apicurio_by_id(self, number: int) -> tuple[str, str]:
        """Return the paths of the schema with this number, and of its references."""
        kind = "contentIds" if self._speaks(_APICURIO_V3) else "globalIds"
        return f"/ids/{kind}/{number}", f"/ids/{kind}/{number}/references"

    def _apicurio_text(self, content: str, references: str) -> str:
        """Return a schema; the Avro types of others that it refers to become part of the text."""
        text = self._get(content)
        if not _is_avro(text):
            return text
        referenced = self._apicurio_referenced(references)
        if not referenced:
            return text
        try:
            return with_references(text, referenced)
        except ValueError as error:
            raise EnvironmentFault(f"{self.url}{content}: {error}") from None

    def _apicurio_protobuf(self, content: str, references: str) -> str:
        """Return a Protobuf schema with all schemas that it imports."""
        text = self._get(content)
        try:
            return descriptor_set(text, self._apicurio_referenced(references))
        except ValueError as error:
            raise EnvironmentFault(f"{self.url}{content}: {error}") from None

    def _apicurio_referenced(self, references: str) -> dict[str, str]:
        """Return the texts of all schemas that are referred to, directly or not, by name."""

        def listed(path: str) -> list[_Reference | None]:
            try:
                return _references(self._json(path), _apicurio_reference)
            except NotFound:  # of a schema that is there: this registry knows no references
                return []

        def fetch(each: _Reference) -> tuple[str, list[_Reference | None]]:
            content = f"{each.place}/content" if self._speaks(_APICURIO_V3) else each.place
            return self._get(content), listed(f"{each.place}/references")

        return self._collected(references, listed(references), fetch)

    def _json(self, path: str) -> Any:
        try:
            return json.loads(self._get(path))
        except (ValueError, RecursionError):
            raise EnvironmentFault(f"{self.url}{path}: the answer is not JSON") from None

    def _get(self, path: str) -> str:
        """Return the answer to a GET; passing problems are tried `TRIES` times."""
        url = self.url.rstrip("/") + path
        request = urllib.request.Request(url, headers=self._headers())
        for failures in range(TRIES):
            try:
                with _opener().open(request, timeout=TIMEOUT_S) as answer:
                    data: bytes = answer.read(ANSWER_BYTES_MAX + 1)
                break
            except urllib.error.HTTPError as error:
                if error.code == http.HTTPStatus.NOT_FOUND:
                    raise NotFound(f"the schema registry has nothing at {url}") from None
                problem = f"HTTP status {error.code}"
                if error.code < 500 and error.code != http.HTTPStatus.TOO_MANY_REQUESTS:
                    raise EnvironmentFault(
                        f"the schema registry refuses {url}: {problem}"
                    ) from None
            except (OSError, http.client.HTTPException) as error:
                problem = str(getattr(error, "reason", error)) or type(error).__name__
            if failures + 1 == TRIES:
                raise NotReachable(
                    f"the schema registry did not answer {url} {TRIES} times: {problem}"
                )
            time.sleep(backoff_ms(failures, _PAUSE_MS, _PAUSE_MS_MAX) / 1000)
        if len(data) > ANSWER_BYTES_MAX:
            raise EnvironmentFault(f"{url}: the answer has more than {ANSWER_BYTES_MAX} bytes")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise EnvironmentFault(f"{url}: the answer is not text") from None

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json, */*"}
        if self.credentials_file:
            try:
                line = Path(self.credentials_file).read_bytes().strip()
            except OSError as error:
                raise UsageError(
                    f"{self.credentials_file} cannot be read: {error.strerror}"
                ) from None
            if b":" not in line or b"\n" in line:
                raise UsageError(f"{self.credentials_file} must have one line: user:password")
            headers["Authorization"] = "Basic " + base64.b64encode(line).decode()
        return headers


@dataclass(frozen=True)
class _Reference:
    """A reference of one schema to another."""

    name: str
    """The full name of the type in Avro, the name of the imported file in Protobuf."""
    place: str
    """The path of the version that is meant."""


def _references(found: Any, read: Callable[[Any], _Reference | None]) -> list[_Reference | None]:
    """Return the references of an answer; None for one that is malformed."""
    return [read(each) for each in found or []] if isinstance(found or [], list) else [None]


def _reference(given: Any) -> _Reference | None:
    """Return a reference of Confluent's protocol; None for one that is malformed."""
    match given:
        case {"name": str(name), "subject": str(subject), "version": int(version)}:
            return _Reference(name, f"/subjects/{_quoted(subject)}/versions/{version}")
    return None


def _artifact_path(subject: str) -> str:
    """Return the path of `artifact` or `group/artifact`."""
    group, _, artifact = subject.rpartition("/")
    return f"/groups/{_quoted(group or 'default')}/artifacts/{_quoted(artifact)}"


def _newest(subject: str) -> tuple[str, str]:
    """Return the paths of the newest version of an artifact, and of its references (version 3)."""
    version = f"{_artifact_path(subject)}/versions/branch=latest"
    return f"{version}/content", f"{version}/references"


def _apicurio_reference(given: Any) -> _Reference | None:
    """Return a reference of Apicurio's own protocol; None for one that is malformed."""
    match given:
        case {"name": str(name), "artifactId": str(artifact), "version": str(version)} if (
            len(version) <= _VERSION_LENGTH_MAX
        ):
            group = given.get("groupId") or "default"
            if isinstance(group, str):
                path = f"/groups/{_quoted(group)}/artifacts/{_quoted(artifact)}"
                return _Reference(name, f"{path}/versions/{_quoted(version)}")
    return None


def _is_avro(text: str) -> bool:
    """Return whether a schema is Avro, and not a JSON Schema or Protobuf."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return not isinstance(schema, dict) or not schema.keys() & {"$schema", "properties", "$id"}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the request has a password, which is for one server."""

    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        return None


@functools.cache
def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect)


@functools.lru_cache(maxsize=_KEPT_MAX)
def _by_id(registry: SchemaRegistry, number: int) -> str:
    return registry._ask_by_id(number)


@functools.lru_cache(maxsize=_KEPT_MAX)
def _protobuf_by_id(registry: SchemaRegistry, number: int) -> str:
    return registry._ask_protobuf_by_id(number)


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")
