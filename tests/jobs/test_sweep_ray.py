"""The Ray executor with a stand-in for Ray: workers that come, go and fall silent, clusters that do not answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from backend.errors import HeadwayError
from backend.jobs import sweep_ray
from backend.jobs.sweep_executors import FRUITLESS, Task
from backend.jobs.sweep_ray import AWAY_S, START_S, RayExecutor

TASKS = [Task(number, 1, {"tree": "2x2"}, False) for number in range(3)]


class RayError(Exception):
    pass


class Cluster:
    """As much of Ray as the executor uses: each actor's `news` gives what the test put there, or raises."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self.killed: list[Actor] = []
        self.exceptions = SimpleNamespace(RayError=RayError)

    def remote(self, _class: Any) -> Any:
        made = SimpleNamespace(remote=self._make)
        return SimpleNamespace(options=lambda **_: made)

    def _make(self, order: dict[str, Any]) -> Actor:
        self.actors.append(Actor(order))
        return self.actors[-1]

    def wait(self, asked: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        done = [one for one in asked if one.said]
        return done, [one for one in asked if one not in done]

    def get(self, actor: Actor) -> list[dict[str, Any]]:
        said = actor.said.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    def kill(self, actor: Actor) -> None:
        self.killed.append(actor)

    def shutdown(self) -> None:
        pass


class Actor:
    def __init__(self, order: dict[str, Any]) -> None:
        self.order, self.said = order, []  # type: ignore[var-annotated]
        self.given: list[dict[str, Any]] = []
        self.stopped: list[tuple[int, int]] = []
        self.give = SimpleNamespace(remote=self.given.append)
        self.stop = SimpleNamespace(remote=lambda *who: self.stopped.append(who))
        self.news = SimpleNamespace(remote=lambda: self)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(sweep_ray, "_connected", lambda address: made)
    monkeypatch.setattr(sweep_ray, "ASK_S", 0.0)
    return made


class Clock:
    """Goes on a little each time it is looked at."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 0.01
        return self.now


def test_tasks_go_to_actors_and_their_words_come_back(cluster: Cluster) -> None:
    executor = RayExecutor({"do": "open"}, 2, None, Clock())
    assert executor.free() == 2
    for task in TASKS[:2]:
        executor.submit(task)
    assert executor.free() == 0 and [actor.given[0]["number"] for actor in cluster.actors] == [0, 1]
    assert executor.messages(0.1) == []
    done = {"say": "done", "number": 1, "attempt": 1}
    cluster.actors[1].said = [[{"say": "ready", "setup": {}}, done]]
    assert executor.messages(0.1) == [{"say": "ready", "setup": {}}, done]
    assert executor.free() == 1
    executor.stop(0, 1)
    assert cluster.actors[0].stopped == [(0, 1)]
    executor.submit(TASKS[2])
    assert len(cluster.actors) == 2 and cluster.actors[1].given[-1]["number"] == 2  # the target stays loaded
    executor.close()
    assert cluster.killed == cluster.actors


def test_an_actor_that_is_gone_loses_its_trial_and_is_replaced(cluster: Cluster) -> None:
    executor = RayExecutor({}, 1, None, Clock())
    executor.submit(TASKS[0])
    cluster.actors[0].said = [[{"say": "ready", "setup": {}}], RayError("the node died")]
    executor.messages(0.1)
    (lost,) = executor.messages(0.1)
    assert (lost["say"], lost["number"], lost["attempt"]) == ("lost", 0, 1) and executor.free() == 1
    executor.submit(TASKS[0])
    assert len(cluster.actors) == 2


def test_a_worker_that_no_longer_answers_is_given_up_and_one_that_never_began_is_told(cluster: Cluster) -> None:
    clock = Clock()
    executor = RayExecutor({}, 1, None, clock)
    executor.submit(TASKS[0])
    clock.now += AWAY_S + 1
    assert executor.messages(0.1) == []  # it may still be starting
    cluster.actors[0].said = [[{"say": "ready", "setup": {}}]]
    executor.messages(0.1)
    clock.now += AWAY_S + 1
    assert executor.messages(0.1)[0]["say"] == "lost" and cluster.killed == cluster.actors
    executor.submit(TASKS[0])
    clock.now += START_S + 1
    with pytest.raises(HeadwayError, match="no processor free"):
        executor.messages(0.1)


def test_workers_that_never_get_ready_end_the_sweep(cluster: Cluster) -> None:
    executor = RayExecutor({}, 1, None, Clock())
    for _ in range(FRUITLESS - 1):
        executor.submit(TASKS[0])
        cluster.actors[-1].said = [RayError("no module named backend")]
        assert executor.messages(0.1)[0]["say"] == "lost"
    executor.submit(TASKS[0])
    cluster.actors[-1].said = [RayError("no module named backend")]
    with pytest.raises(HeadwayError, match="No worker starts on the Ray cluster: no module named backend"):
        executor.messages(0.1)


def test_what_the_person_can_mend_is_said_as_it_is(cluster: Cluster) -> None:
    executor = RayExecutor({}, 1, None, Clock())
    executor.submit(TASKS[0])
    cluster.actors[0].said = [[{"say": "broken", "error": "There is no target x.", "kind": "impossible"}]]
    with pytest.raises(HeadwayError, match=r"There is no target x\."):
        executor.messages(0.1)


def fake_ray(init: Callable[..., None]) -> Any:
    return SimpleNamespace(init=init)


def test_a_cluster_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setattr(sweep_ray, "CONNECT_S", 0.1)
    monkeypatch.setitem(sys.modules, "ray", fake_ray(lambda **_: __import__("time").sleep(1)))
    with pytest.raises(HeadwayError, match=r"No Ray cluster answers at 10\.0\.0\.1:1; start it or check"):
        RayExecutor({}, 1, "10.0.0.1:1")

    def refuse(**_: Any) -> None:
        raise ConnectionError("InvalidAuthToken: the token is missing")

    monkeypatch.setitem(sys.modules, "ray", fake_ray(refuse))
    with pytest.raises(HeadwayError, match=r"token is missing\. If it has another token"):
        RayExecutor({}, 1, "10.0.0.1:1")
