/** Addresses of servers, compared by where they lead and not as text. */
import { InputError, shown } from "./errors.ts";

export type Origin = { scheme: string; host: string; port: string };

/** Return where an address leads, or refuse it. */
export function originOf(name: string, url: unknown): Origin {
  const parts = typeof url === "string" && URL.canParse(url) ? new URL(url) : null;
  if (parts === null || !/^https?:$/.test(parts.protocol) || parts.username || parts.password) {
    throw new InputError(`${name} must be an address, such as https://study.example, got ${shown(url)}`);
  }
  const { protocol: scheme, hostname, port } = parts; // 127.1 and 0x7f.1 are written out by now
  const host = hostname.replace(/\.+$/, "").replace(/^\[(?:::(?:ffff:(?:0:)?)?|64:ff9b::)(\w+):(\w+)\]$/, (_, ...halves: string[]) =>
    halves.slice(0, 2).map((half) => `${parseInt(half, 16) >> 8}.${parseInt(half, 16) & 255}`).join("."),
  );
  return { scheme, host, port: port || (scheme === "https:" ? "443" : "80") };
}

/** True for the same host at any port; on the device's own machine, in demonstrations, ports are compared instead. */
export function sameMachine(...both: [Origin, Origin]): boolean {
  const [one, other] = both;
  const local = both.every(({ host }) => /^(127\..*|0\.0\.0\.0|(.*\.)?localhost|\[::1?\])$/.test(host));
  return local ? one.port === other.port : one.host === other.host;
}
