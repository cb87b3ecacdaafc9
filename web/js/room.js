// Which room: ?room= of the address, changeable, with the browser's way back.

import { closePanels } from "./panels.js";

const DEFAULT = "lobby";

export function isRoom(name) {
  return /^[A-Za-z0-9_-]{1,64}$/.test(name);
}

/** The room of the address, and what stood there if that is no room's name. */
export function roomOfAddress() {
  const asked = new URLSearchParams(location.search).get("room");
  if (asked === null || isRoom(asked)) return { room: asked ?? DEFAULT, wrong: null };
  return { room: DEFAULT, wrong: asked };
}

/** Starts the form; `moved` gets the name of the room to go to, `refused` what is none. */
export function startRoom({ form, input, label, moved, refused }) {
  const show = (room) => {
    label.textContent = room;
    input.value = room;
    document.title = `#${room} · danmaku`;
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = input.value.trim().replace(/^#/, "");
    input.setAttribute("aria-invalid", String(!isRoom(name)));
    if (!isRoom(name)) return refused(name);
    closePanels({ focus: true });
    if (name === label.textContent) return;
    const address = new URL(location.href);
    address.searchParams.set("room", name);
    history.pushState(null, "", address);
    show(name);
    moved(name);
  });
  window.addEventListener("popstate", () => {
    const { room } = roomOfAddress();
    if (room === label.textContent) return;
    show(room);
    moved(room);
  });
  show(roomOfAddress().room);
}
