"""How this machine is doing: memory, load, threads, GPUs and disk, as plain numbers for people.

Looks when asked and keeps nothing but the last reading of the CPU's clock. Knows no torch: a GPU is read through
NVIDIA's own library, where it is installed.
"""

from __future__ import annotations

import importlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil


class Monitor:
    """Looks at the process it lives in, the processes that one started, and the machine.

    Args:
        home: the folder whose disk is looked at.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._process = psutil.Process()
        self._gpus: Any = None  # NVIDIA's library once it was asked for; False where there is none
        psutil.cpu_percent()  # the load is measured from one reading to the next, and this is the first

    def read(self) -> dict[str, Any]:
        """Sizes in bytes, load in percent of all processors, None where this system does not tell.

        {"process": {pid, memory_bytes, threads}, "workers": {count, memory_bytes}, "system": {memory_bytes,
        available_bytes, cpu_percent, cpus}, "disk": {total_bytes, free_bytes}, "gpus": [{name, memory_bytes,
        used_bytes, percent}]}
        """
        memory = psutil.virtual_memory()
        return {
            "process": self._own(),
            "workers": self._workers(),
            "system": {
                "memory_bytes": memory.total,
                "available_bytes": memory.available,
                "cpu_percent": psutil.cpu_percent(),
                "cpus": os.cpu_count(),
            },
            "disk": _disk(self._home),
            "gpus": self._read_gpus(),
        }

    def _own(self) -> dict[str, Any]:
        with self._process.oneshot():
            return {
                "pid": self._process.pid,
                "memory_bytes": self._process.memory_info().rss,
                "threads": self._process.num_threads(),
            }

    def _workers(self) -> dict[str, int]:
        sizes = []
        for child in self._process.children(recursive=True):
            with suppress(psutil.Error):  # it may have ended meanwhile
                sizes.append(child.memory_info().rss)
        return {"count": len(sizes), "memory_bytes": sum(sizes)}

    def _read_gpus(self) -> list[dict[str, Any]]:
        library = self._library()
        if not library:
            return []
        found = []
        with suppress(library.NVMLError):
            for index in range(library.nvmlDeviceGetCount()):
                found.append(_gpu(library, library.nvmlDeviceGetHandleByIndex(index)))
        return found

    def _library(self) -> Any:
        if self._gpus is None:
            self._gpus = False
            with suppress(ImportError):
                library = importlib.import_module("pynvml")
                with suppress(library.NVMLError):  # the library without a driver
                    library.nvmlInit()
                    self._gpus = library
        return self._gpus


def _gpu(library: Any, handle: Any) -> dict[str, Any]:
    name = library.nvmlDeviceGetName(handle)
    memory = library.nvmlDeviceGetMemoryInfo(handle)
    percent = None
    with suppress(library.NVMLError):  # a slice of a card does not tell its load
        percent = library.nvmlDeviceGetUtilizationRates(handle).gpu
    return {
        "name": name.decode() if isinstance(name, bytes) else name,
        "memory_bytes": memory.total,
        "used_bytes": memory.used,
        "percent": percent,
    }


def _disk(folder: Path) -> dict[str, int | None]:
    """Of the disk that holds the folder, or would hold it."""
    for place in (folder, *folder.parents):
        with suppress(OSError):
            usage = shutil.disk_usage(place)
            return {"total_bytes": usage.total, "free_bytes": usage.free}
    return {"total_bytes": None, "free_bytes": None}
