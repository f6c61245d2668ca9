// Which job the page shows; draws nothing. value: {job: id or null, at}. `at` grows, so that the same job twice is news.

import { trainer } from "../train.js";

export function mount(element, feed, { props, watch }) {
  const train = trainer(feed);
  const take = () => {
    if (props.value) train.show(props.value.job);
  };
  watch("value", take);
  take();
}
