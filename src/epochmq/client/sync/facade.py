"""The base of the blocking clients: each calls the methods of an asyncio client."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from epochmq.base.errors import UsageError
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


# Listeners -----------------------------------------------------------------------------------
# Listeners of blocking clients are plain functions that may block, so they run in threads.


def in_thread(listener: Callable[..., Any]) -> Callable[..., Any]:
    """Return `listener` for the asyncio client: it runs in a thread, unless it is a coroutine
    function.
    """
    if iscoroutinefunction(listener):
        return listener
    function = _without_stop_iteration(listener)
    return lambda *args: asyncio.to_thread(function, *args)


def _without_stop_iteration(listener: Callable[..., Any]) -> Callable[..., Any]:
    """Convert StopIteration to `UsageError`: a future cannot carry StopIteration, and would never
    end.
    """

    @wraps(listener, updated=())
    def call(*args: Any) -> Any:
        try:
            return listener(*args)
        except StopIteration as error:
            raise UsageError(f"the listener raised {error!r}") from error

    return call
