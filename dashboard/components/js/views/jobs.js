// The jobs of a page: value {title, kinds: [kind] or null for all, empty: the sentence that stands for none}.

import { h } from "../dom.js";
import { jobList } from "../job_card.js";

export function mount(element, feed, { props }) {
  const { title = "Jobs", kinds = null, empty = "" } = props.value || {};
  const nothing = h("p", { class: "hw-muted" }, empty);
  const box = h("section", { class: "hw-card hw-joblist", hidden: true }, h("h3", {}, title), nothing);
  const list = jobList(feed, (row) => !kinds || kinds.includes(row.kind), (count) => {
    nothing.hidden = count > 0;
    box.hidden = feed.jobs === null || (count === 0 && !empty);
  });
  box.append(list.node);
  element.replaceChildren(box);
}
