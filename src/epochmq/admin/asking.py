"""Running one piece of work with a connected `Admin`, for commands that ask and end."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

T = TypeVar("T")


def ask(namesrv: str, work: "Callable[[Admin], Awaitable[T]]") -> T:
    """What `work` returns; connections are closed whatever happens."""
    from epochmq.client.aio import Admin  # slow to import, and `--help` needs none of it
    from epochmq.runtime.main import run

    async def connected() -> T:
        async with Admin(namesrv) as admin:
            return await work(admin)

    return run(connected())
