"""The pure parts of the charts, called in Chromium: curves that grow, are thinned, smoothed, and go back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dashboard.access import AccessPolicy
from dashboard.components.assets import base_path
from dashboard.services import Services
from tests.ui.idle_engine import IdleEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui

SETUP = """async () => {
  Object.assign(window, await import('./charts.js'), await import('./metrics.js'));
  window.curve = (ys) => { const s = new Series(); ys.forEach((y, x) => s.put(x, y)); return s; };
  window.listed = (view) => [Array.from(view.x), Array.from(view.y)];
}"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(Services(IdleEngine(), AccessPolicy.for_bind())) as address:
        yield address


@pytest.fixture
def page(url: str, browser_page: Page) -> Page:
    browser_page.goto(f"{url}{base_path()}/js/text.js")
    browser_page.evaluate(SETUP)
    return browser_page


def test_a_view_keeps_every_spike_in_few_points(page: Page) -> None:
    spikes = "Array.from({length: 30000}, (_, i) => (i === 12345 ? 99 : i === 20001 ? -99 : Math.sin(i)))"
    xs, ys = page.evaluate(f"listed(curve({spikes}).view(-Infinity, Infinity))")
    assert len(xs) <= 1500 and xs == sorted(xs) and (xs[0], xs[-1]) == (0, 29999)
    assert 99 in ys and -99 in ys and xs[ys.index(99)] == 12345
    xs, _ = page.evaluate(f"listed(curve({spikes}).view(12000, 12020))")
    assert xs == list(range(11999, 12022))  # all of the few that are seen, and one more on each side
    assert page.evaluate(f"curve({spikes}).view(-Infinity, Infinity, false, 100).x.length") <= 204


def test_a_step_that_comes_again_replaces_and_a_gap_is_filled(page: Page) -> None:
    xs, ys = page.evaluate(
        "(() => { const s = curve([1, 2, 3]); s.put(1, 9); s.put(5, 5); s.put(4, 4); s.put(6, NaN); "
        "return listed(s.view(-Infinity, Infinity)); })()"
    )
    assert (xs, ys) == ([0, 1, 2, 4, 5], [1, 9, 3, 4, 5])
    xs, _ = page.evaluate(
        "(() => { const s = curve([1, 2, 3, 4]); s.cut(2); s.put(2, 8); return listed(s.view(0, 9)); })()"
    )
    assert xs == [0, 1, 2]


def test_smoothing_follows_what_changed(page: Page) -> None:
    values = [4.0, 2.0, 2.0, 8.0]
    mean = share = 0.0
    expected = []
    for value in values:
        mean, share = 0.9 * mean + 0.1 * value, 0.9 * share + 0.1
        expected.append(mean / share)
    smooth = "(() => { const s = new Series(); s.setSmoothing(0.9); [4, 1, 2, 8].forEach((y, x) => s.put(x, y)); "
    found = page.evaluate(smooth + "s.put(1, 2); return listed(s.view(-Infinity, Infinity, true))[1]; })()")
    assert found == pytest.approx(expected)
    late = "(() => { const s = curve([4, 2, 2, 8]); s.setSmoothing(0.9); return listed(s.view(0, 9, true))[1]; })()"
    assert page.evaluate(late) == pytest.approx(expected)


def test_metrics_find_their_chart_and_go_back_to_a_checkpoint(page: Page) -> None:
    places = page.evaluate(
        "['loss_2', 'held_out_loss_0', 'held_out_top3_1', 'acceptance_length', 'accept_conditional_1', "
        "'held_out_accept_marginal_0', 'learning_rate', 'gradient_norm', "
        "'train_s'].map((name) => { const p = placeOf(name); return p && [p.chart, p.head, p.dashed, p.variant]; })"
    )
    assert places == [
        ["loss", 2, False, None], ["loss", 0, True, None], ["accuracy", 1, False, "top3"],
        ["length", None, False, None], ["acceptance", 1, False, "conditional"], ["acceptance", 0, True, "marginal"],
        ["rate", None, False, None], ["more", None, False, "gradient_norm"], None,
    ]  # fmt: skip
    xs = page.evaluate(
        "(() => { const m = new Metrics(), row = (step, loss) => ({ step, values: { loss } }); "
        "m.take([row(1, 1), row(2, 2), row(3, 3)]); m.cut(2); m.take([row(2, 7)]); "
        "return [m.lastStep, ...listed(m.series.get('loss').view(0, 9))]; })()"
    )
    assert xs == [2, [1, 2], [1, 7]]
