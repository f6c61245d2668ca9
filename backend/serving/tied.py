"""Becomes another program that ends when the process that started it does: `python tied.py PARENT_PID PROGRAM ...`.

A server must not outlive the job that watches it, even when that job is killed. On Linux the system sees to it;
elsewhere the program is simply started. Imports nothing of Headway, so that it starts at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h; kept over execve


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it ended before we could ask
            sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
