// The two encodings of the native protocol, by other people's code: JSON.parse and protobufjs over
// the committed schema. Both give the same objects, so that one test serves both.

import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";

const schema = fileURLToPath(new URL("../../../proto/danmaku/v1/danmaku.proto", import.meta.url));
const root = await protobuf.load(schema);
const ClientMessage = root.lookupType("danmaku.v1.ClientMessage");
const ServerMessage = root.lookupType("danmaku.v1.ServerMessage");

// MODE_TOP in the schema is "top" in JSON; the prefix is the enum's name.
const ENUM_FIELDS = { mode: "MODE_", role: "ROLE_", state: "ACK_STATE_", tier: "TIER_" };

function mapEnums(value, change) {
  if (Array.isArray(value)) return value.map((item) => mapEnums(item, change));
  if (value === null || typeof value !== "object") return value;
  const pairs = Object.entries(value).map(([key, inner]) => {
    const prefix = ENUM_FIELDS[key];
    return [key, prefix && typeof inner === "string" ? change(inner, prefix) : mapEnums(inner, change)];
  });
  return Object.fromEntries(pairs);
}

export const JSON_CODEC = {
  subprotocol: "danmaku.v1.json",
  binary: false,
  encode: (command) => JSON.stringify(command),
  decode: (text) => JSON.parse(text),
};

export const PROTO_CODEC = {
  subprotocol: "danmaku.v1.proto",
  binary: true,
  encode(command) {
    const named = mapEnums(command, (name, prefix) => prefix + name.toUpperCase());
    return ClientMessage.encode(ClientMessage.fromObject(named)).finish();
  },
  decode(bytes) {
    const object = ServerMessage.toObject(ServerMessage.decode(bytes), { longs: Number, enums: String });
    return mapEnums(object, (name, prefix) => name.slice(prefix.length).toLowerCase());
  },
};
