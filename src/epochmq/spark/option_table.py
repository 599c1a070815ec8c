"""Parses the options of Spark sources and sinks from a table; one error lists all problems."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epochmq.base.errors import ConfigError, UsageError
from epochmq.runtime.address_map import AddressMap, parse_address_map
from epochmq.runtime.tls import OutgoingTls, client_tls
from epochmq.spark.connection_options import ConnectionOptions, credentials_in

_SPANS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_SPAN = re.compile(r"(\d{1,15})\s*(ms|s|m|h)?")
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"(\d{1,15})\s*([kmg]?)(?:i?b)?")
_FLAGS = {"true": True, "false": False}

_IN_CATALOG = {"provider", "owner"}
"""Spark adds these options for a table of its catalog."""
_NO_TABLE = (
    "a topic cannot be a table of Spark's catalog: Spark keeps the options of CREATE TABLE from the"
    " reader of a Python data source; use CREATE TEMPORARY VIEW name USING rocketmq OPTIONS (...)"
)

_KAFKA = {
    "kafka.bootstrap.servers": "nameServer, the address of RocketMQ's name servers",
    "includeheaders": "option properties=map; the column properties holds what Kafka calls headers",
    "kafka.group.id": "groupId",
}
"""Options of Spark's Kafka source, in lower case, with the ones to use instead."""


@dataclass(frozen=True, slots=True)
class SparkOption:
    """One option: `parse` reads its text and raises `ValueError` saying what it should be."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    doc: str
    alias: str | None = None


def parse_options(
    given: Mapping[str, str], rows: Sequence[SparkOption], what: str
) -> dict[str, Any]:
    """Return the value of every option in `rows` by name, including defaults.

    Names are compared without case, because Spark does not keep it. Raises one `UsageError` with a
    sentence for each unknown name and each invalid value; `what` names the format in it.
    """
    by_lower = {name.lower(): row for row in rows for name in (row.name, row.alias) if name}
    values = {row.name: row.default for row in rows}
    problems = []
    if {key.lower() for key in given} >= _IN_CATALOG:
        raise UsageError(_NO_TABLE)
    for key, text in given.items():
        row = by_lower.get(key.lower())
        if row is None:
            problems.append(_unknown(key, rows, what))
            continue
        try:
            values[row.name] = row.parse(str(text).strip())
        except ValueError as error:
            problems.append(f"option {row.name}={shown(text)}: {error}")
    if problems:
        raise UsageError("; ".join(problems))
    return values


def _unknown(key: str, rows: Sequence[SparkOption], what: str) -> str:
    if key.lower() in _KAFKA:
        return f"{what} has no option '{key}', which is of Kafka; use {_KAFKA[key.lower()]}"
    by_lower = {row.name.lower(): row.name for row in rows}
    near = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=0.6)
    hint = f" (did you mean '{by_lower[near[0]]}'?)" if near else ""
    return f"{what} has no option '{key}'{hint}"


def shown(text: object) -> str:
    """Return a value for an error message, at most 80 characters of it."""
    whole = str(text)
    return repr(whole if len(whole) <= 80 else whole[:77] + "...")


def text(value: str) -> str:
    """Parse any text that is not empty."""
    if not value:
        raise ValueError("it is empty; give a value or leave the option out")
    return value


def integer(low: int = 1, high: int = 2**63 - 1) -> Callable[[str], int]:
    """Return a parser of whole numbers from `low` to `high`."""

    def parse(value: str) -> int:
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            raise ValueError("it is not a whole number")
        if not low <= int(value) <= high:
            raise ValueError(f"it must lie within {low} and {high}")
        return int(value)

    return parse


def milliseconds(value: str) -> int:
    """Parse a duration: a number of ms, or with a unit such as `30s` and `15m`. Returns ms."""
    match = _SPAN.fullmatch(value.lower())
    if match is None:
        raise ValueError("it is not a duration; write ms, or a unit as 500ms, 30s, 15m, 1h")
    return int(match[1]) * _SPANS_MS[match[2] or "ms"]


def size_bytes(value: str) -> int:
    """Parse a size of at least 1: bytes, or with a unit such as `512k` and `64m`. Returns bytes."""
    match = _SIZE.fullmatch(value.lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("it is not a size; write bytes, or a unit as 512k, 64m, 1g")
    return int(match[1]) * _SIZES[match[2]]


def flag(value: str) -> bool:
    """Parse `true` or `false`."""
    found = _FLAGS.get(value.lower())
    if found is None:
        raise ValueError("it must be true or false")
    return found


def choice(*allowed: str) -> Callable[[str], str]:
    """Return a parser that accepts one of the `allowed` words, in any case."""

    def parse(value: str) -> str:
        if value.lower() not in allowed:
            raise ValueError(f"it must be one of {', '.join(allowed)}")
        return value.lower()

    return parse


def names(value: str) -> tuple[str, ...]:
    """Parse a list of names separated by commas; blanks around names and repeated names are
    dropped.
    """
    found = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    if not found:
        raise ValueError("it names nothing")
    return found


def address_map(value: str) -> AddressMap:
    """Parse `10.0.0.5:10911=broker-a.example:30911,10.0.0.6=203.0.113.7`."""
    try:
        return parse_address_map(value)
    except UsageError as error:
        raise ValueError(str(error)) from None


# Connection options ----------------------------------------------------------------------------
# The TLS settings and the credentials of connections to a cluster, as options of Spark.
#
# Planner, executors and driver are separate processes, so they get these only as options.


CONNECTION_ROWS: tuple[SparkOption, ...] = (
    SparkOption("tls.enable", flag, False, "whether connections speak TLS"),
    SparkOption("tls.client.authServer", flag, True, "whether certificates are checked"),
    SparkOption("tls.client.trustCertPath", text, "", "PEM file with trusted authorities"),
    SparkOption(
        "tls.client.checkHostName", flag, False, "whether certificates must name the server"
    ),
    SparkOption("tls.client.certPath", text, "", "PEM file with a certificate to show"),
    SparkOption("tls.client.keyPath", text, "", "PEM file with its private key"),
    SparkOption(
        "credentials.path", text, "", "properties file with accessKey and secretKey, mode 0600"
    ),
)


def connection_of(values: Mapping[str, object]) -> ConnectionOptions:
    """Return TLS settings and credentials in `values`; raises `UsageError` for files that cannot
    be used.
    """
    tls = ConnectionOptions(
        tls_enable=values["tls.enable"] is True,
        tls_client_auth_server=values["tls.client.authServer"] is True,
        tls_client_trust_cert_path=str(values["tls.client.trustCertPath"]),
        tls_client_check_host_name=values["tls.client.checkHostName"] is True,
        tls_client_cert_path=str(values["tls.client.certPath"]),
        tls_client_key_path=str(values["tls.client.keyPath"]),
        credentials_path=str(values["credentials.path"]),
    )
    try:
        client_tls(tls)
        credentials_in(tls)
    except ConfigError as error:
        raise UsageError("; ".join(error.problems)) from None
    return tls


def reach(name_server: str, tls: OutgoingTls | None = None) -> dict[str, str]:
    """Return the options of `format("rocketmq")` for a cluster; files must have the same paths
    there.
    """
    found = {"nameServer": name_server}
    if tls is not None and tls.tls_enable:
        given = {
            "tls.enable": "true",
            "tls.client.authServer": str(tls.tls_client_auth_server).lower(),
            "tls.client.trustCertPath": tls.tls_client_trust_cert_path,
            "tls.client.checkHostName": "true" if tls.tls_client_check_host_name else "",
            "tls.client.certPath": tls.tls_client_cert_path,
            "tls.client.keyPath": tls.tls_client_key_path,
        }
        found |= {name: value for name, value in given.items() if value}
    if isinstance(tls, ConnectionOptions) and tls.credentials_path:
        found["credentials.path"] = tls.credentials_path
    return found
