"""What a distillation leaves in the store: the answers counted, with licence and lineage of the prompts it knows."""

from __future__ import annotations

import json
from pathlib import Path

from backend.data.registering import dataset_entry, lineage_sentence
from backend.data.scanning import scan
from backend.jobs.configs import DistillJobConfig
from backend.jobs.context import ConsoleContext
from backend.jobs.distill_job import run
from backend.settings import Settings
from storage import Store


def test_answers_are_registered_with_the_prompts_they_came_from(tmp_path: Path) -> None:
    prompts = tmp_path / "rows-ab12.jsonl"
    prompts.write_text("".join(json.dumps({"turns": [f"q{n}"], "category": "c"}) + "\n" for n in range(3)))
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    config = DistillJobConfig(
        target="tiny-llama", device="cpu", prompts=(str(prompts),), out=str(tmp_path / "a.jsonl"),
        max_new_tokens=4, temperatures=(0.0, 0.5), name="answers of tiny",
    )  # fmt: skip
    with Store.open(":memory:") as store:
        store.register_dataset(**dataset_entry(scan(prompts), "town questions", "CC0").arguments())
        result = run(config, ConsoleContext(settings, tmp_path, quiet=True, store=store))
        record = store.get_dataset(result["dataset_id"])
        label = store.get_version(record.version_id or "").label
    assert (record.kind, record.name, record.num_rows, record.licence) == ("answers", "answers of tiny", 6, "CC0")
    assert record.content_hash == scan(tmp_path / "a.jsonl").content_hash
    assert record.details["temperatures"] == {"0": 3, "0.5": 3} and sum(record.details["places"]) == 6
    sentence = lineage_sentence(record.kind, record.lineage, label)
    assert sentence == f"prompts town questions → answers by {label} at T = 0, 0.5"
    assert record.lineage["command"].startswith("python app.py distill")
