"""The base of the blocking clients: each calls the methods of an asyncio client."""

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

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


def documented_by(original: Callable[..., object]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that gives a method the docstring of `original`."""

    def document(method: Callable[P, R]) -> Callable[P, R]:
        method.__doc__ = original.__doc__
        return method

    return document


def usable(client: C) -> C:
    """Return `client`. Raises `UsageError` if this process is a fork, which has no loop thread."""
    client.instance.check_process()
    return client
