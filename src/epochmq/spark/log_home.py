"""Where the master of a broker group takes replicas, asked of the name server and of the master."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from epochmq.base.errors import NotFound, NotReachable, Refused, UsageError
from epochmq.client.aio.admin_client import Admin
from epochmq.client.core.route_cache import MASTER_ID
from epochmq.model.host import parse_addr
from epochmq.runtime.tls import OutgoingTls, client_tls
from epochmq.spark.spark_loop_thread import LoopThread
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.headers.ha_headers import ExchangeHAInfoHeader
from epochmq.wire.headers.header import decode_header

T = TypeVar("T")

FILE_BYTES_KEY = "mappedFileSizeCommitLog"
_FILE_BYTES = 1 << 30


class Home(NamedTuple):
    """A master as replicas see it."""

    broker: str
    host: str
    port: int
    file_bytes: int


def find_brokers(name_server: str, tls: OutgoingTls | None = None) -> list[str]:
    """The broker groups that the name server knows, sorted."""
    return _ask(name_server, tls, _names)


def find_home(name_server: str, broker: str, tls: OutgoingTls | None = None) -> Home:
    """The present master of `broker`; `NotReachable` while there is none.

    `UsageError` for a broker outside controller mode: it has no learners, and a stranger on its
    replication port could be counted for its acknowledgements.
    """
    return _ask(name_server, tls, lambda admin: _home(admin, broker))


def _ask(name_server: str, tls: OutgoingTls | None, work: Callable[[Admin], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with Admin(name_server, tls=client_tls(tls or OutgoingTls())) as admin:
            return await work(admin)

    loop = LoopThread("log-home")
    try:
        return loop.run(connected())
    finally:
        loop.close()


async def _names(admin: Admin) -> list[str]:
    return list(await admin.broker_groups())


async def _home(admin: Admin, broker: str) -> Home:
    groups = await admin.broker_groups()
    if broker not in groups:
        known = ", ".join(groups) or "none"
        raise NotFound(f"there is no broker {broker}; known to the name server: {known}")
    address = groups[broker].broker_addrs.get(MASTER_ID)
    if address is None:
        raise NotReachable(f"broker {broker} has no master now; try again")
    try:
        await admin.broker_epochs(address)
    except Refused as error:
        raise UsageError(
            f"broker {broker} cannot be read as a learner: {error}. Read its store directory"
            " instead, with option path"
        ) from None
    command = request(RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoHeader())
    answer = decode_header(ExchangeHAInfoHeader, (await admin.ask(address, command)).ext)
    if answer.masterHaAddress is None:
        raise NotReachable(f"{address} is not the master of {broker} any more; try again")
    host, port = parse_addr(answer.masterHaAddress)
    config = await admin.broker_config(address)
    return Home(broker, host, port, int(config.get(FILE_BYTES_KEY, _FILE_BYTES)))
