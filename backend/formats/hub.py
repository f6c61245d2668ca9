"""Drafters of the Hugging Face hub, fetched into the hub client's own cache.

The hub client finds access tokens by itself: none is read here, and no error text of the client is passed on.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

from backend.errors import HeadwayError

_HUB_ID: Final = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}(?:@[\w./-]{1,100})?", re.ASCII)


def is_hub_id(text: str) -> bool:
    """Whether this is no path and could be owner/name[@revision]."""
    looks_like_path = text.startswith((".", "/", "~")) or Path(text).expanduser().exists()
    return not looks_like_path and _HUB_ID.fullmatch(text) is not None


def fetch(text: str) -> Path:
    """The folder of a hub drafter; pickles are fetched only where there is no safetensors file. Raises HeadwayError."""
    name, _, revision = text.partition("@")
    try:
        folder = _snapshot(name, revision, ["*.json", "*.safetensors"])
        if not any(folder.rglob("*.safetensors")):
            folder = _snapshot(name, revision, ["*.json", "*.bin", "*.pt"])
    except GatedRepoError:
        raise HeadwayError(f"The hub drafter {name} is gated: accept its terms on its page and log in.") from None
    except RevisionNotFoundError:
        raise HeadwayError(f"The hub drafter {name} has no revision {revision}.") from None
    except (RepositoryNotFoundError, HFValidationError):
        raise HeadwayError(
            f"There is no drafter {text}: no such folder exists, and on the hub it does not exist or is private."
        ) from None
    except Exception:  # the hub client raises its own, httpx's and the operating system's errors
        raise HeadwayError(
            f"There is no drafter {text}: no such folder exists, and the hub could not be reached and left no "
            "local copy of it."
        ) from None
    return folder


def _snapshot(name: str, revision: str, patterns: list[str]) -> Path:
    return Path(snapshot_download(name, revision=revision or None, allow_patterns=patterns))
