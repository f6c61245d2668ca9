// The door for Gradio's components: each calls `mount(name, controller, …)` once when it appears. A page loads only the
// modules of its own views. One feed a page; the Live page also has the controller of its run.

import { Feed } from "./feed.js";

const feed = new Feed();
const headway = { feed, live: null, mounts: {} };
window.headway = headway;

document.addEventListener("visibilitychange", () => feed.visibility(document.hidden));
window.addEventListener("pagehide", () => feed.close());
window.addEventListener("pageshow", () => feed.connect());

let making = null;
const CONTROLLERS = {
  feed: async () => feed,
  live: () => {
    making = making || makeLive();
    return making;
  },
};

/** `gradio` holds what a gr.HTML component gets: props, watch, trigger and server. */
export async function mount(name, controller, element, gradio) {
  const [view, given] = await Promise.all([import(`./views/${name}.js`), CONTROLLERS[controller]()]);
  headway.mounts[name] = (headway.mounts[name] || 0) + 1;
  view.mount(element, given, gradio);
}

async function makeLive() {
  const { Live } = await import("./live.js");
  const live = new Live({ open: (url) => feed.openRun(url) });
  headway.live = live;
  feed.on((changed) => {
    if (changed.has("status")) live.setUnstored((feed.status && feed.status.unstored) || null);
  });
  document.addEventListener("visibilitychange", () => live.visibility(document.hidden));
  window.addEventListener("pagehide", () => live.close());
  window.addEventListener("pageshow", () => live.connect());
  return live;
}
