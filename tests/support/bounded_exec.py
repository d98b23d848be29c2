"""Become another program that cannot outlive its welcome: ``bounded_exec.py SECONDS COMMAND...``

Two bounds are set and then kept across exec, so the process id stays the one that the parent knows: an
alarm ends the program after that many seconds, and (on Linux) the kernel ends it when the thread that started
it dies.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    seconds, *command = sys.argv[1:]
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit("the parent is gone")
    signal.alarm(int(seconds))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
