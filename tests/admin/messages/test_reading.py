"""Lines from pipes and files."""

import os
from pathlib import Path

import pytest

from epochmq.admin.messages.lines import lines


async def collect(handle: int) -> list[bytes]:
    return [line async for line in lines(handle)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\n\nlast", [b"a", b"", b"last"]),
        (b"x" * 200_000 + b"\ny\n", [b"x" * 200_000, b"y"]),
    ],
)
async def test_a_file(tmp_path: Path, data: bytes, expected: list[bytes]) -> None:
    path = tmp_path / "input"
    path.write_bytes(data)
    with path.open("rb") as file:
        assert await collect(file.fileno()) == expected


async def test_a_pipe_line_by_line() -> None:
    source, sink = os.pipe()
    found = lines(source)
    os.write(sink, b"one\ntw")
    assert await anext(found) == b"one"
    os.write(sink, b"o\n")
    assert await anext(found) == b"two"
    os.close(sink)
    with pytest.raises(StopAsyncIteration):
        await anext(found)
    os.close(source)
