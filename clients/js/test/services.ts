/** A coordinator that replies, or fails, as the test demands, and devices that talk to it. */
import { readFileSync } from "node:fs";
import { Device, MemoryStorage, type Options, type OwnersPromise } from "../src/index.ts";
import type { Case } from "./vectors.ts";

export type Reply = { status?: number; body?: unknown; text?: string; headers?: Record<string, string> } | "nobody";
type Told = { token: unknown; upload: unknown; wave: { wave: number; arms: number[]; release: Record<string, unknown> } };

/** Return an invitation to answer a release of this model, from the test vectors. */
export function told(model: string): Told {
  const text = readFileSync(new URL(`../../vectors/${model}.json`, import.meta.url), "utf8");
  const [first] = (JSON.parse(text) as { cases: [Case] }).cases;
  return structuredClone(first.invitation) as unknown as Told;
}

/** Who else takes part, at the address that the invitations name. */
export const SECOND: Record<string, object> = {
  shuffle: { shuffler: "https://other.example" },
  aggregate: { helper: "https://other.example" },
};
export const LOCAL: OwnersPromise = { model: "local", epsilon: 8, delta: 1e-5 };
export const CENTRAL: OwnersPromise = { model: "central", epsilon: 8, participations: 2 };

export class Services {
  invitation: unknown;
  /** Replies that take the place of the usual ones, by the last word of the address. */
  replies: Record<string, Reply> = {};
  asked: string[] = [];
  registrations: unknown[] = [];
  uploads: { address: string; body: string; headers: Headers; at: number }[] = [];
  slept: number[] = [];
  /** What the devices' clock shows. */
  time = 1000;
  /** The settings of all requests. */
  settings: RequestInit[] = [];

  constructor(invitation: unknown) {
    this.invitation = invitation;
  }

  readonly fetch: typeof fetch = async (input, init) => {
    const address = String(input);
    const kind = address.split("/").at(-1)!;
    this.settings.push(init!);
    this.asked.push(`${init!.method} ${kind}`);
    const reply = this.replies[kind];
    if (reply === "nobody") throw new TypeError("fetch failed");
    if (kind === "report") {
      const body = init!.body instanceof Uint8Array ? Buffer.from(init!.body).toString("base64") : String(init!.body);
      this.uploads.push({ address, body, headers: new Headers(init!.headers), at: this.time });
    }
    if (reply !== undefined) {
      const { status = 200, body, text, headers = {} } = reply;
      return new Response(status === 204 ? null : (text ?? JSON.stringify(body)), { status, headers });
    }
    if (kind === "participant") {
      this.registrations.push(init!.body);
      return Response.json({ status: init!.method === "PUT" ? "registered" : "withdrawn" }, { status: 201 });
    }
    return kind === "report" ? Response.json({ status: "counted" }, { status: 201 }) : Response.json(this.invitation);
  };

  device(promise: OwnersPromise, options: Partial<Options> = {}): Device {
    return new Device({
      url: "https://coordinator.example/",
      study: "tea",
      promise,
      storage: new MemoryStorage(),
      fetch: this.fetch,
      sleep: async (seconds) => {
        this.slept.push(seconds);
        this.time += seconds;
      },
      clock: () => (this.time += 1e-6),
      ...options,
    });
  }

  count(asked: string): number {
    return this.asked.filter((one) => one === asked).length;
  }
}
