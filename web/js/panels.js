// Panels that open beside the button that names them by aria-controls: one at a time, closed by Escape and
// by a press elsewhere. Closing gives the focus back to the button.

const toggles = [];

function isOpen(toggle) {
  return toggle.getAttribute("aria-expanded") === "true";
}

function set(toggle, open) {
  const panel = document.getElementById(toggle.getAttribute("aria-controls"));
  toggle.setAttribute("aria-expanded", String(open));
  panel.hidden = !open;
  if (open) panel.querySelector("input:checked, input, button")?.focus({ preventScroll: true });
}

/** Closes the open panel, if any; says whether there was one. */
export function closePanels({ focus = false } = {}) {
  const open = toggles.find(isOpen);
  if (!open) return false;
  set(open, false);
  if (focus) open.focus();
  return true;
}

/** Makes `toggle` open and close its panel. */
export function startPanel(toggle) {
  toggles.push(toggle);
  toggle.addEventListener("click", () => {
    const opens = !isOpen(toggle);
    closePanels();
    if (opens) set(toggle, true);
  });
}

document.addEventListener("pointerdown", ({ target }) => {
  const open = toggles.find(isOpen);
  const panel = open && document.getElementById(open.getAttribute("aria-controls"));
  if (open && !panel.contains(target) && !open.contains(target)) closePanels();
});
