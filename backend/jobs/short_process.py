"""Asking a short-lived process for what needs torch: a request as JSON, a reply as JSON. Torch-free."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.errors import HeadwayError

_ROOT = Path(__file__).resolve().parents[2]


def ask(module: str, request: Mapping[str, Any], patience_s: float, doing: str) -> dict[str, Any]:
    """What `python -m module` answers. Raises HeadwayError for its {error}, a fault, or when it takes too long.

    doing: for the sentence, such as "Searching".
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", module],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=_ROOT,
            timeout=patience_s,
            check=False,
        )
        reply: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise HeadwayError(f"{doing} took too long; wait until the machine is free, and try again.") from None
    except ValueError:
        print(f"{module} ended with status {done.returncode}.", done.stderr, file=sys.stderr)
        raise HeadwayError(f"{doing} failed; Headway's log says why.") from None
    if "error" in reply:
        raise HeadwayError(str(reply["error"]))
    return reply
