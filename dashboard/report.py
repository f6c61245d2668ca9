"""A comparison as one HTML file that needs nothing else: its data, the modules that draw it, their style sheet.

The modules are those of the page, put one behind the other in the order of their imports, so the report shows what the
page shows. Knows no comparison.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from html import escape
from typing import Any

from backend.glossary import glossary
from dashboard.components.assets import assets

MODULES = ("js/dom.js", "js/compare_charts.js", "js/compare_view.js")
STYLES = ("css/headway.css", "css/live.css", "css/runs.css", "css/evaluate.css", "css/compare.css")
IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE | re.DOTALL)
OWN_STYLE = (
    "body{margin:0 auto;max-width:1180px;padding:20px;color:var(--hw-text);font:14px/1.5 system-ui,sans-serif}"
    "@media (prefers-color-scheme:dark){body:not(.light){color-scheme:dark}}"
)
#: on the page a click on a figure's name opens its entry of the glossary; here a pointer over it shows its definition
TERM = "function term(metric, text) { return h('span', { title: EXPLAINED[metric] }, text); }\n"
START = """
if (window.matchMedia("(prefers-color-scheme: dark)").matches) document.body.classList.add("dark");
const view = JSON.parse(document.getElementById("data").textContent);
document.getElementById("report").append(...drawComparison(view));
"""


def comparison_report(view: Mapping[str, Any], made_at: datetime) -> str:
    """The whole file."""
    # "<" is the only character that could end the element, and JSON may spell it out.
    data = json.dumps(view, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    names = " and ".join(str(side["letter"]) for side in view["sides"])
    head = f"Compared with Headway, {made_at:%Y-%m-%d %H:%M} UTC"
    return "".join([
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; ',
        "script-src 'unsafe-inline'; style-src 'unsafe-inline'\">",
        f"<title>{escape(names)} compared</title><style>{_styles()}{OWN_STYLE}</style></head>",
        f'<body class="gradio-container"><p class="hw-muted">{escape(head)}</p><div id="report" class="hw-cmp"></div>',
        f'<script type="application/json" id="data">{data}</script>',
        f'<script type="module">{_script()}{START}</script></body></html>',
    ])  # fmt: skip


def _styles() -> str:
    return "".join(assets()[name].decode() for name in STYLES)


def _script() -> str:
    """The modules as one: what they import stands above them already."""
    texts = [assets()[name].decode() for name in MODULES]
    meanings = {key: f"{one.definition} ({one.formula})" for key, one in glossary().metrics.items()}
    words = f"const EXPLAINED = {json.dumps(meanings, ensure_ascii=False)};\n{TERM}"
    return words + "".join(re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE) for text in texts)
