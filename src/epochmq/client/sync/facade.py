"""How a synchronous client is made of an asyncio one: by its own methods, so nothing can drift."""

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
    """Holds the client of the same name; `with` opens and closes it."""

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
        """Finish what is under way, leave the group, close all connections.

        Called by a listener it begins to close and returns at once: closing waits until that
        listener is done. In a forked process nothing is closed: the connections are those of the
        process that made them.
        """
        if not self._client.instance.is_forked:
            loop_thread.run(self._client.close())


def built(
    make: Callable[P, C], adapt: Callable[[C], None] = lambda _client: None
) -> Callable[Concatenate[Facade[C], P], None]:
    """`__init__` with the arguments of `make`; the client is made on the loop's thread."""

    @wraps(make, updated=())
    def init(self: Facade[C], /, *args: P.args, **kwargs: P.kwargs) -> None:
        self._client = loop_thread.call(lambda: make(*args, **kwargs))
        adapt(self._client)

    return init


def waits(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Facade[C], P], R]:
    """The method, waited for."""

    @wraps(method)
    def call(self: Facade[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return loop_thread.run(method(usable(self._client), *args, **kwargs))

    return call


def plain(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[Facade[C], P], R]:
    """The method of few steps, on the loop's thread: nothing there is locked."""

    @wraps(method)
    def call(self: Facade[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        client = usable(self._client)
        return loop_thread.call(lambda: method(client, *args, **kwargs))

    return call


def usable(client: C) -> C:
    """`client`, unless it belongs to the process that this one was forked of: it has no thread."""
    client.instance.check_process()
    return client


# Listeners -----------------------------------------------------------------------------------
# Listeners of synchronous clients: plain functions that may wait, and so run in threads.


def in_thread(listener: Callable[..., Any]) -> Callable[..., Any]:
    """`listener` as the asyncio client wants it; a coroutine function stays on the loop."""
    if iscoroutinefunction(listener):
        return listener
    function = _without_stop_iteration(listener)
    return lambda *args: asyncio.to_thread(function, *args)


def _without_stop_iteration(listener: Callable[..., Any]) -> Callable[..., Any]:
    """A future cannot carry StopIteration: whoever waits for it would wait for ever."""

    @wraps(listener, updated=())
    def call(*args: Any) -> Any:
        try:
            return listener(*args)
        except StopIteration as error:
            raise UsageError(f"the listener raised {error!r}") from error

    return call
