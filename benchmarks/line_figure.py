"""Small line charts as SVG files for the documentation: light and dark readers both see them. Knows no measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 56, 16, 34, 44
COLOURS = ("#2f7d4f", "#b4552d", "#3a66b7", "#8a5aa8", "#8a7a1f", "#5c6670")
DASHES = ("", "7 4", "2 4", "10 3 2 3")

Line = Sequence[tuple[float, float]]


def line_figure(
    path: Path,
    title: str,
    lines: Mapping[str, Line],
    x: tuple[str, Sequence[float]],
    y: tuple[str, Sequence[float]],
    dashed: Mapping[str, int] | None = None,
) -> None:
    """Write a chart. `lines`: name -> points (x, y) in order; `x`, `y`: label and ticks, which span the axes; `dashed`:
    by name which dash pattern, and lines that differ in it alone share a colour in the order of their names.
    """
    dashed = dashed or {}
    (x_label, x_ticks), (y_label, y_ticks) = x, y

    def across(value: float) -> float:
        return LEFT + (value - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]) * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - (value - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text x="{LEFT}" y="18" font-weight="600" font-size="14">{escape(title)}</text>']
    for tick in y_ticks:
        height = f'y1="{up(tick):.1f}" y2="{up(tick):.1f}"'
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" {height} stroke="#c8ccd0"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in x_ticks:
        parts.append(f'<text x="{across(tick):.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{tick:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    colours: dict[int, int] = {}
    rows = 24 + 18 * len(lines)
    for number, (name, points) in enumerate(lines.items()):
        dash = dashed.get(name, 0)
        colour = COLOURS[colours.setdefault(dash, 0) % len(COLOURS)]
        colours[dash] += 1
        stroke = f'stroke="{colour}" stroke-width="2.2" stroke-dasharray="{DASHES[dash % len(DASHES)]}"'
        drawn = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in points)
        parts.append(f'<polyline points="{drawn}" fill="none" {stroke}/>')
        parts += [f'<circle cx="{across(a):.1f}" cy="{up(b):.1f}" r="3" fill="{colour}"/>' for a, b in points]
        below = HEIGHT + 14 + 18 * number
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + 30}" y1="{below}" y2="{below}" {stroke}/>')
        parts.append(f'<text x="{LEFT + 38}" y="{below + 4}">{escape(name)}</text>')
    size = f'width="{WIDTH}" height="{HEIGHT + rows}" viewBox="0 0 {WIDTH} {HEIGHT + rows}"'
    ground = f'<rect width="{WIDTH}" height="{HEIGHT + rows}" fill="#ffffff"/>'
    text = f'<g font-family="sans-serif" font-size="12" fill="#333b43">{"".join(parts)}</g>'
    path.parent.mkdir(parents=True, exist_ok=True)
    about = f'xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}"'
    path.write_text(f"<svg {about}>{ground}{text}</svg>\n", encoding="utf-8")
