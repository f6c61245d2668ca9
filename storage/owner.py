"""Who runs a decode run: a token naming a process, and whether that process still lives.

Knows nothing of the store. A token holds host, process id and, where the system tells it, the start time in clock ticks
since boot with the boot's id: a process id is used again by others, and wall-clock start times move when the clock is
set.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path


def owner_token() -> str:
    """The token of this process, the same at every call."""
    return f"{platform.node()}/{os.getpid()}/{_birth(os.getpid()) or 'unknown'}"


def owner_is_alive(token: str) -> bool:
    """Whether the process of a token still runs.

    Processes of other machines, and tokens that `owner_token` did not make, cannot be looked up and count as alive.
    """
    parts = token.rsplit("/", 2)
    if len(parts) != 3 or parts[0] != platform.node() or not parts[1].isdigit():
        return True
    pid, birth = int(parts[1]), parts[2]
    if birth != "unknown":
        return _birth(pid) == birth
    return _exists(pid)


def _birth(pid: int) -> str | None:
    try:
        # The command name in parentheses may hold spaces; the 20th field after it is the start time.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")[:8]
    except OSError:
        return None
    # A zombie has ended, only its parent has not asked for the exit status yet.
    return None if fields[0] in "ZX" else f"{boot}.{fields[19]}"


def _exists(pid: int) -> bool:
    if os.name == "nt":  # there os.kill would end the process; without a way to look, a person must decide
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
