// Reads a Chromium trace: how much the main thread of a page worked in each frame.

// A frame of a 60 Hz screen, for pages whose main thread draws none itself.
const FRAME_US = 1_000_000 / 60;

function quantile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

function spread(work) {
  const sorted = [...work].sort((a, b) => a - b);
  return { medianMs: quantile(sorted, 0.5), p95Ms: quantile(sorted, 0.95), mostMs: sorted.at(-1) ?? 0 };
}

/**
 * Work of the main thread per frame out of the events of a trace with the categories `toplevel` and
 * `devtools.timeline`: the sum of all its tasks, as `wall` (what passed meanwhile, waiting for a core
 * included) and as `cpu` (what it ran), in milliseconds. A frame begins where the thread calls the page's listeners
 * (FireAnimationFrame), or 60 times a second if it calls none. `pid` is the page's process.
 */
export function framesOf(events, pid) {
  const named = ({ ph, name, args }) => ph === "M" && name === "thread_name" && args.name === "CrRendererMain";
  const tid = events.find((event) => event.pid === pid && named(event))?.tid;
  const own = events.filter((event) => event.pid === pid && event.tid === tid);
  const tasks = own.filter(({ ph, name }) => ph === "X" && name === "ThreadControllerImpl::RunTask").sort((a, b) => a.ts - b.ts);
  if (tasks.length === 0) throw new Error(`the trace holds no tasks of the main thread of process ${pid}`);
  const first = tasks[0].ts;
  const last = Math.max(...tasks.map(({ ts, dur }) => ts + dur));
  const begins = own.filter(({ name }) => name === "FireAnimationFrame").map(({ ts }) => ts).sort((a, b) => a - b);
  // Several listeners called in the same frame are one beginning.
  let edges = begins.filter((ts, n) => n === 0 || ts - begins[n - 1] > FRAME_US / 4);
  const own60 = Math.floor((last - first) / FRAME_US);
  if (edges.length < own60 / 100) edges = Array.from({ length: own60 }, (_, n) => first + n * FRAME_US);
  const frames = edges.slice(1).map(() => ({ wall: 0, cpu: 0 }));
  let frame = 0;
  for (const { ts, dur, tdur = dur } of tasks) {
    // The task that calls the listeners starts a moment before they are called: its end tells its frame.
    while (frame < frames.length && ts + dur > edges[frame + 1]) frame += 1;
    if (frame === frames.length) break;
    if (ts + dur <= edges[0]) continue;
    frames[frame].wall += dur / 1000;
    frames[frame].cpu += tdur / 1000;
  }
  const seconds = (edges.at(-1) - edges[0]) / 1_000_000;
  return {
    frames: frames.length,
    seconds,
    wall: spread(frames.map(({ wall }) => wall)),
    cpu: spread(frames.map(({ cpu }) => cpu)),
    busyShare: tasks.reduce((sum, { tdur = 0 }) => sum + tdur, 0) / (last - first),
  };
}
