"""The tuned tree against everything else: a grid of 40 trees, Medusa's 63 nodes, EAGLE-2's default, plain decoding.

    python -m benchmarks.tuned_tree --prompts prompts/heldout.jsonl --out tuned.json

Calibrates on every second prompt, measures the cost of passes and drafting, tunes; then every tree answers the other
prompts in turns, prompt by prompt, and the five best and the tuned tree once more. Predicted stands beside measured,
and how long tuning took beside what the grid took; then the same in batches, up to where drafting no longer pays. Goes
on where it stopped when `--out` holds a part of the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from backend.analysis.bootstrap import interval, ratio_draws
from backend.analysis.calibration import replay_lengths
from backend.analysis.counts import PromptCounts, counts_from_dict, prompt_counts, totals_of
from backend.decoding.loop import DecodeSettings, decode
from backend.drafters.base import Drafter
from backend.drafters.checkpoint import write_json_atomically
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.registry import load_drafter
from backend.errors import HeadwayError
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.target import Target
from backend.trees import DynamicShape, TreeShape, chain
from backend.trees.search import best_tree
from backend.trees.shapes import parse_tree
from backend.tuning.calibrating import calibrate, wide_tree
from backend.tuning.calibration import Calibration
from backend.tuning.cost_curve import CostCurve, Growth
from backend.tuning.cost_measure import MOST_ROUNDS, Bench, curve_of, scout, tasks, trees_for
from backend.tuning.dynamic import drafted_of, growth_of
from backend.tuning.tuned import predicted, tune_calibration
from benchmarks.common import add_prompt_arguments, conditions, first_turn_ids, prompt_sets, start_fast, table

GRID = 40
PRODUCTS = ("2", "3", "4", "6", "2x1", "2x2", "3x1", "3x2", "4x1", "4x2", "2x1x1", "2x2x1", "2x2x2", "3x2x1", "3x2x2",
            "4x2x1", "4x2x2", "2x1x1x1", "2x2x1x1", "3x2x1x1", "4x2x2x1")  # fmt: skip
PRIOR = [[0.4, 0.15, 0.08, 0.05, 0.03]] * 6
SIZES = (2, 3, 5, 7, 9, 12, 16, 20, 24, 28, 32, 40, 48, 56)
EAGLE2 = DynamicShape(8, 10, 59)  #: total_token 60 with the root, depth 7 beside the first level, top-k 10
PLAIN, TUNED = "plain", "tuned"
BEST = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_prompt_arguments(parser, limit=40, new_tokens=96)
    parser.add_argument("--drafter", default="builtin-medusa")
    parser.add_argument("--seconds", type=float, default=180.0, help="for the cost curve")
    parser.add_argument("--nodes", type=int, default=63)
    parser.add_argument("--grid", type=int, default=GRID, help="trees of the grid")
    parser.add_argument("--batches", type=int, nargs="*", default=[2, 4, 8, 16], help="measured after the grid")
    parser.add_argument("--repeats", type=int, default=2, help="times the five best answer again")
    args = parser.parse_args()
    start_fast("benchmarks.tuned_tree")
    settings = Settings.from_environ()
    target = open_target(args.target, settings)
    drafter, _ = load_drafter(args.drafter, target, open_target=lambda name: open_target(name, settings))
    run = Run(args, target, drafter)
    run.tune()
    run.measure_all()
    run.measure_batches()
    print(run.report())


class Run:
    """What was found so far, written to `--out` after each prompt."""

    def __init__(self, args: argparse.Namespace, target: Target, drafter: Drafter) -> None:
        self.args, self.target, self.drafter = args, target, drafter
        prompts = [one for listed in prompt_sets(args.prompts, args.limit).values() for one in listed]
        room = args.max_new_tokens + 9
        self.texts = [(one.question_id, one.category, first_turn_ids(target, one, room)) for one in prompts]
        if len(self.texts) < 2:
            raise HeadwayError("Two prompts are needed: one to calibrate on, one to measure on.")
        self.data: dict[str, Any] = {"asked": _asked(args), "answers": {}}
        if args.out and Path(args.out).is_file():
            before = json.loads(Path(args.out).read_text(encoding="utf-8"))
            if before.get("asked") == self.data["asked"]:
                self.data = before
        self.calibration: Calibration | None = None

    def tune(self) -> None:
        """Calibrate and measure on the even prompts; both are kept, so that a run that goes on has the same tree."""
        if "tuned" not in self.data:
            started = time.monotonic()
            self.calibration = self._calibrated()
            self.data["calibration_s"] = time.monotonic() - started
            started = time.monotonic()
            curve = measured_curve(self.target, self.drafter, self.args.seconds, self.args.batches)
            self.data["cost_s"] = time.monotonic() - started
            self.data |= {"cost": curve.to_dict(), "conditions": conditions(self.target)}
            found = tune_calibration(self.calibration, curve, self.args.nodes, batches=(1, *self.args.batches))
            self.data["by_batch"] = {str(size): one.shape.to_json() for size, one, _ in found.batches}
            self.data["predicted_speedups"] = {
                str(size): (one.tokens_per_s or plain) / plain for size, one, plain in found.batches
            }
            self.data["predicted_break_even"] = found.break_even
            self.data["tuned"] = found.best.shape.to_json()
            self.data["expected"] = self._expected(curve)
            self._save()

    def _calibrated(self) -> Calibration:
        wide = wide_tree(self.drafter, 96, 10)
        even = self.texts[::2]
        names = [(question, category) for question, category, _ in even]
        found = calibrate(self.target, wide, [ids for *_, ids in even], names, 0.0, self.args.max_new_tokens, 4, 0,
                          range(len(even)))  # fmt: skip
        walks = tuple(walk for _, walk in sorted(found, key=lambda pair: pair[0]))
        return Calibration(wide.shape, wide.ranks, wide.parallel, walks)

    def _expected(self, curve: CostCurve) -> dict[str, dict[str, Any]]:
        """What is predicted of every contender."""
        assert self.calibration is not None, "tune comes first"
        context = self.calibration.context
        found = {}
        for name, shape in self._shapes().items():
            found[name] = predicted(self.calibration, shape, curve, 1, context).to_dict()
        found[PLAIN] = predicted(self.calibration, TreeShape(()), curve, 1, context).to_dict()
        if self._grows():
            found["eagle-2 default"] = self._expected_of_eagle(self.calibration, curve)
        return found

    def _expected_of_eagle(self, calibration: Calibration, curve: CostCurve) -> dict[str, Any]:
        replayed = replay_lengths([one.accepted(EAGLE2) for one in drafted_of(calibration)])
        step = curve.step(growth_of(EAGLE2, calibration.parallel), 1, calibration.context)
        length = replayed.acceptance_length
        return {"expected_acceptance_length": length, "expected_tokens_per_s": 1000 * length / step.ms}

    def _shapes(self) -> dict[str, TreeShape]:
        """Static trees by name; those that the drafter can't fill are left out, and so are repeats."""
        wanted: dict[str, TreeShape] = {TUNED: TreeShape(tuple(tuple(path) for path in self.data["tuned"]))}
        wanted["medusa-63"] = parse_tree("medusa-63")
        for number, (name, shape) in enumerate(grid(self.drafter)):
            if number < self.args.grid:
                wanted[name] = shape
        return {name: shape for name, shape in wanted.items() if shape.num_nodes and _can(self.drafter, shape)}

    def _grows(self) -> bool:
        return hasattr(self.drafter, "with_dynamic")

    def contenders(self) -> dict[str, Drafter]:
        found: dict[str, Drafter] = {PLAIN: PlainDrafter()}
        found |= {name: self.drafter.with_shape(shape) for name, shape in self._shapes().items()}
        if self._grows():
            with suppress(HeadwayError):  # shallower than its depth
                found["eagle-2 default"] = self.drafter.with_dynamic(EAGLE2)  # type: ignore[attr-defined]
        return found

    # -- measuring -----------------------------------------------------------------------------------------------------

    def measure_all(self) -> None:
        """Everybody on the odd prompts, then the best five and the tuned tree again."""
        everybody = self.contenders()
        started = time.monotonic()
        self._round("0", everybody)
        self.data["grid_s"] = self.data.get("grid_s", 0.0) + time.monotonic() - started
        others = [name for name in everybody if name not in (PLAIN, TUNED)]
        ranked = sorted(others, key=lambda name: -self._speed(name, "0"))
        best = {name: everybody[name] for name in (*ranked[:BEST], TUNED, PLAIN) if name in everybody}
        for repeat in range(1, self.args.repeats + 1):
            self._round(str(repeat), best)
        self._save()

    def _round(self, number: str, contenders: dict[str, Drafter]) -> None:
        odd = self.texts[1::2]
        for place, (question, category, ids) in enumerate(odd):
            names = list(contenders)
            for name in names[place % len(names) :] + names[: place % len(names)]:
                key = f"{number}|{question}|{name}"
                if key not in self.data["answers"]:
                    self.data["answers"][key] = self._answered(contenders[name], question, category, ids).to_dict()
            self._save()

    def _answered(self, drafter: Drafter, question: str, category: str, ids: Sequence[int]) -> PromptCounts:
        settings = DecodeSettings(self.args.max_new_tokens)
        (found,) = prompt_counts(decode(self.target, drafter, [ids], settings), {0: (question, category)})
        return found

    def measure_batches(self) -> None:
        """Plain decoding, the tree tuned for the batch and Medusa's 63 nodes, in turns, with several rows at once."""
        odd = self.texts[1::2]
        for batch in (size for size in self.args.batches if size <= len(odd)):
            for repeat in range(self.args.repeats + 1):
                for name, drafter in self._in_batch(batch).items():
                    key = f"{batch}|{repeat}|{name}"
                    if key not in self.data.setdefault("batches", {}):
                        self.data["batches"][key] = self._together(drafter, odd, batch)
                        self._save()

    def _in_batch(self, batch: int) -> dict[str, Drafter]:
        wanted = {TUNED: TreeShape(tuple(tuple(path) for path in self.data["by_batch"][str(batch)])),
                  "medusa-63": parse_tree("medusa-63")}  # fmt: skip
        found: dict[str, Drafter] = {PLAIN: PlainDrafter()}
        return found | {n: self.drafter.with_shape(one) for n, one in wanted.items() if _can(self.drafter, one)}

    def _together(self, drafter: Drafter, texts: Sequence[tuple[str, str, list[int]]], batch: int) -> list[float]:
        """[tokens, seconds]."""
        named = {place: (question, category) for place, (question, category, _) in enumerate(texts)}
        ids = [one for *_, one in texts]
        found = prompt_counts(decode(self.target, drafter, ids, DecodeSettings(self.args.max_new_tokens), batch), named)
        whole = totals_of(found)
        return [whole.tokens, whole.decode_ms / 1000]

    def answers(self, name: str, rounds: Sequence[str]) -> Iterator[PromptCounts]:
        for key, data in self.data["answers"].items():
            number, _, contender = key.split("|", 2)
            if contender == name and number in rounds:
                yield counts_from_dict(data)

    def _speed(self, name: str, *rounds: str) -> float:
        return totals_of(self.answers(name, rounds)).tokens_per_s

    def _save(self) -> None:
        if self.args.out:
            write_json_atomically(Path(self.args.out), self.data)

    # -- telling -------------------------------------------------------------------------------------------------------

    def report(self) -> str:
        rounds = [str(n) for n in range(1, self.args.repeats + 1)] or ["0"]
        head = ["tree", "nodes", "length", "predicted", "tokens/s", "predicted", "over plain"]
        expected = self.data["expected"]
        shapes = self._shapes()
        rows = [head]
        for name in sorted(self.contenders(), key=lambda one: -self._speed(one, "0")):
            whole, said = totals_of(self.answers(name, ("0",))), expected.get(name, {})
            nodes = shapes[name].num_nodes if name in shapes else 0 if name == PLAIN else EAGLE2.num_nodes
            rows.append([
                name, str(nodes), f"{whole.acceptance_length:.3f}", _told(said.get("expected_acceptance_length"), 3),
                f"{whole.tokens_per_s:.2f}", _told(said.get("expected_tokens_per_s"), 2),
                f"{whole.tokens_per_s / self._speed(PLAIN, '0'):.3f}",
            ])  # fmt: skip
        again = [name for name in self.contenders() if any(True for _ in self.answers(name, rounds))]
        lines = [table(rows), "", f"again, {len(rounds)} times, against the tuned tree:"]
        lines += [self._paired(name, rounds) for name in again if name != TUNED]
        lines += self._batch_lines()
        spent = self.data["calibration_s"] + self.data["cost_s"]
        lines.append(f"tuning took {spent:.0f} s, the grid {self.data['grid_s']:.0f} s")
        return "\n".join(lines)

    def _batch_lines(self) -> list[str]:
        speeds: dict[int, dict[str, list[float]]] = {}
        for key, (tokens, seconds) in self.data.get("batches", {}).items():
            batch, _, name = key.split("|")
            speeds.setdefault(int(batch), {}).setdefault(name, []).append(tokens / seconds)
        lines, losing = [], None
        for batch, found in sorted(speeds.items()):
            middle = {name: statistics.median(values) for name, values in found.items()}
            nodes, said = len(self.data["by_batch"][str(batch)]), self.data["predicted_speedups"][str(batch)]
            tuned, wide = (middle.get(name, middle[PLAIN]) / middle[PLAIN] for name in (TUNED, "medusa-63"))
            words = f"tuned ({nodes} nodes) {tuned:.3f}, predicted {said:.3f}; medusa-63 {wide:.3f}"
            lines.append(f"{batch} at once, over plain: {words}")
            losing = batch if losing is None and tuned <= 1 else losing
        return [*lines, f"break-even batch: predicted {self.data['predicted_break_even']}, measured {losing}"]

    def _paired(self, name: str, rounds: Sequence[str]) -> str:
        """Speed of the tuned tree over another's on the same prompts, prompts resampled whole."""
        ours, theirs = ({one.prompt: 0.0 for one in self.answers(who, rounds)} for who in (TUNED, name))
        for who, times in ((TUNED, ours), (name, theirs)):
            for one in self.answers(who, rounds):
                times[one.prompt] += one.decode_ms / max(1, one.num_tokens - 1)
        both = sorted(set(ours) & set(theirs))
        draws = ratio_draws([theirs[p] for p in both], [ours[p] for p in both], "tuned")
        between = interval(draws, len(both))
        sure = f" ({between.low:.3f} to {between.high:.3f})" if between else ""
        return (
            f"  tuned is {sum(theirs[p] for p in both) / sum(ours[p] for p in both):.3f}{sure} times as fast as {name}"
        )


def grid(drafter: Drafter) -> list[tuple[str, TreeShape]]:
    """Trees that the drafter can fill, without repeats: chains, products, bushes of many sizes and depths."""
    wanted = [(f"chain-{d}", chain(d)) for d in range(1, 7)]
    wanted += [(text, parse_tree(text)) for text in PRODUCTS]
    wanted += [(f"bush-{n} depth {d}", best_tree(PRIOR, n, d)) for n in SIZES for d in (2, 3, 4)]
    found: dict[TreeShape, str] = {}
    for name, shape in wanted:
        if shape not in found and _can(drafter, shape):
            found[shape] = name
    return [(name, shape) for shape, name in found.items()]


def measured_curve(target: Target, drafter: Drafter, seconds: float, batches: Sequence[int]) -> CostCurve:
    """Passes of one sequence and of several, and steps with the drafter."""
    blocks = tasks([1, *batches], [256], 64, trees_for(drafter))
    bench = Bench(target, drafter, [task for block in blocks for task in block])
    started = time.monotonic()
    first, notes = scout(bench, blocks, seconds)
    rounds = [first]
    while len(rounds) < MOST_ROUNDS and (len(rounds) < 3 or time.monotonic() - started < seconds):
        rounds.append({task: bench.time(task) for task in first})
    return curve_of(rounds, drafter.name, notes)


def _can(drafter: Drafter, shape: TreeShape) -> bool:
    try:
        drafter.with_shape(shape)
    except HeadwayError:
        return False
    return Growth.of(shape).nodes > 0


def _told(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """What a run that goes on must have in common with the one before."""
    asked = {name: value for name, value in vars(args).items() if name not in ("out", "repeats")}
    asked["prompts"] = [Path(path).name for path in args.prompts]
    plain: dict[str, Any] = json.loads(json.dumps(asked))
    return plain


if __name__ == "__main__":
    main()
