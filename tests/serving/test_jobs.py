"""Serving, load tests, comparisons and distilling from an endpoint as jobs and commands, on fake servers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import app
from backend.data.answers import read_answers
from backend.errors import Cancelled, HeadwayError
from backend.jobs import compare_job, distill_job, load_job, vllm_job
from backend.jobs.as_text import validated
from backend.jobs.compare_config import CompareServingConfig
from backend.jobs.configs import DistillJobConfig
from backend.jobs.context import ConsoleContext
from backend.jobs.kinds import JOB_KINDS
from backend.jobs.load_config import LoadJobConfig
from backend.jobs.served import prepare
from backend.jobs.vllm_config import VllmJobConfig
from backend.serving.load_figures import DRAFTS, PLAIN
from backend.serving.server import free_port
from backend.settings import Settings
from backend.targets.opening import open_target
from storage import Store
from tests.formats.made import heads_for
from tests.serving.fake_server import accepted_at, next_token
from tests.support.adapters import tiny_adapter


@dataclass
class Context(ConsoleContext):
    """Remembers metrics, progress and sentences as well."""

    rows: list[dict[str, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def metrics(self, step: int, values: Any) -> None:
        self.rows.append(dict(values))

    def progress(self, done: float, total: float, unit: str = "", note: str = "") -> None:
        self.notes.append(note)

    def log(self, sentence: str) -> None:
        self.said.append(sentence)


@pytest.fixture
def context(tmp_path: Path) -> Callable[..., Context]:
    def make(vllm: Path | None = None, stopped: Callable[[], bool] = lambda: False, **more: Any) -> Context:
        folder = tmp_path / "job"
        folder.mkdir(exist_ok=True)
        return Context(
            Settings(tmp_path / "home", tmp_path / "cache", vllm), folder, quiet=True, stopped=stopped, **more
        )

    return make


@pytest.fixture
def model(tmp_path: Path) -> str:
    """As much of a checkpoint as is looked at before an engine is started."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    return str(folder)


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    rows = [{"question_id": f"q{n}", "category": "xy"[n % 2], "turns": [f"Say {n}."]} for n in range(4)]
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


# -- serving


def test_a_server_is_started_counted_and_stopped(
    fake_vllm: Callable[..., Path], context: Callable[..., Context], model: str, prompts: str
) -> None:
    wish = threading.Event()
    made = context(fake_vllm(), wish.is_set)
    config = VllmJobConfig(target=model, drafter="ngram", num_tokens=3, port=0)
    ended: list[BaseException] = []

    def serve() -> None:
        try:
            vllm_job.run(config, made)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    while "server" not in made.parts and thread.is_alive():
        time.sleep(0.02)
    url = made.parts["server"]["url"]
    load = LoadJobConfig(url=url, prompts=(prompts,), clients=(2,), rounds=1, max_new_tokens=8, max_requests=6)
    load_job.run(load, ConsoleContext(made.settings, made.folder / "load", quiet=True))
    while not any("acceptance_length" in row for row in made.rows) and thread.is_alive():
        time.sleep(0.05)
    wish.set()
    thread.join()
    assert isinstance(ended[0], Cancelled)
    assert made.parts["server"]["build"] == "cpu" and made.parts["server"]["speculation"]["method"] == "ngram"
    counted = next(row for row in made.rows if "acceptance_length" in row)
    assert counted["drafts"] > 0 and 0 < counted["position_1"] <= 1
    arguments = (made.folder / "vllm.log").read_text()
    assert '"--dtype", "float32"' in arguments and '{\\"temperature\\": 0.0}' in arguments


def test_sampling_while_drafting_is_refused_on_the_cpu_build(
    fake_vllm: Callable[..., Path], context: Callable[..., Context], model: str, prompts: str
) -> None:
    made = context(fake_vllm())
    for run, config in (
        (vllm_job.run, VllmJobConfig(target=model, drafter="ngram", temperature=0.7, port=0)),
        (load_job.run, LoadJobConfig(target=model, drafter="ngram", temperature=0.7, prompts=(prompts,))),
    ):
        with pytest.raises(HeadwayError, match="writes garbage when it samples"):
            run(config, made)  # type: ignore[operator]
    with pytest.raises(HeadwayError, match="only right in float32"):
        vllm_job.run(VllmJobConfig(target=model, dtype="bfloat16", port=0), made)


def test_what_can_not_be_served_is_told_before_a_server_is_started(
    fake_vllm: Callable[..., Path],
    context: Callable[..., Context],
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = context(fake_vllm())
    with pytest.raises(HeadwayError, match="tiny random targets have none"):
        vllm_job.run(VllmJobConfig(target="tiny-llama", port=0), made)
    with pytest.raises(HeadwayError, match="There is no folder"):
        vllm_job.run(VllmJobConfig(target=model, drafter=str(tmp_path / "nowhere"), port=0), made)
    with pytest.raises(HeadwayError, match="Nothing answers"):
        vllm_job.run(VllmJobConfig(url=f"http://127.0.0.1:{free_port()}"), made)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(HeadwayError, match="vllm-setup"):
        vllm_job.run(VllmJobConfig(target=model, port=0), context())


def test_a_watched_server_that_goes_away_ends_the_job(
    start_fake: Callable[..., Any], context: Callable[..., Context]
) -> None:
    server = start_fake(depth=2)
    made = context()
    threading.Thread(target=lambda: (_until(lambda: bool(made.parts)), server.kill())).start()
    with pytest.raises(HeadwayError, match="Nothing answers"):
        vllm_job.run(VllmJobConfig(url=server.url), made)
    assert made.parts["server"]["speculates"] is True and made.parts["server"]["pid"] is None


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.02)


# -- load tests


def test_a_load_test_starts_a_server_for_each_arm_in_turn(
    fake_vllm: Callable[..., Path], context: Callable[..., Context], model: str, prompts: str
) -> None:
    made = context(fake_vllm("--step-s 0.002"))
    config = LoadJobConfig(
        target=model, drafter="ngram", num_tokens=3, prompts=(prompts,), clients=(1, 2), rounds=2, max_new_tokens=12,
        max_requests=4,
    )  # fmt: skip
    done = load_job.run(config, made)
    order = [row["arm"] for row in made.parts.values()]
    assert order == [DRAFTS] * 2 + [PLAIN] * 4 + [DRAFTS] * 2
    assert sum(sentence.startswith("Starting vLLM") for sentence in made.said) == 3
    assert [(row["arm"], row["clients"], row["answered"]) for row in done["rows"]] == [
        (PLAIN, 1, 8), (DRAFTS, 1, 8), (PLAIN, 2, 8), (DRAFTS, 2, 8),
    ]  # fmt: skip
    assert {row["clients"] for row in done["speedups"]} == {1, 2}
    assert done["same_answers"] == {"same": 4, "of": 4} and done["gone"] is None
    lines = Path(done["raw"]).read_text().splitlines()
    assert len(lines) == 8 * 4 and json.loads(lines[0])["pieces"]
    stored = json.loads(Path(done["file"]).read_text())
    assert stored["conditions"]["settings"]["drafter"] == "ngram" and len(stored["parts"]) == 8


def test_a_load_test_goes_on_with_the_part_it_was_stopped_in(
    start_fake: Callable[..., Any], context: Callable[..., Context], prompts: str
) -> None:
    plain, drafts = start_fake(depth=0), start_fake(depth=2)
    config = LoadJobConfig(
        url=drafts.url,
        plain_url=plain.url,
        prompts=(prompts,),
        clients=(1, 2),
        rounds=1,
        max_new_tokens=8,
        max_requests=4,
    )
    first = context(stopped=lambda: len(first.parts) >= 2)
    with pytest.raises(Cancelled):
        load_job.run(config, first)
    assert len(first.parts) == 2
    again = context(parts=dict(first.parts))
    done = load_job.run(config, again)
    assert len(again.parts) == 4 and again.parts.items() >= first.parts.items()
    assert len(Path(done["raw"]).read_text().splitlines()) == 16


def test_a_server_that_dies_ends_the_test_with_what_it_has(
    start_fake: Callable[..., Any], prompts: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    server = start_fake(depth=2, step_s=0.01)
    log = tmp_path / "home" / "jobs"

    def kill() -> None:
        _until(lambda: any(path.stat().st_size for path in log.glob("*/requests.jsonl")))
        server.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    words = [
        "load-test",
        "--url",
        server.url,
        "--prompts",
        prompts,
        "--clients",
        "2,4",
        "--seconds",
        "60",
        "--max-new-tokens",
        "8",
    ]
    assert app.main([*words, "--json"]) == 1
    thread.join()
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert found["gone"] and found["gone"] in told.err
    assert found["rows"][0]["answered"] > 0 and len(found["rows"]) == 1


def test_a_load_test_of_nothing_is_refused(context: Callable[..., Context]) -> None:
    for data, word in (
        ({"prompts": ["p"], "clients": []}, "at least one number of clients"),
        ({"prompts": ["p"], "plain_url": "http://x"}, "give its URL too"),
        ({"prompts": ["p"], "max_new_tokens": 4096}, "leave room"),
    ):
        with pytest.raises(HeadwayError, match=word):
            validated("load-test", data)


def test_jobs_that_ask_a_running_server_need_no_device() -> None:
    assert JOB_KINDS["vllm"].needs_device({"url": None}) and not JOB_KINDS["vllm"].needs_device({"url": "http://x"})
    assert JOB_KINDS["train"].needs_device({})


# -- comparing


def test_both_sides_get_the_same_tokens_and_are_counted_alike(
    start_fake: Callable[..., Any], context: Callable[..., Context], prompts: str, tmp_path: Path
) -> None:
    plain, drafts = start_fake(depth=0), start_fake(depth=2)
    made = context()
    heads = heads_for(tmp_path / "heads", open_target("tiny-llama", made.settings, "cpu"))
    config = CompareServingConfig(
        target="tiny-llama", drafter=str(heads), prompts=(prompts,), url=drafts.url, plain_url=plain.url, num_tokens=2,
        max_new_tokens=10, max_model_len=256,
    )  # fmt: skip
    done = compare_job.run(config, made)
    assert done["prompts"] == 4 and done["equal"]["with_and_without"] == {"same": 4, "of": 4}
    assert [row["position"] for row in done["positions"]] == [1, 2]
    own = [item for key, item in made.parts.items() if key.startswith("own|")]
    assert done["positions"][0]["own_steps"] == sum(item["steps"] for item in own)
    ids = _rendered(prompts, made.settings)
    for number, served in ((n, made.parts[f"with drafts|{n}"]) for n in range(4)):
        steps, accepted = _fake_counts(ids[number], 10, 2)
        assert (served["steps"], served["accepted"]) == (steps, accepted)
    assert {group["label"] for group in done["domains"]} == {"x", "y"}


def _rendered(prompts: str, settings: Settings) -> list[list[int]]:
    from backend.data.prompts import read_prompts
    from backend.jobs.asking import encode_first

    target = open_target("tiny-llama", settings, "cpu")
    return [encode_first(target, prompt) for prompt in read_prompts(prompts).prompts]


def _fake_counts(prompt: list[int], limit: int, depth: int) -> tuple[int, list[int]]:
    """The fake server's steps over one answer, worked out here: accepted tokens count before the cut."""
    ids, made, steps, accepted = list(prompt), 0, 0, [0] * depth
    while made < limit:
        count = accepted_at(len(ids), depth) if made else 0
        if made:
            steps += 1
            for place in range(count):
                accepted[place] += 1
        for _ in range(min(count + 1, limit - made)):
            ids.append(next_token(ids))
            made += 1
    while accepted and not accepted[-1]:
        accepted.pop()
    return steps, accepted


def test_a_server_without_drafts_can_not_be_compared(
    start_fake: Callable[..., Any], context: Callable[..., Context], prompts: str
) -> None:
    config = CompareServingConfig(
        target="tiny-llama", prompts=(prompts,), url=start_fake(depth=0).url, max_new_tokens=8
    )
    with pytest.raises(HeadwayError, match="counts no drafts"):
        compare_job.run(config, context())
    with pytest.raises(HeadwayError, match="only trained heads"):
        validated("compare-serving", {"prompts": ["p"], "drafter": "ngram"})


# -- distilling


def test_answers_of_an_endpoint_stand_in_the_same_file_and_go_on(
    start_fake: Callable[..., Any], context: Callable[..., Context], prompts: str, tmp_path: Path
) -> None:
    server = start_fake(depth=2)
    out = tmp_path / "answers.jsonl"
    config = DistillJobConfig(
        target="tiny-llama", prompts=(prompts,), endpoint=server.url, out=str(out), max_new_tokens=6,
        temperatures=(0.0,), batch=2,
    )  # fmt: skip
    stopped = context(stopped=lambda: out.is_file() and out.stat().st_size > 0)
    with pytest.raises(Cancelled):
        distill_job.run(config, stopped)
    assert 0 < len(read_answers(out).answers) < 4
    done = distill_job.run(config, context())
    answers = read_answers(out).answers
    assert done["answers"] == 4 and [one.question_id for one in answers] == ["q0", "q1", "q2", "q3"]
    for answer, ids in zip(answers, _rendered(prompts, stopped.settings), strict=True):
        assert list(answer.prompt_ids) == ids and answer.finish_reason == "length" and answer.truncated
        text = list(ids)
        for token in answer.answer_ids:
            assert token == next_token(text)
            text.append(token)


def test_an_endpoint_that_is_no_server_is_told(context: Callable[..., Context], prompts: str, tmp_path: Path) -> None:
    config = DistillJobConfig(
        target="tiny-llama",
        prompts=(prompts,),
        endpoint=f"http://127.0.0.1:{free_port()}",
        out=str(tmp_path / "a.jsonl"),
    )
    with pytest.raises(HeadwayError, match="Nothing answers"):
        distill_job.run(config, context())


def test_sampling_is_refused_where_a_job_says_that_its_server_drafts_on_a_cpu(
    start_fake: Callable[..., Any], context: Callable[..., Context], prompts: str
) -> None:
    server = start_fake(depth=2)
    with Store.open(":memory:") as store:
        made = store.create_job(kind="vllm", name="x", config={})
        job = store.lease_job("host:1:x", job_id=made.id)
        assert job is not None
        store.put_items(
            job.id, job.attempt, {"server": {"url": server.url, "build": "cpu", "speculation": {"method": "ngram"}}}
        )
        config = LoadJobConfig(url=server.url, prompts=(prompts,), temperature=0.7)
        with pytest.raises(HeadwayError, match="writes garbage"):
            load_job.run(config, context(store=store))


def test_vllm_is_not_started_with_less_than_was_asked_for(context: Callable[..., Context], tmp_path: Path) -> None:
    adapter = tiny_adapter(tmp_path / "tone")
    for name, what in ((f"owner/model+lora:{adapter}", "an adapter"), ("owner/model+int8", "a quantisation")):
        with pytest.raises(HeadwayError, match=f"whole checkpoints, and .* has {what} behind it; start it yourself"):
            prepare(VllmJobConfig(target=name), context())
