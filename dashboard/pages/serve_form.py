"""The left side of the Serve page: the server, the load test and the comparison. Wires nothing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from backend.errors import HeadwayError
from dashboard.pages.trees_form import numbers
from dashboard.presenters.targets import TARGETS

START_OWN = "own"  #: as the server of a measurement: vLLM is started for it
OWN_WORDS = "Start vLLM for it"


@dataclass(frozen=True)
class ServeValues:
    """What stands in the form, in the order of its components."""

    target: str = "smollm2-135m"
    drafter: str = "builtin-medusa"
    num_tokens: float | None = None
    port: float | None = 8000
    max_model_len: float | None = 2048
    max_num_seqs: float | None = 16
    temperature: float | None = 0
    url: str = ""
    server: str = START_OWN
    plain: str = ""
    prompts: str = ""
    limit: float | None = 20
    max_new_tokens: float | None = 64
    clients: str = "1, 2, 4, 8"
    rates: str = ""
    seconds: float | None = 20
    rounds: float | None = 2

    def serving(self) -> dict[str, Any]:
        """The config of a server."""
        return self._served() | {"port": int(self.port or 0), "temperature": float(self.temperature or 0)}

    def watching(self) -> dict[str, Any]:
        """The config of watching a running server. Raises HeadwayError without a URL."""
        if not (self.url or "").strip():
            raise HeadwayError("Type the URL of the running server, such as http://127.0.0.1:8000.")
        return {"url": self.url.strip()}

    def loading(self) -> dict[str, Any]:
        """The config of a load test. Raises HeadwayError for what is missing or no number."""
        clients = [int(one) for one in numbers(self.clients, "Clients")] if (self.clients or "").strip() else []
        rates = numbers(self.rates, "Arrivals") if (self.rates or "").strip() else []
        return self._measured() | {
            "clients": clients, "rates": rates, "seconds": float(self.seconds or 0), "rounds": int(self.rounds or 1),
            "temperature": float(self.temperature or 0),
        }  # fmt: skip

    def comparing(self) -> dict[str, Any]:
        """The config of a comparison with Headway's own decoding. Raises HeadwayError for what is missing."""
        return self._measured()

    def _served(self) -> dict[str, Any]:
        return {
            "target": self.target, "drafter": self.drafter,
            "num_tokens": int(self.num_tokens) if self.num_tokens else None,
            "max_model_len": int(self.max_model_len or 0), "max_num_seqs": int(self.max_num_seqs or 0),
        }  # fmt: skip

    def _measured(self) -> dict[str, Any]:
        files = [line.strip() for line in (self.prompts or "").splitlines() if line.strip()]
        if not files:
            raise HeadwayError("Type the path of a file with prompts; a measurement needs some.")
        own = self.server in ("", START_OWN)
        places = {} if own else {"url": self.server, "plain_url": (self.plain or "").strip() or None}
        asked = {
            "prompts": files,
            "limit": int(self.limit) if self.limit else None,
            "max_new_tokens": int(self.max_new_tokens or 0),
        }
        return self._served() | places | asked

    def to_components(self) -> list[Any]:
        return [getattr(self, one.name) for one in fields(self)]


@dataclass(frozen=True)
class ServeForm:
    """The components; `fields` are those of ServeValues, in its order."""

    by_name: dict[str, Any]
    start: gr.Button
    watch: gr.Button
    load: gr.Button
    compare: gr.Button

    @property
    def fields(self) -> list[Any]:
        return [self.by_name[one.name] for one in fields(ServeValues)]

    def __getitem__(self, name: str) -> Any:
        return self.by_name[name]


def build_form(first: ServeValues, drafters: list[tuple[str, str]]) -> ServeForm:
    with gr.Column(elem_id="hw-serve-form", elem_classes="hw-panel", min_width=260):
        by_name = _what(first, drafters)
        start = gr.Button("Start vLLM", variant="primary", elem_id="hw-serve-start")
        with gr.Accordion("Watch a running server", open=False, elem_id="hw-serve-running", elem_classes="hw-more"):
            by_name["url"] = gr.Textbox(
                first.url, label="URL", lines=1, placeholder="http://127.0.0.1:8000", elem_id="hw-serve-url",
                info="Of any OpenAI-compatible server; drafts are only counted by vLLM.",
            )  # fmt: skip
            watch = gr.Button("Watch it", elem_id="hw-serve-watch")
        by_name |= _measuring(first)
        load = gr.Button("Load test", variant="primary", elem_id="hw-serve-load")
        compare = gr.Button("Compare with Headway", elem_id="hw-serve-compare")
    return ServeForm(by_name, start, watch, load, compare)


def _what(first: ServeValues, drafters: list[tuple[str, str]]) -> dict[str, Any]:
    target = gr.Dropdown(
        list(TARGETS), value=first.target, allow_custom_value=True, label="Target", elem_id="hw-serve-target",
        info="The model that is served; or type a folder, GGUF or hub id.",
    )  # fmt: skip
    drafter = gr.Dropdown(
        drafters or [(first.drafter, first.drafter)], value=first.drafter, allow_custom_value=True, label="Drafter",
        elem_id="hw-serve-drafter", info="Is exported for vLLM; or type draft:MODEL or the folder of an export.",
    )  # fmt: skip
    with gr.Row():
        tokens = gr.Number(
            first.num_tokens, label="Drafted tokens", precision=0, min_width=90, info="Empty: its depth."
        )
        port = gr.Number(first.port, label="Port", precision=0, min_width=90, info="0: any free one.")
    with gr.Row():
        length = gr.Number(first.max_model_len, label="Longest text", precision=0, min_width=90, info="In tokens.")
        rows = gr.Number(first.max_num_seqs, label="Batch", precision=0, min_width=90, info="Most requests at once.")
    temperature = gr.Number(
        first.temperature, label="Temperature", step=0.1, elem_id="hw-serve-temperature",
        info="Must be 0 where a CPU build drafts: sampling is broken in it.",
    )  # fmt: skip
    return {"target": target, "drafter": drafter, "num_tokens": tokens, "port": port, "max_model_len": length,
            "max_num_seqs": rows, "temperature": temperature}  # fmt: skip


def _measuring(first: ServeValues) -> dict[str, Any]:
    with gr.Accordion("Measure", open=True, elem_id="hw-serve-measure", elem_classes="hw-more"):
        server = gr.Dropdown(
            [(OWN_WORDS, START_OWN)], value=first.server, label="Server",
            allow_custom_value=True, elem_id="hw-serve-server",
            info="With and without the drafter; or one that runs: choose it or type its URL.",
        )  # fmt: skip
        plain = gr.Textbox(
            first.plain, label="Without a drafter", lines=1, placeholder="URL, or empty",
            info="Where a running server is measured: a second one to compare with.",
        )  # fmt: skip
        prompts = gr.Textbox(
            first.prompts, label="Prompt files", lines=1, max_lines=4, elem_id="hw-serve-prompts", info="One a line.",
        )  # fmt: skip
        with gr.Row():
            limit = gr.Number(first.limit, label="Prompts", precision=0, min_width=90, info="First N of a file.")
            new = gr.Number(first.max_new_tokens, label="Longest answer", precision=0, min_width=90, info="In tokens.")
        with gr.Row():
            clients = gr.Textbox(first.clients, label="Clients", lines=1, min_width=90, info="At the same time.")
            rates = gr.Textbox(
                first.rates, label="Arrivals a second", lines=1, min_width=90, info="At random (Poisson)."
            )
        with gr.Row():
            seconds = gr.Number(first.seconds, label="Seconds", precision=0, min_width=90, info="Of each load.")
            rounds = gr.Number(first.rounds, label="Rounds", precision=0, min_width=90, info="In alternating order.")
    return {"server": server, "plain": plain, "prompts": prompts, "limit": limit, "max_new_tokens": new,
            "clients": clients, "rates": rates, "seconds": seconds, "rounds": rounds}  # fmt: skip
