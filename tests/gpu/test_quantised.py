"""What only a CUDA device can show of quantised targets: bitsandbytes in 8 and 4 bits, with an adapter too.

Run it with `pytest -m gpu tests/gpu`; it needs the package bitsandbytes and no download.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from backend.acceptance import Rule
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.plain.drafter import PlainDrafter
from backend.settings import Settings
from backend.targets.describing import describe
from backend.targets.opening import open_target
from backend.targets.target import Target
from backend.targets.tiny import tiny_checkpoint
from backend.trees import product
from tests.support.adapters import tiny_adapter
from tests.support.drafters import random_medusa
from tests.support.targets import random_text

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or importlib.util.find_spec("bitsandbytes") is None,
        reason="needs a CUDA device and bitsandbytes",
    ),
]
PROMPTS = [random_text(40, 5), random_text(41, 20)]


def texts(target: Target, drafting: bool) -> list[list[int]]:
    drafter = random_medusa(target, product([3, 2])) if drafting else PlainDrafter()
    settings = DecodeSettings(12, Rule("greedy"), ignore_eos=True)
    found = [one for one in decode(target, drafter, PROMPTS, settings) if isinstance(one, DecodeResult)]
    return [one.tokens for one in sorted(found, key=lambda one: one.row)]


@pytest.mark.parametrize("bits", ["bnb8", "bnb4"])
@pytest.mark.parametrize("behind", ["", "+lora:", "+merged:"])
def test_decoding_equals_its_own_plain_decoding(tmp_path: Path, bits: str, behind: str) -> None:
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    adapter = tiny_adapter(tmp_path / "adapter")
    name = f"{tiny_checkpoint(tmp_path / 'm')}{behind}{adapter if behind else ''}+{bits}"
    target = open_target(name, settings, "cuda", "float32")
    assert target.identity == describe(name, settings).identity
    assert target.identity.quantisation.startswith("bitsandbytes-")
    assert texts(target, drafting=True) == texts(target, drafting=False)
