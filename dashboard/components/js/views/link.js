// Between Python and the page: which run to show, or a sentence about the form; and back, that a run has ended. Draws
// nothing.

export function mount(element, live, { props, watch, trigger }) {
  let going = null; // the run that was seen going on
  const take = () => {
    const value = props.value;
    if (!value) return;
    if (value.error) live.complain(value.error);
    else live.show(value.run, value.request);
    const address = new URL(window.location.href);
    if (!value.error) {
      if (value.run) {
        address.searchParams.set("run", value.run);
        address.searchParams.delete("demo"); // a reload shows this run instead of starting another
      } else address.searchParams.delete("run");
      window.history.replaceState(null, "", address);
    }
  };
  watch("value", take);
  take();
  live.on((changed) => {
    if (!changed.has("run") && !changed.has("status")) return;
    const busy = live.run && !live.run.over;
    document.body.classList.toggle("hw-busy", Boolean(busy));
    document.body.classList.toggle("hw-empty", !live.run);
    document.body.classList.toggle("hw-answered", Boolean(live.run && live.run.result));
    if (busy) going = live.run.runId;
    else if (live.run && going === live.run.runId) {
      going = null;
      trigger("ended", {});
    }
  });
}
