"""A sweep's worker without torch: it speaks like `backend.jobs.sweep_worker` and makes its figures up from the
settings, the same ones every time. `python -m tests.jobs.sweep_fake PAUSE TROUBLE`.

Troubles: dies:N ends by SIGKILL in trial N, once; mute never gets ready; broken says that the target can't be loaded;
slow:N takes long in trial N.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import Any

PROMPTS = 12
SETUP = {
    "target": "made-up", "model_type": "llama", "num_parameters": 7, "device": "cpu", "dtype": "float32", "threads": 1,
    "version": {"weights_id": "w", "adapter_id": "none", "quantisation": "none", "tokenizer_id": "t",
                "template_id": "c", "name": "made-up"},
    "packages": {"torch": "2"}, "attention": "eager", "prompts": [f"set|{n}|0" for n in range(PROMPTS)], "left_out": 0,
}  # fmt: skip
lock = threading.Lock()
stopped: set[tuple[int, int]] = set()


def say(message: dict[str, Any]) -> None:
    with lock:
        print(json.dumps(message), flush=True)


def speed_of(settings: dict[str, Any]) -> float:
    """A figure between 20 and 60 that the settings determine."""
    return 20 + zlib.crc32(json.dumps(settings, sort_keys=True).encode()) % 4000 / 100


def prompts_of(settings: dict[str, Any], count: int) -> list[dict[str, Any]]:
    speed = speed_of(settings)
    return [{"key": f"set|{n}|0", "tokens": 60, "steps": 40, "accepted": 20, "decode_ms": 60_000 / speed / (1 + n / 9),
             "drift": None, "kl": None} for n in range(count)]  # fmt: skip


def work(task: dict[str, Any], pause_s: float, trouble: str, folder: Path) -> None:
    who = {"number": task["number"], "attempt": task["attempt"]}
    name, _, place = trouble.partition(":")
    for count in range(1, PROMPTS + 1):
        if name == "slow" and int(place) == task["number"]:
            time.sleep(0.2)
        time.sleep(pause_s)
        if name == "dies" and int(place) == task["number"] and count == 3:
            mark = folder / "died"
            if not mark.exists():
                folder.mkdir(parents=True, exist_ok=True)
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        if (task["number"], task["attempt"]) in stopped:
            say({"say": "failed", **who, "kind": "stopped", "error": "The trial was stopped."})
            return
        say({"say": "part", **who, "prompts": prompts_of(task["settings"], count), "plain_speed": None})
    if task["settings"].get("tree") == "7x7x7":
        say({"say": "failed", **who, "kind": "impossible", "error": "That tree is too wide for made-up heads."})
        return
    found = prompts_of(task["settings"], PROMPTS)
    spent_ms = sum(one["decode_ms"] for one in found)
    figures = {"speed": 60_000 * PROMPTS / spent_ms, "acceptance_length": 1.5, "drift": None}
    measured = {"figures": figures, "prompts": found, "plain_speed": None, "others_busy": None, "drafter": None,
                "warnings": []}  # fmt: skip
    say({"say": "done", **who, "measured": measured, "wall_s": 0.1})


def main() -> None:
    pause_s, trouble = float(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    order = json.loads(sys.stdin.readline())
    if trouble == "mute":
        sys.exit(4)
    if trouble == "broken":
        say({"say": "broken", "kind": "impossible", "error": "There is no target made-up."})
        sys.exit(3)
    say({"say": "ready", "setup": SETUP})
    tasks: list[dict[str, Any]] = []
    something = threading.Condition()

    def listen() -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if message["do"] == "stop":
                stopped.add((message["number"], message["attempt"]))
                continue
            with something:
                tasks.append(message["task"])
                something.notify()
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        with something:
            something.wait_for(lambda: bool(tasks))
            task = tasks.pop(0)
        work(task, pause_s, trouble, Path(order["folder"]))


if __name__ == "__main__":
    main()
