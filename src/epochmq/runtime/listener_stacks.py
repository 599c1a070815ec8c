"""The stacks of a consumer's listeners, for `epochmq group stacks` and `mqadmin consumerStatus`."""

import asyncio
import sys
import threading
import traceback
from types import FrameType
from typing import Any

_LISTENERS = ("listener ", "ordered ")
TEXT_LENGTH_MAX = 64 * 1024
_FRAMES_MAX = 50


def listener_stacks() -> str:
    """Return the stacks of this process\'s listener tasks, and of its other threads, as text.

    Call it on the event loop of the listeners. Tasks that wait for messages are left out.
    """
    parts = []
    for task in sorted(asyncio.all_tasks(), key=lambda each: each.get_name()):
        frames = _frames(task.get_coro())
        if task.get_name().startswith(_LISTENERS) and _is_busy(frames):
            parts.append(f"task {task.get_name()}\n{_lines(frames)}")
    own = threading.get_ident()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        if ident != own and _runs_listener(frame):
            stack = "".join(traceback.format_stack(frame)).rstrip()
            parts.append(f"thread {names[ident]}\n{stack}")
    text = "\n".join(parts) or "no listener is running"
    return text if len(text) <= TEXT_LENGTH_MAX else text[:TEXT_LENGTH_MAX] + "\n..."


def _frames(coroutine: Any) -> list[FrameType]:
    """Return the frames of a coroutine and of those that it awaits, outermost first."""
    found: list[FrameType] = []
    while coroutine is not None and len(found) < _FRAMES_MAX:
        frame = getattr(coroutine, "cr_frame", None)
        if frame is None:
            break
        found.append(frame)
        coroutine = getattr(coroutine, "cr_await", None)
    return found


def _is_busy(frames: list[FrameType]) -> bool:
    """Whether a listener is called: its frame is behind those of this package."""
    return any(frame.f_code.co_name == "call_listener" for frame in frames)


def _runs_listener(frame: FrameType | None) -> bool:
    """Whether a thread is in a plain function of an application (`run_in_thread`)."""
    while frame is not None:
        if frame.f_code.co_name == "call_in_thread":
            return True
        frame = frame.f_back
    return False


def _lines(frames: list[FrameType]) -> str:
    stack = [(frame, frame.f_lineno) for frame in frames]
    return "".join(traceback.StackSummary.extract(iter(stack)).format()).rstrip()
