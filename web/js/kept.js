// What this browser keeps for the viewer. Storage may be switched off or full: then nothing is kept.

/** The value kept under `key` if there is one that `valid` accepts, else null. */
export function kept(key, valid) {
  try {
    const value = JSON.parse(localStorage.getItem(key));
    return value !== null && valid(value) ? value : null;
  } catch {
    return null;
  }
}

export function keep(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // The page works without; it only forgets.
  }
}
