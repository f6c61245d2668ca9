// A job as a command or a file. The same box as the Live page's, for a page without a run. value: {text}

export { mount } from "./command.js";
