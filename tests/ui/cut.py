"""Which texts of a page are cut off: by a box that hides what does not fit, by the window's edge, or because they do
not fit into their own box and run over others. Knows no page, but for the few places that shorten a person's own text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: A person's own prompts where they are listed, shortened to a line or two; a click shows the whole.
SHORTENED = ".hw-clip, td.prompt > a, .hw-recent-prompt"

CUT = """(shortened) => {
  const hides = (value) => value === "hidden" || value === "clip";
  const scrolls = (value) => value === "auto" || value === "scroll";
  const cut = new Set();

  /* Whether a part of `box`, where text stands, can't be seen: half a pixel more or less is rounding, and a line is cut
     in height when half of it is. What can be scrolled into view is not cut. */
  const lost = (node, box) => {
    let across = true, down = true; // directions in which nothing scrolls so far
    for (let up = node; up && up !== document.documentElement; up = up.parentElement) {
      const style = getComputedStyle(up);
      if (style.display === "contents" || style.display === "inline") continue;
      const edge = up.getBoundingClientRect();
      if (edge.width <= 2 || edge.height <= 2) return false; // only for screen readers
      if (across && hides(style.overflowX) && (box.right > edge.right + 1 || box.left < edge.left - 1)) return true;
      const middle = (box.top + box.bottom) / 2;
      if (down && hides(style.overflowY) && (middle > edge.bottom || middle < edge.top)) return true;
      across &&= !scrolls(style.overflowX);
      down &&= !scrolls(style.overflowY);
      if (style.position === "fixed") break;
    }
    return across && (box.right > window.innerWidth + 1 || box.left < -1);
  };

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode, node = text.parentElement;
    if (!text.data.trim() || node.closest(`script, style, template, select, textarea, ${shortened}`)) continue;
    if (!node.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const style = getComputedStyle(node);
    const spills = node instanceof HTMLElement && style.display !== "inline" && !scrolls(style.overflowX)
      && node.clientWidth > 2 && node.scrollWidth > node.clientWidth + 1;
    if (spills || [...range.getClientRects()].some((box) => box.width > 0 && lost(node, box)))
      cut.add(text.data.trim());
  }

  /* What a field says by itself: the choice of a picker, the hint of an empty field. */
  const pen = document.createElement("canvas").getContext("2d");
  for (const field of document.querySelectorAll("input, select")) {
    const said = field.matches("select") ? field.selectedOptions[0]?.text
      : field.matches(":placeholder-shown") ? field.placeholder : field.matches("[role=listbox]") ? field.value : "";
    if (!said || !field.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const style = getComputedStyle(field);
    pen.font = style.font;
    const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (room > 2 && pen.measureText(said).width > room + 1) cut.add(said);
  }
  return [...cut];
}"""


def cut_texts(page: Page) -> list[str]:
    """Every text that can be seen now and is cut off."""
    found: list[str] = page.evaluate(CUT, SHORTENED)
    return found
