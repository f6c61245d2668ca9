// One line below the header while the database can't be read, on every page that does not say it itself.

import { h, setText } from "./dom.js";

export function troubleLine(feed) {
  const line = h("p", { class: "hw-trouble", role: "alert", hidden: true });
  const saidElsewhere = () => [...document.querySelectorAll("[role=alert], .hw-banner, .hw-problem")]
    .some((one) => one !== line && one.checkVisibility() && one.textContent.includes(feed.trouble));
  const draw = () => {
    const hidden = !feed.trouble || saidElsewhere();
    if (line.hidden !== hidden) line.hidden = hidden;
  };
  const watcher = new MutationObserver(draw); // only while there is trouble
  feed.on((changed) => {
    if (!changed.has("trouble")) return;
    setText(line, feed.trouble || "");
    watcher.disconnect();
    if (feed.trouble) watcher.observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ["hidden"] });
    draw();
  });
  return line;
}
