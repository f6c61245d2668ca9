"""The Export page without a browser: what can be handed on, what its buttons start, what is wrong beside the field."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.access import AccessPolicy
from dashboard.jobs import Jobs
from dashboard.pages.export_handlers import ExportHandlers
from dashboard.presenters.export import export_fields, trained
from dashboard.services import Services
from storage import Store, VersionIdentity
from tests.ui.replay_engine import ReplayEngine

HEADS = {"spec": "/heads/mine", "name": "my heads", "family": "medusa", "target": "/models/mine", "tree": []}


class Engine(ReplayEngine):
    def drafters(self, target: str) -> list[dict[str, Any]]:
        return [*super().drafters(target), HEADS]


@pytest.fixture
def handlers(store: Store) -> Iterator[ExportHandlers]:
    engine = Engine(steps_per_s=None)
    services = Services(engine, AccessPolicy.for_bind(), store)
    yield ExportHandlers(services, Jobs(services))
    engine.close()


def asked(**values: Any) -> Any:
    return SimpleNamespace(**values)


def loaded(handlers: ExportHandlers, **query: str) -> tuple[dict[str, Any], dict[str, Any]]:
    form, shown = handlers.load(SimpleNamespace(query_params=query))  # type: ignore[arg-type]
    return form, shown


def ended(store: Store, kind: str, config: dict[str, Any], result: dict[str, Any]) -> str:
    job = store.lease_job("host:1:x", job_id=store.create_job(kind=kind, name="a tree", config=config).id)
    assert job is not None
    store.end_job(job.id, job.attempt, "finished", result=result)
    return str(job.id)


def test_only_what_has_a_folder_is_offered(handlers: ExportHandlers) -> None:
    form, _ = loaded(handlers)
    fields = {field["field"]: field for field in form["fields"]}
    specs = [value for _, value in fields["drafter"]["choices"]]
    assert specs[0] == "builtin-medusa" and "/heads/mine" in specs and not {"ngram", "none"} & set(specs)
    assert [value for _, value in fields["engine"]["choices"]] == ["vllm", "sglang", "hydra", "own"]
    assert not any(field["group"] not in ("what", "where") for field in fields.values())
    assert form["typed"]["engine"] == "vllm" and form["typed"]["target"] == "smollm2-135m"
    assert trained([HEADS, {"family": "used", "spec": "draft:x"}]) == [HEADS] and export_fields([HEADS], [], [])


def test_an_address_names_the_heads_of_a_version_a_tuned_tree_or_an_earlier_export(
    handlers: ExportHandlers, store: Store
) -> None:
    identity = VersionIdentity(weights_id="w", tokenizer_id="t", template_id="c")
    version = store.register_version(identity, label="mine", source="/m", model_type="llama", num_parameters=9)
    store.register_drafter(family="medusa", name="my heads", path="/x", weights_hash="h", version_id=version.id)
    typed = loaded(handlers, version=version.id)[0]["typed"]
    assert (typed["drafter"], typed["target"]) == ("/heads/mine", "/models/mine")
    tuned = ended(store, "tune-tree", {}, {"drafter": "/heads/mine", "num_nodes": 5})
    form = loaded(handlers, tuned=tuned)[0]
    assert (form["typed"]["drafter"], form["typed"]["tuned"]) == ("/heads/mine", tuned)
    trees = next(field for field in form["fields"] if field["field"] == "tuned")
    assert list(trees["choices"]) == [("tuned: 5 nodes, a tree", tuned)]
    done = ended(store, "export", {"drafter": "/heads/mine", "engine": "sglang", "target": "t"}, {})
    form, shown = loaded(handlers, job=done)
    assert form["typed"]["engine"] == "sglang" and shown["job"] == done
    form, shown = loaded(handlers, job="nobody")
    assert shown["error"] and form["fields"]


def test_another_drafter_comes_with_its_target_and_a_button_starts_the_job(
    handlers: ExportHandlers, store: Store
) -> None:
    typed = loaded(handlers)[0]["typed"]
    form = handlers.edit(asked(typed=typed | {"drafter": "/heads/mine", "tuned": "x"}, field="drafter"))
    assert form["fill"] and form["typed"]["target"] == "/models/mine" and form["typed"]["tuned"] == ""
    assert not handlers.edit(asked(typed=typed, field="engine"))["fill"]
    typed = form["typed"] | {"name": "handed on"}
    _, shown, _ = handlers.act(asked(action="start", typed=typed))
    job = store.get_job(shown["job"])
    assert (job.kind, job.name, job.device) == ("export", "handed on", "cpu")
    assert job.config["drafter"] == "/heads/mine" and job.config["tuned"] is None
    _, _, text = handlers.act(asked(action="command", typed=typed))
    assert text["text"].startswith("python app.py export --drafter /heads/mine --engine vllm --target /models/mine")
    assert "engine: vllm" in handlers.act(asked(action="yaml", typed=typed))[2]["text"]


def test_what_is_wrong_stands_beside_its_field(handlers: ExportHandlers, store: Store) -> None:
    typed = loaded(handlers)[0]["typed"]
    for changed, field, words in (
        ({"target": ""}, "target", "Name the target"),
        ({"num_tokens": "99"}, "num_tokens", "64"),
        ({"drafter": ""}, "drafter", "Drafter"),
        ({"engine": "tgi"}, "engine", "vllm"),
    ):
        form, _, _ = handlers.act(asked(action="start", typed=typed | changed))
        assert words in form["problems"][field], form["problems"]
    assert store.list_jobs() == []
    own = typed | {"target": "", "engine": "own"}
    assert handlers.act(asked(action="start", typed=own))[1]["job"]
