"""Looks after the engine's process: joins the one that runs for this home, else starts one, and starts it again when it
dies.

Lives in the dashboard's process, in a thread of its own. Knows processes and the wire; no torch, no page.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from backend.engine import wire
from backend.engine.launch import Launch, find
from backend.errors import HeadwayError
from storage.errors import StoreError

ROOT = Path(__file__).parent.parent.parent
LOOK_S = 0.1  #: how often it is looked whether the process lives
NOTICE_S = 2.0  #: by then a death has been noticed
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0  #: before starting again; doubles while it keeps dying young
YOUNG_S = 60.0
PATIENCE_S = 75.0  #: what an engine gets to end in order, its jobs' checkpoints included
AGAIN = "it is being started again, and a run that was going on is marked as interrupted: send it once more."


class EngineHost:
    """See `remote.Whereabouts`.

    Args:
        launch: what the engine is.
        environ: the environment its process starts with.
        died: called each time when the engine is gone unasked, before another one is started.
        say: told in one sentence what is going on.
    """

    def __init__(
        self,
        launch: Launch,
        environ: Mapping[str, str],
        died: Callable[[], None] = lambda: None,
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._launch, self._died, self._say = launch, died, say
        # The person's own folder stays the current one, since targets may be named by relative paths.
        paths = [str(ROOT), *filter(None, [environ.get("PYTHONPATH")])]
        self._environ = {**environ, "PYTHONPATH": ":".join(paths) if sys.platform != "win32" else ";".join(paths)}
        self._changed = threading.Condition()
        self._address: wire.Address | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._problem: Exception | None = None  #: why there is no engine and will be none, or none for now
        self._last_words = "The engine's process ended; " + AGAIN
        self._doing = "starting the engine"
        self._was_ready = False
        self._closing = threading.Event()
        self._watcher = threading.Thread(target=self._look_after, name="headway-host", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._watcher.start()

    def wait_ready(self) -> None:
        """Returns when the engine answers; raises HeadwayError or StoreError when it can't be started."""
        with self._changed:
            self._changed.wait_for(lambda: self._address or self._problem or self._closing.is_set())
            if self._address is None and self._problem is not None:
                raise self._problem

    # -- remote.Whereabouts

    def address(self, wait_s: float) -> wire.Address:
        with self._changed:
            self._changed.wait_for(lambda: self._address is not None or self._closing.is_set(), wait_s)
            if self._closing.is_set():
                raise HeadwayError("Headway is shutting down; start it again.")
            if self._address is None:
                problem = f" ({self._problem})" if self._problem else ""
                raise HeadwayError(f"The engine is not running{problem}; it is being started, try again in a moment.")
            return self._address

    def why_gone(self) -> str:
        with self._changed:
            self._changed.wait_for(lambda: self._address is None, NOTICE_S)
            if self._closing.is_set():
                return "Headway was closed while this went on; start it again."
            return self._last_words

    def state(self) -> str | None:
        with self._changed:
            return None if self._address is not None else self._doing

    def close(self) -> None:
        """Ends an engine that was started here, and waits for it; one that was joined goes on."""
        self._closing.set()
        with self._changed:
            self._hang_up()
            self._changed.notify_all()
        if self._watcher.ident is not None:
            self._watcher.join()

    # -- the thread

    def _look_after(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                watched = self._join_or_start()
                if watched is not None:
                    self._watch(watched)
            except (HeadwayError, StoreError) as error:
                self._note_problem(error)
            except Exception as error:  # the thread has to live, or nothing would ever start an engine again
                self._note_problem(HeadwayError(f"The engine can't be started ({type(error).__name__}: {error})."))
            if self._closing.is_set() or not self._was_ready:
                break
            pause = FIRST_PAUSE_S if time.monotonic() - began > YOUNG_S else min(2 * pause, LONGEST_PAUSE_S)
            self._closing.wait(pause)
        self._end_process()

    def _note_problem(self, error: Exception) -> None:
        with self._changed:
            self._problem, self._doing = error, f"the engine can't be started: {error}"
            self._changed.notify_all()

    def _join_or_start(self) -> Any:
        """What to watch, once the engine answers; None when closing meanwhile."""
        while not self._closing.is_set():
            found = find(self._launch)
            connection = _join(found) if found is not None else None
            if connection is not None and found is not None:
                self._say("Using the engine that already runs for this home folder.")
                self._set_ready(found)
                return connection
            address = self._start()
            if address is not None:
                self._set_ready(address)
                return self._process
            # Somebody else's engine is just starting or ending.
            self._closing.wait(0.5)
        return None

    def _set_ready(self, address: wire.Address) -> None:
        with self._changed:
            self._address, self._problem, self._was_ready = address, None, True
            self._doing = "starting the engine again"
            self._changed.notify_all()

    def _start(self) -> wire.Address | None:
        """Starts a process and reads what it says until it is ready; None when its place is taken."""
        key = secrets.token_hex(32)
        process = subprocess.Popen(
            [sys.executable, "-m", "backend.engine.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environ,
            start_new_session=True,  # Ctrl-C in the terminal is for us, who then close it in order
        )
        with self._changed:
            self._process = process
        assert process.stdin is not None and process.stdout is not None
        with suppress(OSError):  # it ended at once: reading tells
            process.stdin.write(json.dumps({"launch": self._launch.to_dict(), "key": key}).encode() + b"\n")
            process.stdin.flush()
        if self._closing.is_set():
            self._hang_up()
        return self._read(process, process.stdout)

    def _read(self, process: subprocess.Popen[bytes], lines: IO[bytes]) -> wire.Address | None:
        for line in lines:
            told = json.loads(line)
            if "say" in told:
                self._say(told["say"])
            elif "ready" in told:
                return wire.Address.from_dict(told["ready"])
            elif "error" in told:
                process.wait()
                self._let_go()
                raise wire.raised(told["error"])
            elif "taken" in told:
                process.wait()
                self._let_go()
                return None
        code = process.wait()
        if self._closing.is_set():
            return None
        raise HeadwayError(f"The engine's process ended while it started ({_ending(code)}); its own words are above.")

    def _watch(self, watched: Any) -> None:
        """Returns when the engine is gone, or when closing."""
        while not self._closing.is_set():
            if isinstance(watched, subprocess.Popen):
                if watched.poll() is not None:
                    break
                self._closing.wait(LOOK_S)
            elif watched.poll(LOOK_S):  # somebody else's engine hung up
                break
        code = None
        if not isinstance(watched, subprocess.Popen):
            watched.close()
        if self._closing.is_set():
            return
        if isinstance(watched, subprocess.Popen):
            code = watched.returncode
            self._let_go()
        with self._changed:
            if self._address is not None:
                wire.remove_place(self._address.place)
            self._last_words = f"The engine's process ended ({_ending(code)}); {AGAIN}"
            self._address = None
            self._changed.notify_all()
        self._say(self._last_words)
        self._died()

    # -- ending

    def _hang_up(self) -> None:
        """The end of its input tells the process to end."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def _let_go(self) -> None:
        """Of a process that has ended."""
        with self._changed:
            process, self._process = self._process, None
        for pipe in (process.stdin, process.stdout) if process else ():
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _end_process(self) -> None:
        process = self._process
        if process is None:
            return
        self._hang_up()
        try:
            try:
                process.wait(1.5)
            except subprocess.TimeoutExpired:
                self._say("Waiting for running work to stop and write its checkpoint.")
                process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._let_go()
        with self._changed:
            if self._address is not None:
                wire.remove_place(self._address.place)
            self._address = None


def _join(address: wire.Address) -> Any:
    """A connection that lasts as long as the engine at this address; None when nobody answers there."""
    try:
        connection = wire.connect(address)
        wire.send(connection, {"call": "presence"})
        if connection.poll(NOTICE_S) and "open" in wire.receive(connection):
            return connection
        connection.close()
    except (*wire.BROKEN, ValueError):
        pass
    return None


def _ending(code: int | None) -> str:
    if code is None:
        return "another dashboard had started it"
    if code == -9:
        return "killed, or out of memory"
    return f"by signal {-code}" if code < 0 else f"exit code {code}"
