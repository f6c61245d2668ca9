"""What others publish is read right and decodes without changing the text; what can't be is refused with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from backend.drafters.base import Drafter
from backend.drafters.registry import load_drafter
from backend.errors import HeadwayError
from backend.formats.check import check_folder
from backend.formats.export import export_drafter
from backend.formats.folder import read_published
from backend.formats.importing import import_drafter
from backend.formats.own import MODELS, read_own
from backend.formats.parts import ExportOptions
from backend.formats.tables import HYDRA_PREFIX
from backend.formats.twins import twin_of
from backend.trees import product
from tests.formats import made, published
from tests.formats.published import PUBLISHED, Draw, write
from tests.support.lossless import check_greedy


def imported(tmp_path: Path, layout: str, **more: Any) -> Any:
    source = PUBLISHED[layout][1](tmp_path / "published")
    return import_drafter(str(source), made.target(), tmp_path / "out", **more)


def ready(folder: Path) -> Drafter:
    return load_drafter(str(folder), made.target())[0]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_layout_is_imported_and_decodes_losslessly(tmp_path: Path, name: str) -> None:
    made_of = imported(tmp_path, name)
    assert made_of.family == PUBLISHED[name][0]
    drafter = ready(tmp_path / "out")
    check_greedy(made.target(), drafter.with_shape(product([3, 2])), 10)


def own_scores(folder: Path, family: str) -> Tensor:
    """What the imported drafter scores at depths 1 to 3 of its likeliest chain."""
    own = read_own(folder)
    model = MODELS[family][1](own.config)
    model.load_state_dict(own.state)
    if family == "medusa":
        with torch.no_grad():
            return made.spread(model(made.text().final[-1:])[:, 0], model.token_map)
    return made.pair_chain(family, model, made.text(), 3)


@pytest.mark.parametrize(
    ("name", "engine", "depth"),
    [
        ("eagle-1", "sglang", 3),
        ("eagle-no-bias", "vllm", 3),
        ("eagle3-safeai", "vllm", 3),
        ("eagle3-safeai", "sglang", 3),
        ("eagle3-specforge", "sglang", 3),
        ("eagle3-speculators", "vllm", 3),
        ("eagle3-modelopt", "sglang-names", 3),
    ],
)
def test_an_imported_drafter_scores_as_the_engine_does(tmp_path: Path, name: str, engine: str, depth: int) -> None:
    family, publish = PUBLISHED[name]
    source = publish(tmp_path / "published")
    import_drafter(str(source), made.target(), tmp_path / "out")
    source = source / "checkpoint_best" if (source / "checkpoint_best").exists() else source
    if engine == "sglang-names":  # the numbers mean what SGLang takes them for, the names are not SGLang's
        found = read_published(source)
        names = {name.replace("layers.0.", "midlayer."): one for name, one in found.tensors.items()}
        found.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"].sort()
        source, engine = write(tmp_path / "renamed", found.config, names, "model.safetensors"), "sglang"
    expected = twin_of(source, engine).chain(made.text(), depth)
    found_scores = own_scores(tmp_path / "out", family)
    finite = expected.isfinite()
    assert torch.equal(found_scores.isfinite(), finite)
    torch.testing.assert_close(found_scores[finite], expected[finite], atol=1e-5, rtol=1e-5)


def test_medusa_scores_are_those_of_the_reference(tmp_path: Path) -> None:
    imported(tmp_path, "medusa-1")
    tensors = read_published(tmp_path / "published").tensors
    state = made.text().final[-1]
    expected = []
    for head in range(3):
        block = tensors[f"{head}.0.linear.weight"] @ state + tensors[f"{head}.0.linear.bias"]
        expected.append(tensors[f"{head}.1.weight"] @ (state + torch.nn.functional.silu(block)))
    torch.testing.assert_close(own_scores(tmp_path / "out", "medusa"), torch.stack(expected), atol=1e-5, rtol=1e-5)


def test_rows_of_the_whole_vocabulary_are_cut_by_the_map_beside_them(tmp_path: Path) -> None:
    imported(tmp_path, "medusa-vllm")
    tensors = read_published(tmp_path / "published").tensors
    state = made.text().final[-1]
    block = torch.nn.functional.silu(tensors["medusa_heads.blocks.1.layers.0.weight"] @ state)
    expected = tensors["lm_head.weight"] @ (state + block)
    found = own_scores(tmp_path / "out", "medusa")[1]
    drafted = found.isfinite().nonzero()[:, 0]
    assert torch.equal(drafted, tensors["token_map"])
    torch.testing.assert_close(found[drafted], expected[drafted], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layout", ["hydra", "hydra-plus"])
def test_hydra_scores_are_those_of_the_reference(tmp_path: Path, layout: str) -> None:
    imported(tmp_path, layout)
    own, tensors = read_own(tmp_path / "out"), read_published(tmp_path / "published").tensors
    model = MODELS["hydra"][1](own.config)
    model.load_state_dict(own.state)
    model.hold_embedding(made.facts().embedding)  # type: ignore[operator]
    state, tokens = made.text().final[-1], torch.tensor([7, 8])
    (first, second, third), outer = ((1, 3, 5), ".1") if layout == "hydra-plus" else ((0, 1, 2), "")
    if layout == "hydra-plus":
        read = prefixed(tensors, made.text().final)
        with torch.no_grad():
            state = model.prefix(made.text().final[None])[0, -1]  # type: ignore[operator]
        torch.testing.assert_close(state, read, atol=1e-5, rtol=1e-5)
    x = torch.cat([state, *made.facts().embedding[tokens]])
    silu = torch.nn.functional.silu

    def linear(name: str, value: Tensor) -> Tensor:
        return tensors[f"{name}.weight"] @ value + tensors[f"{name}.bias"]

    y = linear(f"hydra_mlp.1.{first}.res_connection", x) + silu(linear(f"hydra_mlp.1.{first}.linear", x))
    for block in (second, third):
        y = y + silu(linear(f"hydra_mlp.1.{block}.linear", y))
    with torch.no_grad():
        found = model.scores(1, model.state(1, state, tokens))  # type: ignore[operator]
    torch.testing.assert_close(found, linear(f"hydra_lm_head.1{outer}", y), atol=1e-5, rtol=1e-5)


def prefixed(tensors: dict[str, Tensor], states: Tensor) -> Tensor:
    """What transformers' own Llama of one layer, the reference's prefix layer, makes of the last of states [T, H]."""
    from transformers import LlamaConfig, LlamaModel

    own = {key: value for key, value in published.LLAMA.items() if key not in ("model_type", "rope_scaling")}
    llama = LlamaModel(LlamaConfig(**own))
    llama.load_state_dict(
        {name.removeprefix(HYDRA_PREFIX): one for name, one in tensors.items() if name.startswith(HYDRA_PREFIX)}
    )
    with torch.no_grad():
        return llama.eval()(inputs_embeds=states[None]).last_hidden_state[0, -1]


def test_imported_hydra_heads_are_exported_with_their_shared_block(tmp_path: Path) -> None:
    imported(tmp_path, "hydra-plus")
    export_drafter(tmp_path / "out", tmp_path / "again", ExportOptions("hydra"), made.facts())
    before, after = (read_published(tmp_path / name) for name in ("published", "again"))
    assert after.config["hydra_head_arch"] == "prefix-mlp" and after.config["hydra_num_layers"] == 3
    left_out = {"prefix_embeding_layer.embed_tokens.weight"}  # nobody looks at it
    assert after.tensors.keys() == before.tensors.keys() - left_out
    for name, one in after.tensors.items():
        torch.testing.assert_close(one, before.tensors[name], msg=name)
    assert check_folder(tmp_path / "again", None, made.facts()).findings == ()


def test_layer_numbers_are_read_in_the_convention_of_their_writer(tmp_path: Path) -> None:
    for name, expected in (
        ("eagle3-safeai", (2, 4, 5)),  # none named
        ("eagle3-specforge", (2, 4, 5)),  # outputs, in eagle_config alone
        ("eagle3-speculators", (1, 4, 6)),  # inputs
        ("eagle3-modelopt", (2, 4, 5)),  # outputs, in no order
    ):
        assert tuple(imported(tmp_path / name, name).config["reads"]) == expected
    other = imported(tmp_path / "other", "eagle3-specforge", convention="input")
    assert tuple(other.config["reads"]) == (1, 3, 4) and "--layer-ids output" in other.notes[0]


def test_what_was_imported_says_where_it_came_from(tmp_path: Path) -> None:
    found = imported(tmp_path, "eagle3-safeai", name="theirs")
    meta = read_own(tmp_path / "out").meta
    assert meta.name == "theirs" and meta.lineage["layout"] == found.layout == "EAGLE-3 of SafeAILab or SpecForge"
    assert meta.version == made.target().identity.to_dict()


def edited(make: Callable[[Path], Path], change: Callable[[dict[str, Any], dict[str, Tensor]], None]) -> Any:
    def publish(folder: Path) -> Path:
        found = read_published(make(folder / "before"))
        config, tensors = dict(found.config), dict(found.tensors)
        change(config, tensors)
        return write(folder / "after", config, tensors, "model.safetensors")

    return publish


def ids_in_d2t(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    tensors["d2t"] += torch.arange(len(tensors["d2t"]))


def test_ids_in_place_of_offsets_are_told_by_the_other_half_of_the_map(tmp_path: Path) -> None:
    source = edited(published.eagle3_safeai, ids_in_d2t)(tmp_path)
    found = import_drafter(str(source), made.target(), tmp_path / "out")
    assert any("ids instead of offsets" in note for note in found.notes)
    imported(tmp_path / "right", "eagle3-safeai")
    one, other = (read_own(folder).state["token_map"] for folder in (tmp_path / "out", tmp_path / "right/out"))
    assert torch.equal(one, other)


def config_of(**keys: Any) -> Callable[[dict[str, Any], dict[str, Tensor]], None]:
    return lambda config, tensors: config.update(keys)


def tensors_of(**given: Any) -> Callable[[dict[str, Any], dict[str, Tensor]], None]:
    return lambda config, tensors: tensors.update({name.replace("__", "."): one for name, one in given.items()})


def without(*names: str) -> Callable[[dict[str, Any], dict[str, Tensor]], None]:
    def change(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        for name in names:
            tensors.pop(name, None)

    return change


ONE = torch.ones(64)
REFUSED: dict[str, tuple[Callable[[Path], Path], Callable[[dict[str, Any], dict[str, Tensor]], None], str]] = {
    "dflash": (published.eagle3_modelopt, config_of(dflash_config={"mask_token_id": 1}), "DFlash"),
    "dspark": (published.eagle3_modelopt, tensors_of(markov_head__markov_w1__weight=ONE), "DSpark"),
    "dspark by kind": (published.eagle3_modelopt, config_of(speculators_model_type="dspark"), "DSpark"),
    "peagle": (published.eagle3_safeai, tensors_of(mask_hidden=torch.ones(1, 1, 192)), "P-EAGLE"),
    "mlp": (published.eagle_1, lambda c, t: (t.clear(), t.update({"speculator.emb.0.weight": ONE}))[0], "MLP or LSTM"),
    "a model": (published.eagle_1, lambda c, t: (t.clear(), t.update(published.rest_of_target()))[0], "draft model"),
    "nothing": (published.eagle_1, lambda c, t: (t.clear(), t.update({"x": ONE}))[0], "Nothing here"),
    "two layers": (published.eagle_1, tensors_of(layers__1__mlp__up_proj__weight=ONE), "more than one layer"),
    "own embedding": (published.eagle_1, tensors_of(embed_tokens__weight=torch.ones(260, 64)), "embedding of its own"),
    "other width": (published.eagle_1, config_of(hidden_size=32), "hidden size 32"),
    "other vocabulary": (published.eagle3_safeai, config_of(vocab_size=300), "300 tokens"),
    "missing": (published.eagle3_safeai, without("midlayer.hidden_norm.weight"), "hidden_norm"),
    "not finite": (published.eagle3_safeai, tensors_of(norm__weight=ONE * float("nan")), "not finite"),
    "no map": (published.eagle3_safeai, without("d2t", "t2d"), "no d2t"),
    "qk norm": (published.eagle3_modelopt, tensors_of(layers__0__self_attn__q_norm__weight=ONE), "norms on its"),
    "attention bias": (published.eagle3_safeai, tensors_of(midlayer__self_attn__q_proj__bias=ONE), "bias in its att"),
    "layers": (published.eagle3_specforge, config_of(eagle_config={"eagle_aux_hidden_state_layer_ids": [7, 8, 9]}),
               "rising layers"),
    "states": (published.eagle3_specforge, config_of(eagle_config={"eagle_aux_hidden_state_layer_ids": [2, 3]}),
               "joins 3"),
    "no sizes": (published.eagle_1, lambda c, t: c.pop("num_attention_heads"), "num_attention_heads"),
    "half a prefix": (published.hydra_plus, without("prefix_embeding_layer.norm.weight"), "norm.weight is missing"),
    "too many": (published.hydra, tensors_of(hydra_mlp__40__0__linear__weight=ONE), "41 as num_heads"),
    "cross": (published.hydra, tensors_of(cross_attn__q_proj__weight=ONE), "cross-attention"),
    "not grounded": (published.hydra, lambda c, t: [t.pop(n) for n in list(t) if "res_connection" in n], "grounded"),
    "map twice": (published.medusa_vllm, tensors_of(token_map=torch.zeros(70, dtype=torch.int64)), "token_map"),
    "block missing": (published.medusa_1, without("1.0.linear.weight"), "blocks.1.layers.0.weight is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cant_be_decoded_is_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    make, change, words = REFUSED[name]
    source = edited(make, change)(tmp_path)
    with pytest.raises(HeadwayError, match=words):
        import_drafter(str(source), made.target(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


class Code:
    """Pickled, this runs something when it is opened."""

    def __reduce__(self) -> Any:
        return (print, ("this must never be run",))


def test_a_pickle_with_code_is_refused_and_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"medusa_num_heads": 1}))
    torch.save({"0.0.linear.weight": torch.ones(64, 64), "x": Code()}, tmp_path / "medusa_lm_head.pt")
    with pytest.raises(HeadwayError, match="holds code"):
        import_drafter(str(tmp_path), made.target(), tmp_path / "out")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [b"", b"not a torch file", b"PK\x03\x04 cut short"])
def test_damaged_files_are_one_sentence(tmp_path: Path, content: bytes) -> None:
    for name in ("medusa_lm_head.pt", "model.safetensors"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_bytes(content)
        with pytest.raises(HeadwayError, match=r"damaged|holds code"):
            import_drafter(str(folder), made.target(), tmp_path / "out")


def test_other_sources_are_refused(tmp_path: Path) -> None:
    made.stored(tmp_path / "own", "medusa", made.medusa())
    for source, words in (
        (str(tmp_path / "own"), "already a drafter"),
        (str(tmp_path / "nothing"), "no file or folder"),
        ("nobody/nothing-of-this-name", "hub"),
    ):
        with pytest.raises(HeadwayError, match=words):
            import_drafter(source, made.target(), tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(HeadwayError, match="no weights"):
        import_drafter(str(tmp_path / "empty"), made.target(), tmp_path / "out")


@pytest.mark.parametrize("name", ["eagle-no-bias", "eagle3-specforge", "eagle3-speculators", "medusa-vllm"])
def test_senseless_configs_are_read_or_one_sentence(tmp_path: Path, name: str) -> None:
    source = PUBLISHED[name][1](tmp_path / "published")
    source = source / "checkpoint_best" if (source / "checkpoint_best").exists() else source
    config = json.loads((source / "config.json").read_text())
    for place in (config, *(one for one in config.values() if isinstance(one, dict))):
        for key, before in list(place.items()):
            for value in ("x", -1, [1]):
                place[key] = value
                (source / "config.json").write_text(json.dumps(config))
                with suppress(HeadwayError):
                    import_drafter(str(source), made.target(), tmp_path / "out")
            place[key] = before


def test_a_single_weight_file_is_enough_for_medusa(tmp_path: Path) -> None:
    source = published.medusa_1(tmp_path / "published")
    (source / "config.json").unlink()
    assert import_drafter(str(source / "medusa_lm_head.pt"), made.target(), tmp_path / "out").family == "medusa"


def test_half_precision_stays_half_precision(tmp_path: Path) -> None:
    draw = Draw(20)
    whole = published.eagle3_tensors(draw, "midlayer.")
    tensors = {name: one.bfloat16() if one.is_floating_point() else one for name, one in whole.items()}
    config = published.LLAMA | {"draft_vocab_size": 70}
    import_drafter(str(write(tmp_path / "p", config, tensors, "model.safetensors")), made.target(), tmp_path / "out")
    assert read_own(tmp_path / "out").stored == torch.bfloat16
