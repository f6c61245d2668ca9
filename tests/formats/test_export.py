"""Exported folders hold what the engines look for: their twins score exactly what Headway scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from backend.errors import HeadwayError, MismatchError
from backend.formats.export import export_drafter
from backend.formats.folder import read_published
from backend.formats.importing import import_drafter
from backend.formats.parts import ExportOptions
from backend.formats.twins import Mimo, twin_of
from tests.formats import made

DEPTH = 3
VLLM, SGLANG, SPECULATORS = ExportOptions("vllm"), ExportOptions("sglang"), ExportOptions("vllm", speculators=True)


def exported(folder: Path, family: str, model: Any, options: ExportOptions, **more: Any) -> Path:
    made.stored(folder / "own", family, model)
    export_drafter(folder / "own", folder / "out", options, made.facts(), **more)
    return folder / "out"


def close(found: Tensor, expected: Tensor, everywhere: bool = True) -> None:
    """Equal numbers; with `everywhere` false only where Headway can draft."""
    finite = expected.isfinite()
    if everywhere:
        assert torch.equal(found.isfinite(), finite)
    torch.testing.assert_close(found[finite], expected[finite], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def medusa_scores(model: Any) -> Tensor:
    return made.spread(model(made.text().final[-1:])[:, 0], model.token_map)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("vocabulary", [None, made.DRAFTED])
def test_vllm_scores_medusa_heads_as_headway_does(tmp_path: Path, shared: bool, vocabulary: int | None) -> None:
    model = made.medusa(shared, vocabulary)
    out = exported(tmp_path, "medusa", model, ExportOptions("vllm", full_head=False))
    found = twin_of(out, "vllm").chain(made.text(), DEPTH)
    close(found, medusa_scores(model), everywhere=shared)  # separate layers know no map, so all tokens are scored
    assert ("token_map" in load_file(out / "model.safetensors")) == (shared and vocabulary is not None)


def test_a_full_head_scores_what_is_not_drafted_as_nothing(tmp_path: Path) -> None:
    model = made.medusa()
    out = exported(tmp_path, "medusa", model, VLLM)
    found = twin_of(out, "vllm").chain(made.text(), DEPTH)
    expected = medusa_scores(model)
    close(found, expected, everywhere=False)
    assert bool((found[~expected.isfinite()] == 0).all())  # what is drafted is the same wherever a score is above 0


@pytest.mark.parametrize("options", [VLLM, SGLANG, ExportOptions("sglang", embedding=True)])
def test_engines_score_eagle_heads_as_headway_does(tmp_path: Path, options: ExportOptions) -> None:
    model = made.eagle(None)
    out = exported(tmp_path, "eagle", model, options)
    close(twin_of(out, options.engine).chain(made.text(), DEPTH), made.pair_chain("eagle", model, made.text(), DEPTH))
    assert ("embed_tokens.weight" in load_file(out / "model.safetensors")) == options.embedding


def test_sglang_takes_the_bias_of_an_eagle_head(tmp_path: Path) -> None:
    model = made.eagle(None, fc_bias=True)
    out = exported(tmp_path, "eagle", model, SGLANG)
    close(twin_of(out, "sglang").chain(made.text(), DEPTH), made.pair_chain("eagle", model, made.text(), DEPTH))


@pytest.mark.parametrize("vocabulary", [made.DRAFTED, 260])
@pytest.mark.parametrize("options", [VLLM, SGLANG, SPECULATORS])
def test_engines_score_eagle3_heads_as_headway_does(tmp_path: Path, options: ExportOptions, vocabulary: int) -> None:
    model = made.eagle3(vocabulary)
    out = exported(tmp_path, "eagle3", model, options)
    close(twin_of(out, options.engine).chain(made.text(), DEPTH), made.pair_chain("eagle3", model, made.text(), DEPTH))
    assert ("d2t" in load_file(out / "model.safetensors")) == (vocabulary < 260)


@pytest.mark.parametrize("options", [VLLM, SPECULATORS])
@pytest.mark.parametrize("norms", [("norm_before_residual", "norm_output"), ("norm_before_fc",), ("fc_norm",)])
def test_vllm_takes_the_norms_of_an_eagle3_head(tmp_path: Path, options: ExportOptions, norms: tuple[str, ...]) -> None:
    model = made.eagle3(reads=(1, 3, 6, 8), **dict.fromkeys(norms, True))
    out = exported(tmp_path, "eagle3", model, options)
    close(twin_of(out, "vllm").chain(made.text(), DEPTH), made.pair_chain("eagle3", model, made.text(), DEPTH))


def test_the_two_engines_number_layers_differently(tmp_path: Path) -> None:
    for options in (VLLM, SGLANG):
        exported(tmp_path / options.engine, "eagle3", made.eagle3(), options)
    ids = [
        json.loads((tmp_path / engine / "out/config.json").read_text())["eagle_config"][
            "eagle_aux_hidden_state_layer_ids"
        ]
        for engine in ("vllm", "sglang")
    ]
    assert ids == [[2, 4, 5], [1, 3, 4]]


@pytest.mark.parametrize("order", ["embedding_first", "hidden_first"])
def test_vllm_scores_mtp_modules_inside_their_target_as_headway_does(tmp_path: Path, order: str) -> None:
    model = made.mtp(order=order)
    out = exported(tmp_path, "mtp", model, VLLM, loaded=made.loaded())
    twin = twin_of(out, "vllm")
    assert isinstance(twin, Mimo)
    twin.blank = False  # Headway reads the token of the first place, which vLLM leaves out
    close(twin.chain(made.text(), DEPTH), made.pair_chain("mtp", model, made.text(), DEPTH))


def test_a_target_with_an_mtp_module_inside_is_still_that_target(tmp_path: Path) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    out = exported(tmp_path, "mtp", made.mtp(), VLLM, loaded=made.loaded())
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["MiMoForCausalLM"] and config["num_nextn_predict_layers"] == 1
    whole = Qwen2ForCausalLM(Qwen2Config(**{key: one for key, one in config.items() if key != "architectures"})).eval()
    left = whole.load_state_dict(load_file(out / "model.safetensors"), strict=False)
    assert left.missing_keys == [] and all("mtp_layers" in name for name in left.unexpected_keys)
    ids = made.text().tokens[None]
    with torch.no_grad():
        torch.testing.assert_close(whole(ids).logits, made.loaded().model(ids).logits, atol=1e-5, rtol=1e-5)
    assert (out / "tokenizer.json").is_file()
    words = (out / "README.md").read_text()
    assert "vllm serve out" in words and '"method": "mtp"' in words and '"model"' not in words
    back = import_drafter(str(out), made.target(), tmp_path / "back")
    assert back.family == "mtp" and back.config["order"] == "hidden_first"


@pytest.mark.parametrize("prefixed", [False, True])
def test_hydra_in_the_references_layout(tmp_path: Path, prefixed: bool) -> None:
    model = made.hydra(shared=False, prefixed=prefixed)
    out = exported(tmp_path, "hydra", model, ExportOptions("hydra"))
    tensors = read_published(out).tensors
    assert (out / "hydra_lm_head.pt").is_file()
    said = made.text()
    tokens = torch.tensor([7, 8])
    first, second, outer = (1, 3, ".1") if prefixed else (0, 1, "")
    with torch.no_grad():
        state = said.final[-1] if model.prefix is None else model.prefix(said.final[None])[0, -1]
        x = torch.cat([state, *made.facts().embedding[tokens]])
        join = f"hydra_mlp.1.{first}."
        y = tensors[f"{join}res_connection.weight"] @ x + tensors[f"{join}res_connection.bias"]
        inner = tensors[f"{join}linear.weight"] @ x + tensors[f"{join}linear.bias"]
        y = y + torch.nn.functional.silu(inner)
        block = f"hydra_mlp.1.{second}.linear."
        y = y + torch.nn.functional.silu(tensors[f"{block}weight"] @ y + tensors[f"{block}bias"])
        found = tensors[f"hydra_lm_head.1{outer}.weight"] @ y + tensors[f"hydra_lm_head.1{outer}.bias"]
        model.hold_embedding(made.facts().embedding)
        own = made.spread(model.scores(1, model.state(1, state, tokens)), model.token_map)
    close(found, own, everywhere=False)
    assert bool((found[~own.isfinite()] < -20000).all())
    if model.prefix is not None:
        inner_norm = tensors["prefix_embeding_layer.layers.0.input_layernorm.weight"]
        assert torch.equal(inner_norm, model.prefix.input_layernorm.weight)


@pytest.mark.parametrize(
    ("family", "model", "options", "words"),
    [
        ("medusa", made.medusa, SGLANG, "sglang runs no Medusa"),
        ("hydra", made.hydra, VLLM, "vllm runs no Hydra"),
        ("hydra", lambda: made.hydra(blocks=2), ExportOptions("hydra"), "share one block"),
        ("eagle3", lambda: made.eagle3(fc_norm=True), SGLANG, "no fc_norm"),
        ("eagle3", lambda: made.eagle3(reads=(2, 4)), SGLANG, "three layers"),
        ("eagle3", lambda: made.eagle3(reads=(0, 2, 4)), SGLANG, "embeddings"),
        ("eagle", made.eagle, SPECULATORS, "EAGLE-3"),
        ("eagle", lambda: made.eagle(fc_bias=True), VLLM, "bias"),
        ("eagle3", made.eagle3, ExportOptions("hydra"), "no EAGLE-3 heads"),
        ("medusa", made.medusa, ExportOptions("vllm", max_tokens=4), "3 heads"),
        ("mtp", made.mtp, SGLANG, "for vllm only"),
        ("mtp", lambda: made.mtp(recycle_normed=False), VLLM, "recycle_normed"),
    ],
)
def test_what_an_engine_cant_run_is_refused(
    tmp_path: Path, family: str, model: Any, options: ExportOptions, words: str
) -> None:
    with pytest.raises(HeadwayError, match=words):
        exported(tmp_path, family, model(), options, loaded=made.loaded())
    assert not (tmp_path / "out").exists()


def test_the_readme_has_the_command_with_the_numbers_of_the_tree(tmp_path: Path) -> None:
    vllm = (exported(tmp_path / "a", "eagle3", made.eagle3(), VLLM) / "README.md").read_text()
    assert '"method": "eagle3"' in vllm and '"num_speculative_tokens": 3' in vllm
    sglang = (exported(tmp_path / "b", "eagle3", made.eagle3(), SGLANG) / "README.md").read_text()
    numbers = "--speculative-num-steps 3 --speculative-eagle-topk 2 --speculative-num-draft-tokens 11"
    assert "--speculative-algorithm EAGLE3" in sglang and numbers in sglang
    tuned = tmp_path / "tuned.json"
    schedule = {"num_speculative_tokens_per_batch_size": [[1, 3, 2], [4, 64, 1]]}
    tuned.write_text(json.dumps({"paths": [[0], [0, 0]], **schedule}))
    own = (exported(tmp_path / "c", "eagle3", made.eagle3(), VLLM, tuned=tuned) / "README.md").read_text()
    assert '"num_speculative_tokens": 2' in own and "[[1, 3, 2], [4, 64, 1]]" in own


def test_an_export_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    model = made.medusa()
    with torch.no_grad():
        model.output.mul_(1e6)
    with pytest.raises(HeadwayError, match="float32"):
        exported(tmp_path, "medusa", model, VLLM, dtype="float16")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own"]
    (tmp_path / "taken").mkdir()
    with pytest.raises(HeadwayError, match="no export"):
        export_drafter(tmp_path / "own", tmp_path / "taken", VLLM, made.facts())
    export_drafter(tmp_path / "own", tmp_path / "out", VLLM, made.facts())
    export_drafter(tmp_path / "own", tmp_path / "out", VLLM, made.facts())  # over an older export
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["README.md", "config.json", "headway_export.json", "model.safetensors"]


def test_other_targets_are_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    made.stored(tmp_path / "own", "medusa", made.medusa())
    for other in (
        replace(made.facts(), vocab_size=300),
        replace(made.facts(), version=made.facts().version | {"weights_id": "another"}),
    ):
        with pytest.raises(MismatchError):
            export_drafter(tmp_path / "own", tmp_path / "out", VLLM, other)
    other = replace(made.facts(), version=made.facts().version | {"weights_id": "another"})
    assert export_drafter(tmp_path / "own", tmp_path / "out", VLLM, other, force=True).notes


def test_own_format_in_another_dtype(tmp_path: Path) -> None:
    made.stored(tmp_path / "own", "eagle3", made.eagle3())
    export_drafter(tmp_path / "own", tmp_path / "out", ExportOptions("own"), None, dtype="bfloat16")
    assert load_file(tmp_path / "out/model.safetensors")["fc.weight"].dtype == torch.bfloat16
    from backend.formats.own import read_own

    assert read_own(tmp_path / "out").family == "eagle3"
