"""Run another program with a limited lifetime: ``bounded_exec.py SECONDS COMMAND...``

Sets two limits that survive exec, so the program keeps the process id that the parent knows: an alarm ends
it after that many seconds, and (on Linux) the kernel ends it when the thread that started it dies.
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
            sys.exit("the parent process has ended")
    signal.alarm(int(seconds))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
