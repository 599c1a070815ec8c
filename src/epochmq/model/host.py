"""Host and port as text, and as the 8 or 20 bytes in records and message ids."""

import struct
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address

from epochmq.base.errors import UsageError

V4_SIZE = 8
V6_SIZE = 20
_PORT = struct.Struct(">I")


class BadAddress(UsageError):
    """A text or bytes that are not `ip:port`."""


@lru_cache(maxsize=4096)
def pack(host: str, port: int) -> bytes:
    """Return IP (4 or 16 bytes) and port (int32), big-endian.

    Raises:
        BadAddress: `host` is not an IP address, or `port` is out of range.
    """
    if not 0 <= port <= 0xFFFF:
        raise BadAddress(f"port {port} is not within 0..65535")
    try:
        ip = IPv6Address(host.strip("[]")) if ":" in host else IPv4Address(host)
    except AddressValueError:
        raise BadAddress(f"{host!r} is not an IP address; resolve the name first") from None
    return ip.packed + _PORT.pack(port)


@lru_cache(maxsize=4096)
def unpack(raw: bytes) -> tuple[str, int]:
    """Return (host, port) of 8 or 20 bytes. Raises `BadAddress` for any other size."""
    if len(raw) not in (V4_SIZE, V6_SIZE):
        raise BadAddress(f"a packed address has 8 or 20 bytes, not {len(raw)}")
    ip = IPv4Address(raw[:4]) if len(raw) == V4_SIZE else IPv6Address(raw[:16])
    return str(ip), _PORT.unpack_from(raw, len(raw) - 4)[0]


def parse_addr(text: str) -> tuple[str, int]:
    """Return (host, port) of `host:port`; the host is a name, an IPv4 or an IPv6 address.

    Brackets around an IPv6 address are optional. Raises `BadAddress` for any other text.
    """
    host, _, port = text.strip().rpartition(":")
    host = host.strip("[]")
    if not host or not (port.isascii() and port.isdigit()) or int(port[:6]) > 0xFFFF:
        raise BadAddress(f"{text!r} is not an address; write it as host:port, as 127.0.0.1:9876")
    return host, int(port)


def host_of(address: str) -> str:
    """Return the host of `host:port`, without brackets around an IPv6 address."""
    return address.rpartition(":")[0].strip("[]")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def split_addresses(text: str) -> tuple[str, ...]:
    """Return the addresses of "host:port;host:port", each once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(";") if part.strip()))


def format_addr(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
