"""Addresses under which a client reaches servers that registered under others.

Brokers register with the name servers under the addresses of their own network. A client outside of
it (NAT, Kubernetes, a tunnel) connects to other addresses for the same servers. The environment
variable EPOCHMQ_ADDRESS_MAP gives the map to all clients of a process; `mapped_addresses` gives
another one to the clients that are created inside it.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from epochmq.base.errors import UsageError

VARIABLE = "EPOCHMQ_ADDRESS_MAP"
PAIRS_MAX = 10_000

AddressMap = Mapping[str, str]
"""Registered address -> address to connect to: both `host:port`, or both `host` for all ports."""

NO_MAP: AddressMap = MappingProxyType({})

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,;=\[\]]+)(?::(\d{1,5}))?")
_given: ContextVar[AddressMap | None] = ContextVar("address_map", default=None)


def parse_address_map(text: str) -> AddressMap:
    """Parse `10.0.0.5:10911=broker-a.example:30911,10.0.0.6=203.0.113.7`.

    Raises `UsageError` for another form.
    """
    found: dict[str, str] = {}
    for part in re.split("[,;]", text):
        if part.strip():
            known, _, other = (side.strip() for side in part.partition("="))
            matches = _ADDRESS.fullmatch(known), _ADDRESS.fullmatch(other)
            if not (matches[0] and matches[1] and bool(matches[0][2]) == bool(matches[1][2])):
                raise UsageError(
                    f"{part.strip()!r} is not a pair of addresses: write host:port=host:port, or"
                    " host=host for all ports"
                )
            found[known] = other
    if len(found) > PAIRS_MAX:
        raise UsageError(f"an address map has at most {PAIRS_MAX} pairs, not {len(found)}")
    return found


def current_address_map() -> AddressMap:
    """Return the map for a client that is created now; empty without one.

    Raises `UsageError` when EPOCHMQ_ADDRESS_MAP cannot be parsed.
    """
    given = _given.get()
    if given is not None:
        return given
    try:
        return parse_address_map(os.environ.get(VARIABLE, ""))
    except UsageError as error:
        raise UsageError(f"{VARIABLE}: {error}") from None


@contextmanager
def mapped_addresses(addresses: AddressMap | None) -> Iterator[None]:
    """Give a map to the clients that are created inside; None leaves the environment's."""
    before = _given.set(addresses if addresses is not None else _given.get())
    try:
        yield
    finally:
        _given.reset(before)


def mapped(addresses: AddressMap, addr: str) -> str:
    """Return the address to connect to for the registered address `addr` (`host:port`)."""
    if addr in addresses:
        return addresses[addr]
    host, colon, port = addr.rpartition(":")
    return f"{addresses[host]}{colon}{port}" if host in addresses else addr
