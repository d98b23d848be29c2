"""Interrupts functions like Ctrl-C, deterministically at one instruction after the other."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

#: CPython runs signal handlers after these instructions and at the start of functions. Elsewhere, for
#: instance between the last line of a ``with`` block and its ``__exit__``, or when a Python function returns
#: to another one, no signal handler has run since Python 3.11.
_LOOKS_FOR_SIGNALS = ("CALL", "RESUME", "JUMP_BACKWARD")


def interrupt_after(
    instructions: int, codes: set[CodeType], act: Callable[[], object], *, as_signals_do: bool = False
) -> bool:
    """Call ``act`` and interrupt it. Returns whether the interruption came before the call had ended.

    Args:
        instructions: number of executed instructions of ``codes`` before the interruption; with
            ``as_signals_do``, only those are counted at which CPython runs signal handlers.
    """
    left = instructions
    last: dict[int, str] = {}  # by the frame's id, without a reference to the frame

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if event == "call":
            # A new frame may have the id of one that has ended.
            last.pop(id(frame), None)
            if frame.f_back is not None:
                last[id(frame.f_back)] = "call of a Python function"
        if frame.f_code not in codes:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before, last[id(frame)] = (
                last.get(id(frame), "RESUME"),
                dis.opname[frame.f_code.co_code[frame.f_lasti]],
            )
            if not as_signals_do or before.startswith(_LOOKS_FOR_SIGNALS):
                left -= 1
            if left == 0:
                left = -1
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 requires it to be set before tracing starts
    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
