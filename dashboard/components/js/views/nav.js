// The quiet bar of pages, the current one marked. Plain links: each page has its own address and survives a reload.

import { h } from "../dom.js";

export function navigation(pages, current) {
  return h("nav", { class: "hw-nav", "aria-label": "Pages" }, pages.map(([name, path]) =>
    h("a", { href: path, "aria-current": path === current ? "page" : null }, name)));
}
