/** Requests with retries, and checks that an answer comes from a voxpop service.
 *
 * Proxies, load balancers and captive portals answer, too, with their own statuses and with HTML instead of JSON.
 */
import { isObject, NoAnswerError } from "./errors.ts";

const NOT_NOW = [408, 425, 429]; // and every status of 500 or more
const MOST_PAUSE = 60; // seconds, whatever Retry-After says
const WIDEST = 25; // characters of a number in JSON and its comma: -2.2250738585072014e-308,
const ROOM = 256; // bytes
const TIMEOUT = 30_000; // milliseconds for one request
const MOST_REPLY = 2 ** 25; // bytes, unpacked

/** A reply: its status, and its JSON object, which is empty if it holds none. */
export type Answer = { address: string; status: number; document: Record<string, unknown> };

type Body = string | Uint8Array<ArrayBuffer>;

export type Sleep = (seconds: number) => Promise<void>;

/** Write a message as JSON, with spaces at its end, since its length is seen on the network whatever TLS hides.
 *
 * A report of numbers is as long as its public constants say; another message has a multiple of 256 bytes.
 */
export function bodyOf(said: { report?: number[] | string; [other: string]: unknown }): string {
  const text = JSON.stringify(said);
  const { report } = said;
  const long = new TextEncoder().encode(text).length;
  const room = Array.isArray(report)
    ? JSON.stringify({ ...said, report: [] }).length + WIDEST * report.length
    : ROOM * Math.ceil(long / ROOM);
  return text + " ".repeat(room - long);
}

export class Caller {
  private readonly fetch: typeof fetch;
  private readonly attempts: number;
  private readonly sleep: Sleep;

  constructor(fetch: typeof globalThis.fetch, attempts: number, sleep: Sleep) {
    this.fetch = fetch;
    this.attempts = attempts;
    this.sleep = sleep;
  }

  /** Return the answer to a request that is safe to repeat; without one, or if it says "not now", repeat it. */
  async request(method: string, address: string, headers: Record<string, string>, body?: Body): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      let pause = Math.min(10, 0.1 * 2 ** attempt) * (0.5 + Math.random() / 2);
      try {
        const reply = await this.fetch.call(globalThis, address, {
          method,
          headers,
          ...(body === undefined ? {} : { body }),
          cache: "no-store",
          credentials: "omit",
          redirect: "manual",
          referrerPolicy: "no-referrer",
          signal: AbortSignal.timeout(TIMEOUT),
        });
        const answer = { address, status: reply.status, document: documentOf(await textOf(reply)) };
        if (!isNotNow(answer) || attempt >= this.attempts) return answer;
        pause = Math.max(pause, secondsOf(reply.headers.get("retry-after"), reply.headers.get("date")));
      } catch (error) {
        if (attempt >= this.attempts) throw new NoAnswerError(`${address} does not answer: ${String(error)}`);
      }
      await this.sleep(pause);
    }
  }
}

/** True if the same request may succeed later. */
export function isNotNow({ status }: Answer): boolean {
  return status >= 500 || NOT_NOW.includes(status);
}

/** Read a Retry-After header as seconds, at most a minute; a date counts from the service's own clock, not from ours. */
export function secondsOf(retryAfter: string | null, date: string | null): number {
  const plain = Number(retryAfter ?? "");
  const wanted = Number.isNaN(plain) ? (Date.parse(retryAfter!) - Date.parse(date ?? "")) / 1000 : plain;
  return Number.isNaN(wanted) ? 0 : Math.min(MOST_PAUSE, Math.max(0, wanted));
}

/** The sentence with which a voxpop service refuses; null if it does not, or if something else answers. */
export function refusalOf({ status, document }: Answer): string | null {
  const sentence = document["error"];
  return status >= 400 && status < 500 && typeof sentence === "string" ? sentence : null;
}

/** True if a voxpop service says that it did what was asked. */
export function isDone({ status, document }: Answer, ...statuses: string[]): boolean {
  return (status === 200 || status === 201) && statuses.includes(document["status"] as string);
}

/** Read a reply as a whole; one that is endless, or unpacks into more than any has, is no answer. */
async function textOf({ body }: Response): Promise<string> {
  const [decoder, reader] = [new TextDecoder(), body?.getReader()];
  let [text, size] = ["", 0];
  for (let part; reader && !(part = await reader.read()).done; text += decoder.decode(part.value, { stream: true })) {
    if ((size += part.value.length) > MOST_REPLY) {
      void reader.cancel();
      throw new Error("the reply is larger than any reply of a service");
    }
  }
  return text + decoder.decode();
}

function documentOf(text: string): Record<string, unknown> {
  try {
    const found: unknown = JSON.parse(text);
    return isObject(found) ? found : {};
  } catch {
    return {};
  }
}
