import asyncio
import os
import signal

import pytest

from epochmq.runtime.signals import StopSignal, stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_asks_for_the_stop(number: signal.Signals) -> None:
    with stop_on_signals() as stop:
        assert not stop.asked
        os.kill(os.getpid(), number)
        assert await asyncio.wait_for(stop.wait(), 30) == number.name
        assert stop.asked


async def test_a_second_interrupt_breaks_a_hanging_stop() -> None:
    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        await stop.wait()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


async def test_the_old_handlers_are_back_afterwards() -> None:
    with stop_on_signals():
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


async def test_the_first_reason_stays() -> None:
    stop = StopSignal()
    stop.ask("a")
    stop.ask("b")
    assert await stop.wait() == "a"


async def test_outside_the_main_thread_it_works_without_signals() -> None:
    async def inner() -> str:
        with stop_on_signals() as stop:
            stop.ask("asked")
            return await stop.wait()

    assert await asyncio.to_thread(asyncio.run, inner()) == "asked"
