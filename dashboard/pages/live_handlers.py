"""What the events of the Live page do: form values in, values of components out. Never raises; errors become one
sentence.

`link` is the value of the page's RunLink: {run, request, error, at}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import gradio as gr

from backend.engine.protocol import DecodeRequest
from dashboard.pages.live_form import DRAFTERS
from dashboard.presenters.command import Started, as_command, as_yaml
from dashboard.presenters.drafters import drafter_choice
from dashboard.presenters.form import CHAT, EXACT, TYPICAL, FormValues, form_from_request, to_request
from dashboard.presenters.runs import request_from
from dashboard.runs import PERSONS_ERRORS, Runs, ShownRun, one_sentence

NO_RUN = {"run": None, "request": None, "error": None}


class Handlers:
    def __init__(self, runs: Runs, demos: list[dict[str, str]], first: FormValues) -> None:
        self._runs = runs
        self._demos = demos
        self._first = first

    def run(self, *values: Any) -> dict[str, Any]:
        *fields, link = values
        return self._start(lambda: to_request(FormValues.from_components(fields), earlier_turns(link)), link)

    def run_again(self, *values: Any) -> Any:
        """A knob was changed: run again when the person wants that and has run something."""
        *rest, auto = values
        return self.run(*rest) if auto and (rest[-1] or {}).get("run") else gr.skip()

    def reply(self, *values: Any) -> tuple[Any, Any, Any]:
        """The prompt so far and its answer become earlier turns, the reply becomes the prompt. Link, prompt, reply
        box.
        """
        *fields, link, text = values
        form = FormValues.from_components(fields)

        def request() -> DecodeRequest:
            return to_request(replace(form, prompt=text, mode=CHAT), self._turns_with_answer(link))

        value = self._start(request, link)
        return (value, form.prompt, text) if value["error"] else (value, text, "")

    def new_chat(self) -> tuple[Any, Any, Any]:
        return dict(NO_RUN), "", ""

    def open(self, event: gr.EventData) -> list[Any]:
        """A run was chosen from the list: the form and the link."""
        return self._opened(str(event.run))

    def load(self, request: gr.Request) -> list[Any]:
        """The page was loaded: re-attach to the run in its address, or start the demo. The form and the link.

        An address may name what to begin with, as those of the Train and Sweep pages do.
        """
        run_id = request.query_params.get("run")
        if run_id:
            return self._opened(run_id)
        named = named_in(request.query_params)
        form = replace(self._first, **named) if named else self._usable(self._first)
        if request.query_params.get("demo"):
            return self._filled(form, self._start(lambda: to_request(form), None))
        return self._filled(form, dict(NO_RUN))

    def choices(self, target: str) -> Any:
        """What can draft for this target. A target that cannot be is told at Run."""
        offered = self._drafters(target)
        return gr.update(choices=[drafter_choice(one, target) for one in offered] or list(DRAFTERS))

    def command(self, *values: Any) -> dict[str, Any]:
        return self._text(as_command, values)

    def yaml(self, *values: Any) -> dict[str, Any]:
        return self._text(as_yaml, values)

    def pick(self, event: gr.EventData) -> str:
        index = event.index
        return self._demos[index]["prompt"] if isinstance(index, int) and 0 <= index < len(self._demos) else ""

    def _text(self, make: Callable[[DecodeRequest, Started], str], values: tuple[Any, ...]) -> dict[str, Any]:
        *fields, link = values
        try:
            request = to_request(FormValues.from_components(fields), earlier_turns(link))
            return {"text": make(request, self._runs.started_with())}
        except Exception as error:
            return {"text": f"# {one_sentence(error)}"}

    def _start(self, request: Callable[[], DecodeRequest], link: Any) -> dict[str, Any]:
        """Submits, then stops the run this page started before; a refused request leaves the page as it is, with a
        sentence. A run that was only looked at may be somebody else's, so it is left alone.
        """
        before = (link or {}).get("run") if (link or {}).get("own") else None
        try:
            made = request()
            started = self._runs.submit(made)  # a refused request stops nothing
            if before:
                self._runs.cancel(before)
            return link_value(started) | {"own": True}
        except Exception as error:
            return refused(link, error)

    def _opened(self, run_id: str) -> list[Any]:
        try:
            shown = self._runs.find(run_id)
        except Exception as error:
            return self._filled(self._first, refused(None, error))
        form = form_from_request(shown.request)[0] if shown.request else self._first
        return self._filled(form, link_value(shown))

    def _filled(self, form: FormValues, link: dict[str, Any]) -> list[Any]:
        """Values for all fields and the link; the drafter's picker gets its choices at the same time."""
        values: dict[str, Any] = dict(zip(FormValues.__dataclass_fields__, form.to_components(), strict=True))
        values["drafter"] = self.choices(form.target) | {"value": form.drafter}
        return [*values.values(), link]

    def _usable(self, form: FormValues) -> FormValues:
        """The first form, with a drafter that is there: the built-in heads may not have been made yet."""
        specs = [str(one["spec"]) for one in self._drafters(form.target)]
        return form if form.drafter in specs or not specs else replace(form, drafter=specs[0])

    def _drafters(self, target: str) -> list[dict[str, Any]]:
        try:
            return self._runs.drafters(target)
        except PERSONS_ERRORS:
            return []

    def _turns_with_answer(self, link: Any) -> list[dict[str, str]]:
        """The turns of the run that is shown, with its answer."""
        shown = request_from((link or {}).get("request"))
        if shown is None:
            return []
        form, turns = form_from_request(shown)
        answer = self._runs.answer(link["run"])
        return [*turns, {"role": "user", "content": form.prompt}, {"role": "assistant", "content": answer}]


def named_in(query: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the form that an address names; what can't be read is left out."""
    found: dict[str, Any] = {
        name: query[name] for name in ("target", "drafter", "tree", "max_depth", "prompt") if query.get(name)
    }
    for name in ("temperature", "epsilon", "delta"):
        with suppress(KeyError, ValueError):
            found[name] = float(query[name])
    if query.get("rule"):
        found["rule"] = TYPICAL if query["rule"] == "typical" else EXACT
    if query.get("sampled"):
        found["sampled"] = query["sampled"] == "on"
    return found


def link_value(shown: ShownRun) -> dict[str, Any]:
    request = shown.request.model_dump(mode="json") if shown.request else None
    return {"run": shown.run_id, "request": request, "error": None}


def refused(link: Any, error: Exception) -> dict[str, Any]:
    """The same run as before with a sentence; `at` differs each time, so that the same sentence twice is news twice."""
    value = dict(link or {"run": None, "request": None})
    return value | {"error": one_sentence(error), "at": int(value.get("at") or 0) + 1}


def earlier_turns(link: Any) -> list[dict[str, str]]:
    """The turns before the prompt of the run that is shown."""
    shown = request_from((link or {}).get("request"))
    return form_from_request(shown)[1] if shown is not None else []
