"""The base of the blocking clients: each calls the methods of an asyncio client."""

from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from epochmq.client.aio.instance import Closing
from epochmq.runtime import loop_thread

C = TypeVar("C", bound=Closing)
P = ParamSpec("P")
R = TypeVar("R")


class Facade(Generic[C]):
    """Holds the asyncio client of the same name; `with` opens and closes it."""

    _client: C

    def __enter__(self) -> Self:
        loop_thread.run(usable(self._client).__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish running work, leave the group and close all connections.

        Called by a listener, it starts closing and returns at once, because closing waits for that
        listener. In a forked process it does nothing, because the connections belong to the process
        that made them.
        """
        if not self._client.instance.is_forked:
            loop_thread.run(self._client.close())


def built(
    make: Callable[P, C], adapt: Callable[[C], None] = lambda _client: None
) -> Callable[Concatenate[Facade[C], P], None]:
    """Return an `__init__` with the arguments of `make`; the client is made on the loop's thread.

    Args:
        make: the class of the asyncio client.
        adapt: called with the new client.
    """

    @wraps(make, updated=())
    def init(self: Facade[C], /, *args: P.args, **kwargs: P.kwargs) -> None:
        self._client = loop_thread.call(lambda: make(*args, **kwargs))
        adapt(self._client)

    return init


def waits(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Facade[C], P], R]:
    """Return a blocking version of the coroutine method `method`."""

    @wraps(method)
    def call(self: Facade[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return loop_thread.run(method(usable(self._client), *args, **kwargs))

    return call


def plain(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[Facade[C], P], R]:
    """Return a version of `method` that runs on the loop's thread, so that no lock is needed."""

    @wraps(method)
    def call(self: Facade[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        client = usable(self._client)
        return loop_thread.call(lambda: method(client, *args, **kwargs))

    return call


def usable(client: C) -> C:
    """Return `client`. Raises `UsageError` if this process is a fork, which has no loop thread."""
    client.instance.check_process()
    return client
