// Light or dark, and remembering which.

export function setDark(dark) {
  document.body.classList.toggle("dark", dark);
  try {
    localStorage.setItem("headway-theme", dark ? "dark" : "light");
  } catch {
    // Storage may be switched off; the choice then lasts as long as the page.
  }
  document.dispatchEvent(new CustomEvent("headway-theme", { detail: { dark } }));
}

/** "dark", "light" or null; an address that asks for a theme goes before. */
export function readKept() {
  if (new URLSearchParams(window.location.search).has("__theme")) return null;
  try {
    return localStorage.getItem("headway-theme");
  } catch {
    return null;
  }
}
