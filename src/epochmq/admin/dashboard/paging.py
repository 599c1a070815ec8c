"""A part of a long list of names, and questions about each of them, some at one time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

Row = dict[str, object]

PAGE_ROWS = 50
AT_ONE_TIME = 8


def page_of(names: Iterable[str], part: str, page: int) -> tuple[list[str], int]:
    """Return one page of the names that contain `part`, in any case, and how many contain it.

    Args:
        names: all names, sorted.
        part: a part of the name; empty for all names.
        page: number of the page, from 0.
    """
    wanted = part.strip().lower()
    found = [name for name in names if wanted in name.lower()]
    return found[page * PAGE_ROWS : (page + 1) * PAGE_ROWS], len(found)


async def rows_of(names: Sequence[str], ask: Callable[[str], Awaitable[Row]]) -> list[Row]:
    """Return the row of each name, in the order of the names."""
    gate = asyncio.Semaphore(AT_ONE_TIME)

    async def one(name: str) -> Row:
        async with gate:
            return await ask(name)

    return list(await asyncio.gather(*map(one, names)))
