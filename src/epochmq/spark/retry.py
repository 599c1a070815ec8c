"""Retries of calls during a failover: with fresh routes, until they succeed or time out."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from epochmq.base.errors import EpochError, NotFound, NotReachable, Refused
from epochmq.client.aio.admin_client import Admin
from epochmq.client.core.retrying import delay_ms
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import ResponseCode

T = TypeVar("T")

FIRST_CONTACT_MS = 5_000
"""How long a name server is tried that never answered: a wrong address must be reported soon."""

PAUSE_MS_MAX = 500
PASSING = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.NOT_LEADER_FOR_QUEUE,
        ResponseCode.GO_AWAY,
    }
)
"""Error codes that mean "not now": brokers answer them while they change roles."""


class Retries:
    """Repeats calls to one cluster; `timeout_ms` is how long a failover may take."""

    def __init__(self, admin: Admin, timeout_ms: int) -> None:
        self.admin = admin
        self.timeout_ms = timeout_ms
        self._met = False
        self._homes: dict[str, frozenset[str]] = {}
        """By topic: the broker groups that its route had last."""

    async def ask(self, what: str, work: Callable[[], Awaitable[T]], topic: str | None = None) -> T:
        """Return the result of `work`, which is repeated after errors that a failover may cause.

        Raises `NotReachable` after `timeout_ms`, and `NotFound` when `topic` certainly does not
        exist.
        """
        retry = Retry(self, what)
        await self.meet()
        while True:
            try:
                if topic is not None:
                    await self.refresh(topic)
                return await work()
            except (NotFound, NotReachable, Refused) as error:
                if is_missing(error):
                    await self.check_there(topic, error)
                else:
                    check_passing(error)
                if topic is not None:
                    self.expire(topic)
                await retry.pause(error)

    async def check_there(self, topic: str | None, error: Exception) -> None:
        """Raise `NotFound` unless `topic` may be missing because its brokers are down."""
        if topic is None:
            raise error
        if await self.is_gone(topic):
            raise NotFound(
                f"topic {topic} is not there: no broker has it. Check the name, or create it"
            ) from None

    async def meet(self) -> None:
        """Check once, with a short timeout, that a name server answers."""
        if self._met:
            return
        retry = Retry(self, "asking the name server", FIRST_CONTACT_MS)
        while not self._met:
            try:
                await self.admin.cluster_info()
                self._met = True
            except NotReachable as error:
                await retry.pause(error)

    async def refresh(self, topic: str) -> None:
        """Ensure that the route of `topic` is fresh, and remember its brokers."""
        instance = self.admin.instance
        await instance.ensure_route(topic)
        route = instance.routes.route(topic)
        if route is not None and route.broker_datas:
            self._homes[topic] = frozenset(data.broker_name for data in route.broker_datas)

    def expire(self, topic: str) -> None:
        """Discard the route of `topic`, so that the next use fetches it again."""
        self.admin.instance.routes.expire(topic)

    async def is_gone(self, topic: str) -> bool:
        """Return whether a topic without a route was deleted or never existed: all its brokers are
        up.

        A broker that is down also removes its topics from the name server, which is temporary.
        """
        try:
            await self.admin.route(topic)
            return False
        except NotFound:
            pass
        except NotReachable:
            return False
        try:
            known = (await self.admin.cluster_info()).broker_addr_table
        except NotReachable:
            return False
        return self._homes.get(topic, frozenset()) <= known.keys()


class Retry:
    """Counts the tries of one call and raises after its timeout."""

    def __init__(self, retries: Retries, what: str, timeout_ms: int | None = None) -> None:
        self._what = what
        self._retries = retries
        self._timeout_ms = retries.timeout_ms
        if timeout_ms is not None:
            self._timeout_ms = min(timeout_ms, self._timeout_ms)
        self._began = asyncio.get_running_loop().time()
        self._count = 0

    async def pause(self, problem: Exception) -> None:
        """Wait before the next try; raises `NotReachable` with `problem` after the timeout."""
        waited_ms = (asyncio.get_running_loop().time() - self._began) * 1000
        if waited_ms >= self._timeout_ms:
            raise NotReachable(
                f"{self._what}: tried for {waited_ms / 1000:.1f} s, the last time: {problem}"
            ) from None
        self._count += 1
        rng = self._retries.admin.instance.rng
        await asyncio.sleep(delay_ms(self._count, rng, most_ms=PAUSE_MS_MAX) / 1000)


def is_missing(error: Exception) -> bool:
    """Return whether an error means that the topic does not exist."""
    if isinstance(error, Refused):
        return error.code == ResponseCode.TOPIC_NOT_EXIST
    return isinstance(error, NotFound)


def check_passing(error: EpochError) -> None:
    """Raise `error` if a failover cannot be its cause."""
    if isinstance(error, Refused) and error.code not in PASSING and not is_missing(error):
        raise error


# Lost messages -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lost:
    """Lost messages: queue offsets `start` to `stop` (exclusive) of `queue`, and the reason."""

    queue: MessageQueue
    start: int
    stop: int
    why: str

    def __str__(self) -> str:
        return (
            f"{self.queue}: queue offsets {self.start} to {self.stop - 1}"
            f" ({self.stop - self.start} messages) are not there: {self.why}"
        )


class DataLost(EpochError):
    """Raised for lost messages unless the caller continues without them (failOnDataLoss=false)."""

    def __init__(self, lost: Lost) -> None:
        super().__init__(
            f"{lost}. Set failOnDataLoss=false to go on without them, or begin a new query where"
            " the data begins"
        )
        self.lost = lost
