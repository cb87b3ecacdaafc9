// Types of danmaku.js. README.md tells what everything means.
//
// SPDX-License-Identifier: Apache-2.0

export interface Position {
  epoch: string;
  seq: number;
}

export type Tier = "lite" | "standard" | "full";
export type Mode = "scroll" | "top" | "bottom";
/** Later servers may know more. */
export type Role = "viewer" | "vip" | "moderator" | "streamer" | "staff" | (string & {});

export interface User {
  id: string;
  name?: string;
  role?: Role;
  level?: number;
  badges?: string[];
}

export interface You {
  id: string;
  name?: string;
  role: Role;
  /** A guest's signed id: the option `guest` of a later session. */
  guest?: string;
}

export interface Comment {
  type?: undefined;
  seq: number;
  user: User & { role: Role };
  text: string;
  mode: Mode;
  /** 0xRRGGBB */
  color: number;
  size: number;
  /** Server time, milliseconds since 1970. */
  at: number;
  /** Where in the stream it was written, milliseconds. */
  streamMs?: number;
  /** Of a VIP's comment: the server's span in the W3C trace that its client began. */
  traceparent?: string;
}

/** Everything that is no comment: `fold`, `pin`, `state`, and events; types that you do not know are to be skipped. */
export interface Entry {
  type: "fold" | "pin" | "state" | "gift" | "superchat" | "poll" | "system" | (string & {});
  seq: number;
  at: number;
  /** With `fold` and `pin`: the comment that is meant; 0 unpins. */
  of?: number;
  /** With `fold`: how many equal comments that one stands for. */
  count?: number;
  /** With events: who caused it, if somebody did. */
  user?: User;
  /** With events and `state`: its own. */
  data?: unknown;
}

export type Item = Comment | Entry;

export interface Telling {
  source: "live" | "snapshot" | "backlog";
  /** Whether this session's user caused it. */
  own: boolean;
  epoch: string;
}

export type Removal =
  | { epoch: string; seqs: number[]; upTo?: undefined; after?: undefined }
  | { epoch: string; upTo: number; seqs?: undefined; after?: undefined }
  | { epoch: string; after: number; seqs?: undefined; upTo?: undefined };

export type StateName = "connecting" | "open" | "waiting" | "closed";

export interface State {
  state: StateName;
  /** Attempts since a connection that lasted. */
  attempt: number;
  /** With `waiting`: when it comes back. */
  retryInMs?: number;
  /** The server's close code. */
  code?: number;
  reason?: string;
}

export interface Joined extends Position {
  room: string;
  online?: number;
  recovered: boolean;
  you?: Partial<You>;
}

export interface RoomUpdate {
  online: number;
  viewers: number;
  reactions: Record<string, number>;
  slowModeMs: number;
  data?: unknown;
}

export interface Pending {
  id: string;
  user: User;
  text: string;
  reason: "review" | "delay" | (string & {});
  at: number;
  releaseInMs?: number;
}

export interface Events {
  state: [state: State];
  joined: [joined: Joined];
  reset: [reset: { reason: "snapshot" | "lost" }];
  item: [item: Item, how: Telling];
  remove: [removal: Removal];
  gap: [gap: { epoch: string; from: number; to: number; reason: string }];
  room: [room: RoomUpdate];
  pending: [pending: Pending];
  auth: [auth: { you: You; expiresInMs?: undefined } | { you?: undefined; expiresInMs: number }];
  reconnect: [reconnect: { afterMs: number; reason?: string; url?: string }];
  error: [error: DanmakuError];
}

export interface SendOptions {
  mode?: Mode;
  color?: number;
  size?: number;
  streamMs?: number;
  /** 1 to 64 bytes; made by the session if absent. */
  id?: string;
  traceparent?: string;
}

export interface Ack {
  id: string;
  state: "accepted" | "held" | "folded";
  seq?: number;
  epoch?: string;
}

export type TokenSource = string | (() => string | null | undefined | Promise<string | null | undefined>);

export interface Options {
  url?: string;
  room?: string;
  token?: TokenSource | null;
  guest?: string;
  tier?: Tier;
  snapshot?: "json" | "none";
  since?: Position | null;
  density?: number;
  pauseWhenHidden?: boolean;
  resendMs?: number;
  backoffBaseMs?: number;
  backoffCapMs?: number;
  stableMs?: number;
  joinMs?: number;
  silenceMs?: number;
  answerMs?: number;
  /** A class like the browser's. */
  WebSocket?: new (url: string, subprotocols: string[]) => any;
  random?: () => number;
  now?: () => number;
  setTimeout?: (act: () => void, ms: number) => any;
  clearTimeout?: (timer: any) => void;
}

export interface Session {
  readonly position: Position | null;
  readonly you: You | null;
  readonly room: string;
  readonly online: number;
  readonly state: StateName;
  readonly latencyMs: number | null;
  readonly thinned: number;
  on<Name extends keyof Events>(name: Name, listener: (...what: Events[Name]) => void): () => void;
  /** Rejects with a DanmakuError. */
  send(text: string, options?: SendOptions): Promise<Ack>;
  react(kind: string, count?: number): void;
  report(seq: number, reason: string): boolean;
  view(wanted: { tier: Tier }): void;
  pause(): void;
  resume(): void;
  join(room: string): void;
  auth(token: TokenSource | null): Promise<void>;
  ping(): Promise<number>;
  align(how: { clock: () => number; startMs?: undefined } | { startMs: number; clock?: undefined } | null): void;
  close(): void;
}

export class DanmakuError extends Error {
  readonly code: string;
  readonly retryable: boolean;
  readonly shown: boolean;
  readonly retryAfterMs?: number;
  readonly seq?: number;
  readonly count?: number;
  readonly id?: string;
}

export function connect(options?: Options): Session;
