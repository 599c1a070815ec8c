import asyncio
import os
import signal

import pytest

from epochmq.base.errors import OurBug
from epochmq.runtime.main import INTERRUPTED, run

both_loops = pytest.mark.parametrize("uvloop", [False, True])


@both_loops
def test_the_result_is_returned(uvloop: bool) -> None:
    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(main(), uvloop=uvloop).startswith("uvloop" if uvloop else "asyncio")


def test_an_exception_is_raised() -> None:
    async def main() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        run(main())


@both_loops
def test_ctrl_c_lets_the_program_clean_up_and_shows_no_traceback(
    uvloop: bool, request: pytest.FixtureRequest
) -> None:
    # A shell starts what runs in the background with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    cleaned: list[bool] = []

    async def main() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    with pytest.raises(SystemExit) as exit:
        run(main(), uvloop=uvloop)
    assert exit.value.code == INTERRUPTED
    assert exit.value.__suppress_context__
    assert cleaned == [True]


def test_a_broken_rule_in_a_callback_stops_the_program() -> None:
    def callback() -> None:
        raise OurBug("invariant broken: INV-11")

    async def main() -> None:
        asyncio.get_running_loop().call_soon(callback)
        await asyncio.Event().wait()

    with pytest.raises(OurBug, match="INV-11"):
        run(main())


def test_another_error_in_a_callback_does_not(caplog: pytest.LogCaptureFixture) -> None:
    def callback() -> None:
        raise ValueError("oops")

    async def main() -> int:
        asyncio.get_running_loop().call_soon(callback)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return 3

    assert run(main()) == 3
    assert "oops" in caplog.text


def test_a_cancelled_program_says_so() -> None:
    async def main() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run(main())


def test_a_task_that_outlives_the_interruption_is_cancelled_too() -> None:
    ended: list[str] = []

    async def main() -> None:
        try:
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            ended.append("clean")

    def on_term(*_: object) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGTERM, on_term)
    try:
        with pytest.raises(SystemExit):
            run(main())
    finally:
        signal.signal(signal.SIGTERM, old)
    assert ended == ["clean"]
