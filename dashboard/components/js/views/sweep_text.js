// The settings as a command or a file: the same box as the Live page's.

export { mount } from "./command.js";
