"""The Audit page without a browser: what its buttons start, what is wrong beside a field, what is told of an audit."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.responses import Response

from backend.errors import HeadwayError
from dashboard.auditing import certificate, view
from dashboard.jobs import Jobs
from dashboard.pages.audit_handlers import AuditHandlers
from dashboard.presenters.audit import audit_name, so_far
from storage import Store

GREEDY = {"tokens": 10, "equal": 9, "ties": 1, "errors": 0, "largest_gap": 1e-5, "first_error": None}
SAMPLED = {"compared": 7, "off": 0, "largest_difference": 2e-7, "depths": []}


@pytest.fixture
def handlers(jobs: Jobs) -> AuditHandlers:
    return AuditHandlers(jobs._services, jobs)


def loaded(handlers: AuditHandlers, **query: str) -> tuple[dict[str, Any], dict[str, Any]]:
    form, shown = handlers.load(SimpleNamespace(query_params=query))  # type: ignore[arg-type]
    return form, shown


def pressed(handlers: AuditHandlers, action: str, typed: dict[str, Any]) -> tuple[Any, Any, Any]:
    return handlers.act(SimpleNamespace(action=action, typed=typed))  # type: ignore[arg-type]


def test_the_form_starts_an_audit_and_says_it_as_command_and_file(handlers: AuditHandlers, store: Store) -> None:
    form, shown = loaded(handlers, tree="3x2x1")
    assert shown["job"] is None and form["typed"]["tree"] == "3x2x1"
    fields = {field["field"]: field for field in form["fields"]}
    assert "none" not in [value for _, value in fields["drafter"]["choices"]]
    typed = form["typed"] | {"sampled": True, "temperature": "0.7", "minutes": "3"}
    text = pressed(handlers, "command", typed)[2]["text"]
    assert text.endswith("audit --tree 3x2x1 --temperature 0.7 --sampled --minutes 3")
    assert "sampled: true" in pressed(handlers, "yaml", typed)[2]["text"]
    _, shown, _ = pressed(handlers, "start", typed)
    (job,) = store.list_jobs(kinds=["audit"])
    assert shown["job"] == job.id and job.config["minutes"] == 3.0
    assert job.name == audit_name(job.config) == "builtin-medusa, 3x2x1, T 0.7, drawn"
    form, shown = loaded(handlers, job=job.id)
    assert shown["job"] == job.id and form["typed"]["temperature"] == "0.7"


def test_what_is_wrong_stands_beside_its_field_or_below_the_form(handlers: AuditHandlers) -> None:
    form, _ = loaded(handlers)
    wrong, *_ = pressed(handlers, "start", form["typed"] | {"power": "2"})
    assert "0.999" in wrong["problems"]["power"]
    wrong, *_ = pressed(handlers, "start", form["typed"] | {"rule": "typical", "sampled": True})
    assert "drawn siblings" in wrong["problems"][""]


def test_two_minutes_for_the_built_in_heads(handlers: AuditHandlers, store: Store) -> None:
    shown = handlers.quick()
    (job,) = store.list_jobs(kinds=["audit"])
    assert shown["job"] == job.id and job.config["minutes"] == 2.0


def test_while_it_runs_sums_are_told_and_no_verdict(jobs: Jobs, store: Store) -> None:
    found = so_far([GREEDY, GREEDY, SAMPLED])
    assert found["greedy"] == {"answers": 2, "tokens": 20, "equal": 18, "ties": 2, "errors": 0}
    assert found["passes"]["compared"] == 7 and found["passes"]["largest_difference"] == 2e-7
    config = {"target": "t", "drafter": "/heads/mine", "tree": None, "rule": "rejection", "sampled": False,
              "temperature": 1.0, "total_variation": 0.05, "power": 0.9, "alpha": 0.001, "minutes": 10.0}  # fmt: skip
    job = store.create_job(kind="audit", name="a", config=config)
    told = view(jobs, job.id)
    assert told["verdict"] is None and told["so_far"] == {"greedy": None, "passes": None}
    assert "tree of the drafter" in told["conditions"]
    with pytest.raises(HeadwayError, match="not over"):
        certificate(jobs, job.id, "html", False)
    other = store.create_job(kind="cost", name="c", config={})
    with pytest.raises(HeadwayError, match="no audit"):
        view(jobs, other.id)


def test_the_certificate_is_shown_as_written_and_can_run_nothing(jobs: Jobs, store: Store, tmp_path: Path) -> None:
    page, file = tmp_path / "c.html", tmp_path / "c.json"
    page.write_text("<p>No deviation found</p>")
    file.write_text(json.dumps({"format": 1}))
    created = store.create_job(kind="audit", name="a", config={})
    job = store.lease_job("host:1:x", job_id=created.id)
    assert job is not None
    store.end_job(job.id, job.attempt, "finished", result={"page": str(page), "file": str(file)})
    shown: Response = certificate(jobs, job.id, "html", False)
    assert shown.body == page.read_bytes() and "default-src 'none'" in shown.headers["content-security-policy"]
    assert "attachment" in certificate(jobs, job.id, "html", True).headers["content-disposition"]
    assert certificate(jobs, job.id, "json", False).body == file.read_bytes()
    with pytest.raises(HeadwayError, match=r"certificate\.json"):
        certificate(jobs, job.id, "pdf", False)
    page.unlink()
    with pytest.raises(HeadwayError, match="can't be read"):
        certificate(jobs, job.id, "html", False)
