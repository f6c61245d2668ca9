"""Which cause is looked for how: from what was measured (doctor_trials.py) to findings (analysis/doctor.py).

Each function gives the findings of one kind of evidence, and says in `untested` what it could not look at, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from backend.analysis.bootstrap import FEWEST
from backend.analysis.calibration import UNKNOWN
from backend.analysis.doctor import (
    LEAST_SHARE,
    Finding,
    Lengths,
    bounded,
    convention,
    coverage,
    gained,
    label_offset,
    rates_by_depth,
    stored_gap,
    undone,
    untrained_depth,
    weakest_group,
)
from backend.data.answers import read_any
from backend.drafters.checkpoint import DrafterMeta
from backend.drafters.faults import Fault, layers_to_try, likely_map, trained_depth
from backend.drafters.registry import stored_tree
from backend.jobs.doctor_trials import Trials
from backend.jobs.tune_conditions import check_here
from backend.jobs.tune_sources import cost_at
from backend.targets.target import FINAL
from backend.trees import TreeShape
from backend.tuning.cost_curve import CostCurve, Growth
from backend.tuning.forcing import ForcedText, Reading

FEW_ANSWERS = 24  #: of the training answers
SIZE_SHIFT = 1.25  #: times larger or smaller that states have to be
ALIGNED = 0.7  #: cosine of directions below which they have turned


@dataclass
class Causes:
    """One drafter's causes. `meta`: None for drafters that were not trained; `tensors`: as they stand in its file."""

    trials: Trials
    meta: DrafterMeta | None
    tensors: dict[str, Tensor]
    untested: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        t = self.trials
        hits = np.concatenate([walk.ranks for walk in t.hits()])
        self.rates = rates_by_depth(hits == 0, hits != UNKNOWN)
        self.stored = self._stored()

    def _stored(self) -> float | None:
        """The acceptance length that was reached when it was trained, with this tree where that is known."""
        if self.meta is None:
            return None
        numbers = self.meta.numbers
        own = stored_tree(self.meta) == self.trials.tree
        found = numbers.get("expected_acceptance_length") if own else None
        found = found or numbers.get("decoded_acceptance_length")
        return float(found) if isinstance(found, int | float) else None

    def skip(self, kinds: str, reason: str) -> None:
        for kind in kinds.split():
            self.untested.append({"kind": kind, "reason": reason})

    def all(self, static: Sequence[Fault]) -> list[Finding | None]:
        """Everything that can be found."""
        found: list[Finding | None] = [self.certain(fault) for fault in static]
        if self.meta is not None:
            for part in (self._layers, self._states, self._map, self._format, self._temperature, self._guesses,
                         self._answers, self._prompts, self._context, self._dtype):  # fmt: skip
                found += list(part())
        else:
            self.skip("weights-differ wrong-layers states-size vocab-map prompt-format temperature-shift label-offset "
                      "text-not-own prompt-trained too-little-data domain-shift",
                      "it was not trained: it has no folder that says for what")  # fmt: skip
        found += list(self._cost())
        found += list(self._expected())
        if self.meta is not None:
            found += list(self._domain(found))
        return found

    def certain(self, fault: Fault) -> Finding:
        low, high = stored_gap(self.trials.now, self.stored)
        how = "0 to what it once reached" if high is not None else ""
        return Finding(fault.kind, fault.what, "certain", {}, None, low, high, how)

    # -- undone --------------------------------------------------------------------------------------------------------

    def _layers(self) -> Iterator[Finding | None]:
        t, reads = self.trials, self.trials.drafter.reads
        if reads:
            others = layers_to_try(reads, t.target.num_layers, FINAL)
            readings = {name: Reading(layers=layers) for name, layers in others.items()}
        else:
            below = t.target.num_layers
            others = {"the state before the final norm": (below,), "the layer below": (below - 1,)}
            readings = {name: Reading(hidden=layers[0]) for name, layers in others.items()}
        lengths = {name: t.tried(name, reading=reading) for name, reading in readings.items()}
        found = undone("wrong-layers", t.now, lengths, "It reads other states than it was trained on: {name} fits.")
        if found is not None:
            layers = list(others[str(found.evidence["tried"])])
            yield _with(found, {"reads": list(reads) or [FINAL], "fits": layers})

    def _states(self) -> Iterator[Finding | None]:
        assert self.meta is not None
        t, stored = self.trials, self.meta.numbers.get("states")
        if not isinstance(stored, dict) or not stored:
            self.skip("states-size states-direction", "the drafter does not say how large the states were in training")
            return
        now = t.states()
        ratios = {name: stored[name]["rms"] / max(now[name]["rms"], 1e-12) for name in stored if name in now}
        off = {name: ratio for name, ratio in ratios.items() if not 1 / SIZE_SHIFT < ratio < SIZE_SHIFT}
        evidence = {"trained": {n: stored[n]["rms"] for n in ratios}, "now": {n: now[n]["rms"] for n in ratios}}
        if off:

            def of_training(layer: int, states: Tensor) -> Tensor:
                resized: Tensor = states * ratios.get(str(layer), 1.0)
                return resized

            lengths = {"the size of training": t.tried("states resized", reading=Reading(change=of_training))}
            sizes = ", ".join(f"layer {name}: {ratio:.2g} times" for name, ratio in off.items())
            found = undone(
                "states-size", t.now, lengths, f"The states were of another size in training ({sizes}).", evidence
            )
            yield found or Finding("states-size", f"The states were of another size in training ({sizes}).", "hint",
                                   evidence)  # fmt: skip
        turned = {n: _cosine(stored[n].get("direction", []), now[n]["direction"]) for n in ratios}
        if turned and min(turned.values()) < ALIGNED and self.stored is not None:
            worst = min(turned, key=lambda name: turned[name])
            found = bounded(
                "states-direction",
                f"The mean state of layer {worst} points elsewhere than in training (cosine {turned[worst]:.2f}).",
                self.stored - t.now.value, {"cosine": {n: round(c, 3) for n, c in turned.items()}},
                "0 to what it once reached",
            )  # fmt: skip
            if found is not None:
                yield found

    def _map(self) -> Iterator[Finding | None]:
        assert self.meta is not None
        t = self.trials
        found = likely_map(self.tensors, t.target.lm_head_weight())
        if found is None:
            self.skip("vocab-map", "its output rows resemble those of no token, or are the target's")
            return
        wrong, better = found
        if wrong < 0.1:
            return
        meta, tensors = self.meta, self.tensors
        lengths = {"rows": t.tried("token map by likeness", drafter=lambda: t.with_map(meta, tensors, better))}
        sentence = f"{100 * wrong:.0f} % of its output rows are mapped to other tokens than those they resemble."
        made = undone("vocab-map", t.now, lengths, sentence, {"wrong": round(wrong, 3)})
        if made is not None:
            yield made

    def _format(self) -> Iterator[Finding | None]:
        t = self.trials
        if not getattr(t.target.tokenizer, "chat_template", None):
            self.skip("prompt-format", "the target has no chat template")
            return
        raw = not t.config.raw
        other = "raw text" if raw else "the chat template"
        lengths = {other: t.tried(other, texts=lambda: t.own_texts(t.config.temperature, raw))}
        found = undone("prompt-format", t.now, lengths, "It does better with prompts as {name}: it was trained so.")
        if found is not None:
            yield found

    def _temperature(self) -> Iterator[Finding | None]:
        assert self.meta is not None
        t, trained = self.trials, self.meta.lineage.get("temperatures")
        if not trained:
            self.skip("temperature-shift", "the drafter does not say at which temperatures its answers were given")
            return
        served = t.config.temperature
        if any(abs(one - served) < 0.05 for one in trained):
            return
        near = float(min(trained, key=lambda one: abs(one - served)))
        name = f"T = {near:g}"
        lengths = {name: t.tried(name, texts=lambda: t.own_texts(near, t.config.raw))}
        found = undone(
            "temperature-shift", t.now, lengths,
            f"Served at T = {served:g}, but trained on answers given at {{name}}.", {"trained": trained},
        )  # fmt: skip
        if found is not None:
            yield found

    # -- from the guesses ----------------------------------------------------------------------------------------------

    def _guesses(self) -> Iterator[Finding | None]:
        assert self.meta is not None
        t = self.trials
        shifts = (-1, 0, 1, 2)
        yield label_offset({s: t.chain_lengths(s) for s in shifts}, {s: t.first_guess(s) for s in shifts}, t.now)
        yield untrained_depth(self.rates, trained_depth(self.meta.lineage), t.now)
        drafted = self.tensors.get("token_map")
        if drafted is not None:
            known = set(drafted.tolist())
            tokens = [token for text in t.texts for token in text.tokens[1:]]
            yield coverage(t.now, self.rates, sum(token in known for token in tokens), len(tokens))

    def _prompts(self) -> Iterator[Finding | None]:
        """A drafter that learned the prompts guesses them better than the answers."""
        t = self.trials
        texts = [ForcedText(o.name, o.category, o.prompt[:2], o.prompt[2:]) for o in t.texts if len(o.prompt) >= 6]
        if len(texts) < FEWEST:
            self.skip("prompt-trained", "the prompts are too short or too few")
            return
        on_prompts = t.tried("guesses along the prompts", texts=lambda: texts)
        gain, span = gained(t.now, on_prompts)
        if span is not None and span.low > 0:
            found = bounded(
                "prompt-trained",
                f"It guesses the prompts better ({on_prompts.value:.2f}) than the answers ({t.now.value:.2f}): it was "
                "trained on what is asked, not on what is answered.",
                gain, {"prompts": round(on_prompts.value, 3), "answers": round(t.now.value, 3)},
                "0 to what it reaches on prompts",
            )  # fmt: skip
            if found is not None:
                yield found

    def _answers(self) -> Iterator[Finding | None]:
        t, path = self.trials, self.trials.config.answers
        if path is None:
            self.skip("text-not-own too-little-data", "the training answers are not given: --answers")
            return
        answers = [a for a in read_any(Path(path).expanduser()) if len(a.answer_ids) >= 2 and a.prompt_ids]
        answers = [a for a in answers if len(a.prompt_ids) + len(a.answer_ids) <= t.target.max_context][:FEW_ANSWERS]
        if len(answers) < FEWEST:
            self.skip("text-not-own too-little-data", f"fewer than {FEWEST} of the training answers can be read")
            return
        texts = [ForcedText(a.question_id, a.category, a.prompt_ids, a.answer_ids) for a in answers]
        learned = t.tried("guesses along the training answers", texts=lambda: texts)
        triples = [(a.prompt_ids, a.answer_ids, a.temperature) for a in answers]
        share, expected, tokens = t.likeliest(triples)
        span, theirs = t.now.span(), learned.span()
        evidence = {"share": round(share, 3), "expected": round(expected, 3), "tokens": tokens,
                    "on_training_answers": round(learned.value, 3)}  # fmt: skip
        if share < expected - 0.1:
            yield bounded(
                "text-not-own",
                f"{100 * share:.0f} % of its training tokens are the target's likeliest, and in answers of its own "
                f"{100 * expected:.0f} % are: it learned another model's text.",
                learned.value - t.now.value, evidence, "0 to what it reaches on the text it learned",
            )  # fmt: skip
        elif span is not None and theirs is not None and theirs.low > span.high:
            if self.stored is not None and self.stored > span.high + 0.1:
                return  # it once did well on text it had not seen
            yield bounded(
                "too-little-data",
                f"It guesses what it learned ({learned.value:.2f}) far better than new text ({t.now.value:.2f}).",
                learned.value - t.now.value,
                evidence | {"answer_tokens": self.meta.lineage.get("answer_tokens") if self.meta else None},
                "0 to what it reaches on its training answers",
            )  # fmt: skip

    # -- other text ----------------------------------------------------------------------------------------------------

    def _context(self) -> Iterator[Finding | None]:
        assert self.meta is not None
        t, longest = self.trials, self.meta.numbers.get("longest_text")
        if not isinstance(longest, int):
            self.skip("context-shift", "the drafter does not say how long its training texts were")
            return
        beyond = [len(text.prompt) + len(text.tokens) // 2 > longest for text in t.texts]
        words = f"texts longer than the {longest} tokens it was trained with"
        groups = {words: self._part(beyond), "others": self._part([not one for one in beyond])}
        if sum(beyond) and sum(beyond) < len(beyond):
            yield weakest_group(
                "context-shift",
                groups,
                "Accepts {length:.2f} tokens a step with {name} and {others:.2f} with the others.",
            )
        elif sum(beyond) and self.stored is not None:
            yield bounded(
                "context-shift", f"All prompts are {words}, and it accepts less than it once did.",
                self.stored - t.now.value, {"longest_text": longest}, "0 to what it once reached",
            )  # fmt: skip

    def _part(self, chosen: Sequence[bool]) -> Lengths:
        now = self.trials.now
        pairs = zip(now.tokens, now.steps, chosen, strict=True)
        kept = [(tokens, steps) for tokens, steps, here in pairs if here]
        return Lengths(tuple(t for t, _ in kept), tuple(s for _, s in kept))

    def _domain(self, found: Sequence[Finding | None]) -> Iterator[Finding | None]:
        t, categories = self.trials, sorted({text.category for text in self.trials.texts})
        groups = {name: self._part([text.category == name for text in t.texts]) for name in categories}
        if len(groups) > 1:
            yield weakest_group(
                "domain-shift",
                groups,
                "Prompts of “{name}” are accepted less ({length:.2f}) than the others ({others:.2f}).",
            )
        span = t.now.span()
        known = any(one is not None and one.how != "hint" for one in found)
        if self.stored is None:
            self.skip("domain-shift", "the drafter does not say what it reached on held-out text")
        elif span is not None and span.high < self.stored - 0.1 and not known:
            yield bounded(
                "domain-shift",
                f"These prompts are accepted less ({t.now.value:.2f}) than those it was held out on ({self.stored:.2f})"
                ", and nothing else that was tested explains it: other text than it learned.",
                self.stored - t.now.value, {"stored": self.stored}, "0 to what it once reached",
            )  # fmt: skip

    # -- cost and counting ---------------------------------------------------------------------------------------------

    def _cost(self) -> Iterator[Finding | None]:
        t = self.trials
        if t.config.cost is None:
            self.skip("tree-too-deep tree-too-wide", "no cost curve is given: --cost")
            return
        curve = cost_at(t.config.cost, t.context.store)
        check_here(curve.conditions)
        context = round(float(np.mean([len(text.prompt) + len(text.tokens) / 2 for text in t.texts])))
        depth, width = t.tree.max_depth, max(max(path) for path in t.tree.paths)
        cuts = {f"depth {d}": t.tree.cut(d) for d in range(1, depth)} | {"plain decoding": TreeShape(())}
        thin = {f"{r} siblings": TreeShape(tuple(p for p in t.tree.paths if max(p) < r)) for r in range(1, width + 1)}
        own = self._speed(curve, t.tree, context)
        for kind, trees in (("tree-too-deep", cuts), ("tree-too-wide", thin)):
            speeds = {name: self._speed(curve, tree, context) for name, tree in trees.items()}
            best = max(speeds, key=lambda name: speeds[name], default=None)
            if best is not None and speeds[best] > own * (1 + LEAST_SHARE):
                gain = speeds[best] / own - 1
                yield Finding(
                    kind, f"With {best} it would be {100 * gain:.0f} % faster: the tree costs more than it brings.",
                    "speed", {"tokens_per_s": round(own, 2), "best": best, "best_tokens_per_s": round(speeds[best], 2),
                              "speed_gain": round(gain, 4)}, told_by="replayed lengths over the given costs",
                )  # fmt: skip

    def _speed(self, curve: CostCurve, tree: TreeShape, context: int) -> float:
        length = self.trials.lengths(self.trials.guesses, tree).value if tree.num_nodes else 1.0
        return 1000 * length / curve.step(Growth.of(tree), 1, context).ms

    def _expected(self) -> Iterator[Finding | None]:
        t = self.trials
        if t.config.expected is None:
            self.skip("metric-convention", "no number to compare with is given: --expected")
            return
        drafted = sum(t.now.steps) * t.tree.num_nodes
        yield convention(t.now, drafted, t.config.expected)

    def _dtype(self) -> Iterator[Finding | None]:
        assert self.meta is not None
        trained = self.meta.lineage.get("dtype")
        here = str(self.trials.target.dtype).removeprefix("torch.")
        if trained is None:
            self.skip("dtype-differs", "the drafter does not say in which dtype the target was in training")
        elif trained != here:
            yield Finding(
                "dtype-differs", f"The target was {trained} in training and is {here} here.", "hint",
                {"trained": trained, "now": here},
            )  # fmt: skip


def _with(found: Finding, more: dict[str, Any]) -> Finding:
    return Finding(**{**found.__dict__, "evidence": {**found.evidence, **more}})


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    if len(first) != len(second) or not first:
        return 1.0
    a, b = np.array(first), np.array(second)
    return float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-12))
