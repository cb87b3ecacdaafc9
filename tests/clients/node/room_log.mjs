// What a client knows of a room: its position and the entries it was shown.
//
// It refuses what no client should ever see: a hole between ranges, an entry twice, or out of order.

export class RoomLog {
  constructor(since) {
    this.epoch = since?.epoch;
    this.cursor = since?.seq ?? 0;
    this.items = new Map();
    this.gaps = 0;
  }

  take(kind, body) {
    if (kind === "joined") {
      this.epoch = body.epoch;
      if (!body.recovered) this.cursor = body.seq ?? 0;
    } else if (kind === "snapshot") {
      this.epoch = body.epoch;
      this.cursor = body.seq ?? 0;
      this.#add(body.items ?? [], 1, this.cursor);
    } else if (kind === "epoch") {
      this.epoch = body.epoch;
      this.cursor = body.seq ?? 0;
    } else if (kind === "gap") {
      this.gaps += 1;
      this.cursor = body.to;
    } else if (kind === "batch") {
      // A range that is known already carries what only its author sees.
      if (body.to > this.cursor) {
        if (body.from !== this.cursor + 1) throw new Error(`range ${body.from}..${body.to} after ${this.cursor}`);
        this.cursor = body.to;
      }
      this.#add(body.items ?? [], body.from, body.to);
    }
  }

  #add(items, first, last) {
    let previous = 0;
    for (const item of items) {
      if (item.seq < first || item.seq > last) throw new Error(`entry ${item.seq} outside ${first}..${last}`);
      if (this.items.has(item.seq)) throw new Error(`entry ${item.seq} came twice`);
      if (item.seq < previous) throw new Error(`entry ${item.seq} after ${previous}`);
      previous = item.seq;
      this.items.set(item.seq, item);
    }
  }

  // Texts of comments, as [sequence, text] in order.
  texts() {
    const comments = [...this.items.values()].filter((item) => item.type === undefined);
    return comments.map((item) => [item.seq, item.text]).sort((a, b) => a[0] - b[0]);
  }
}
