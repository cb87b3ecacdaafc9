// How many comments may fly: a budget of length, so that it fits a phone as well as a wall.
//
// A line takes one comment after the other; how much length a second it takes is its pace. `share` is how
// full the lines may get: at 1 they are full and nothing overlaps for long. What finds no budget is left out of the
// flight; the list has it.

export const SHARES = { few: 0.35, normal: 1, many: 2.5, all: Infinity };

// So many seconds' budget may be saved up, for a burst into an empty sky.
const SAVED_S = 4;

export class Density {
  #perSecond = Infinity;
  #saved = 0;
  #at = 0;

  /** `lines` that each take `pxPerSecond`, filled to `share`; `nowMs` by the caller's clock. */
  configure({ lines, pxPerSecond, share }, nowMs) {
    this.#perSecond = lines * pxPerSecond * share;
    this.#saved = this.#perSecond * SAVED_S;
    this.#at = nowMs;
  }

  /** Whether a comment that takes `px` of a line may fly now. */
  admits(px, nowMs) {
    if (this.#perSecond === Infinity) return true;
    const earned = (this.#perSecond * Math.max(0, nowMs - this.#at)) / 1000;
    this.#at = nowMs;
    this.#saved = Math.min(this.#perSecond * SAVED_S, this.#saved + earned);
    if (this.#saved < px) return false;
    this.#saved -= px;
    return true;
  }
}
