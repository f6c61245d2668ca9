// What a form of Gradio's components says while somebody else has the device. value: {device}: what stands in the form.
// Triggers choose {device}.

import { busyNote } from "../busy.js";

export function mount(element, feed, { props, watch, trigger }) {
  const device = () => (props.value && props.value.device) || "";
  const note = busyNote(feed, { device, choose: (wanted) => trigger("choose", { device: wanted }) });
  element.replaceChildren(note.node);
  watch("value", note.draw);
}
