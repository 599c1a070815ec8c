"""The addresses of the name servers: given, found by DNS, or told by an address server over HTTP.

An address server is RocketMQ's way to change name servers without a change of all clients: a GET of
a fixed URL (in Java `http://DOMAIN/rocketmq/nsaddr`) is answered with "host:port;host:port".
"""

import asyncio
import contextlib
import ipaddress
import logging
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence

from epochmq.base.errors import NotReachable, Outcome, UsageError
from epochmq.client.core.outgoing import check_text
from epochmq.model.host import BadAddress, format_addr, parse_addr
from epochmq.runtime.peers import SharedCalls

log = logging.getLogger(__name__)

FETCH_TIMEOUT_S = 3.0
ANSWER_BYTES_MAX = 64 * 1024
ADDRESSES_MAX = 100
FETCH_EVERY_S = 120.0
"""As RocketMQ's clients ask an address server."""
LOOK_UP_EVERY_S = 30.0
LOOK_UP_TIMEOUT_S = 2.0
"""A request waits for DNS at most so long."""
EXAMPLE = "write host:port, as 127.0.0.1:9876"


def parse_addresses(text: str) -> list[str]:
    """Split "host:port;host:port". Raises `UsageError` for an empty or unreadable list."""
    check_text("namesrv", text, "; write all addresses in one text, as 'host:port;host:port'")
    addresses = [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"{address!r} is not a name server address; {EXAMPLE}")
    if not addresses:
        raise UsageError(f"no name server is given; {EXAMPLE}")
    return addresses


def check_name_servers(text: str) -> None:
    """Raise `UsageError` unless `text` is a list of addresses or the URL of an address server."""
    NameServerList(text)


class NameServerList:
    """The present addresses of the name servers.

    Args:
        text: "host:port;host:port", or the URL of an address server (http or https).
        by_name: keep the names of hosts, for certificates that are checked by name. Otherwise a
            name with several IP addresses counts as several name servers.

    Raises:
        UsageError: `text` is neither.
    """

    def __init__(self, text: str, *, by_name: bool = False) -> None:
        check_text("namesrv", text, "; write all addresses in one text, as 'host:port;host:port'")
        self._url = text.strip() if "://" in text else ""
        if self._url:
            _check_url(self._url)
        self._given = [] if self._url else parse_addresses(text)
        self._by_name = by_name
        self._is_fixed = not self._url and (by_name or all(map(_is_ip, self._given)))
        self._due_s = 0.0
        self._refreshing: SharedCalls[str, None] = SharedCalls()
        self._last_found: dict[str, list[str]] = {}
        self.addresses: list[str] = list(self._given)
        """The addresses as of the last refresh; empty before the first one of an address server."""

    def look_again(self) -> None:
        """Look up the addresses at the next refresh, because none of them answered."""
        self._due_s = 0.0

    async def refresh(self, now_s: float) -> None:
        """Look up the addresses if that is due. The old ones stay if that fails.

        Calls at the same time share one look-up.

        Args:
            now_s: monotonic seconds.

        Raises:
            NotReachable: the address server gives no list, and no earlier one is known.
        """
        if not self._is_fixed and now_s >= self._due_s:
            await self._refreshing.call("", lambda: self._look_up_all(now_s))

    async def _look_up_all(self, now_s: float) -> None:
        given = await self._fetched() if self._url else self._given
        self._due_s = now_s + (FETCH_EVERY_S if self._url else LOOK_UP_EVERY_S)
        if given is None:
            self._due_s = now_s + LOOK_UP_EVERY_S
            return
        found: list[str] = []
        for address in given:
            if not self._by_name and not _is_ip(address):
                found += await self._look_up(address)
            else:
                found.append(address)
        self.addresses = list(dict.fromkeys(found))[:ADDRESSES_MAX]

    async def _fetched(self) -> Sequence[str] | None:
        """Return the list of the address server; None if there is none and an earlier one is
        known."""
        try:
            return await asyncio.to_thread(_fetch, self._url)
        except NotReachable as error:
            if not self.addresses:
                raise
            log.warning("%(error)s; the last list is used", {"error": error})
            return None

    async def _look_up(self, address: str) -> list[str]:
        """Return the addresses of a host name; the name itself if it has one.

        One IPv4 and one IPv6 address, as of localhost, are those of one server. If the name cannot
        be found, the addresses of the last time are returned, or the name: a connection to it tells
        what is wrong.
        """
        loop = asyncio.get_running_loop()
        try:
            host, port = parse_addr(address)
            looking_up = loop.getaddrinfo(host, port)
            found = await asyncio.wait_for(looking_up, LOOK_UP_TIMEOUT_S)
        except (OSError, TimeoutError, UnicodeError, BadAddress):
            return self._last_found.get(address, [address])
        family = found[0][0]
        addresses = [format_addr(str(at[0]), port) for kind, *_, at in found if kind == family]
        several = list(dict.fromkeys(addresses))
        self._last_found[address] = several if len(several) > 1 else [address]
        return self._last_found[address]


def _check_url(url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"{url!r} is not a URL of an address server; write http://host:port/path, or host:port"
            " of a name server"
        )


def _is_ip(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


def _fetch(url: str) -> list[str]:
    """Return the list of an address server. Raises `NotReachable`; it blocks."""
    try:
        with urllib.request.urlopen(url, timeout=FETCH_TIMEOUT_S) as answer:
            body: bytes = answer.read(ANSWER_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # URLError is an OSError
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise NotReachable(f"the address server {url} gives no list: {error}") from error
    try:
        if len(body) > ANSWER_BYTES_MAX:
            raise UsageError(f"more than {ANSWER_BYTES_MAX} bytes")
        return parse_addresses(body.decode("ascii"))
    except (UnicodeDecodeError, UsageError) as error:
        raise NotReachable(
            f"the address server {url} gives no list of name servers: {error}", Outcome.NOT_DONE
        ) from error
