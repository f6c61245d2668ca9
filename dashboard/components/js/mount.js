// The door for Gradio's components: each calls `mount(name, …)` once when it appears. One controller per page.

import { Live } from "./live.js";
import * as banner from "./views/banner.js";
import * as chips from "./views/chips.js";
import * as command from "./views/command.js";
import * as figures from "./views/figures.js";
import * as header from "./views/header.js";
import * as inspector from "./views/inspector.js";
import * as link from "./views/link.js";
import * as player from "./views/player.js";
import * as recent from "./views/recent.js";
import * as strip from "./views/strip.js";
import * as tokens from "./views/tokens.js";
import * as tree from "./views/tree.js";

const VIEWS = { banner, chips, command, figures, header, inspector, link, player, recent, strip, tokens, tree };

const live = new Live();
const headway = { live, mounts: {} };
window.headway = headway;

document.addEventListener("visibilitychange", () => live.visibility(document.hidden));
window.addEventListener("pagehide", () => live.close());
window.addEventListener("pageshow", () => live.connect());

/** `gradio` holds what a gr.HTML component gets: props, watch and trigger. */
export function mount(name, element, gradio) {
  headway.mounts[name] = (headway.mounts[name] || 0) + 1;
  VIEWS[name].mount(element, live, gradio);
}
