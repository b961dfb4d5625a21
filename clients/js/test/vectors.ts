/** Runs test vectors, in Node and in a page: each function returns the sentences that say what is wrong, ideally none. */
import { Ball } from "../src/ball.ts";
import { binomialDelta } from "../src/binomial.ts";
import { noiseMultiplier } from "../src/gaussian.ts";
import { Device, InputError, MemoryStorage, Outcome, Source, type OwnersPromise } from "../src/index.ts";

export type Case = {
  name: string;
  url?: string;
  promise: OwnersPromise;
  invitation?: Record<string, unknown>;
  rewards?: [number, number, number | null, number, number?, Record<string, number>?][];
  random?: string;
  noise?: number[];
  outcome?: keyof typeof Outcome;
  uploads?: { address: string; token: string; body: unknown; length: number }[];
  words?: string;
};
export type Numbers = {
  multipliers: [number, number, number][];
  deltas: [number, number, number, number, number][];
  conditions: [number[][], number][];
};

/** A source of exactly these bytes and this Gaussian noise. */
class Script extends Source {
  readonly noise: number[];
  readonly left: number[];

  constructor(random: string, noise: number[]) {
    const left = (random.match(/../g) ?? []).map((byte) => Number.parseInt(byte, 16));
    super((bytes) => {
      if (left.length < bytes.length) throw new Error("more random bytes were asked for than the vector has");
      bytes.set(left.splice(0, bytes.length));
    });
    this.left = left;
    this.noise = [...noise];
  }

  override gaussian(_: number): bigint {
    return BigInt(this.noise.shift()!);
  }
}

export const KNOWN = {
  version: 3 as const,
  key: "k".repeat(43),
  registered: true,
  withdrawn: false,
  forgotten: false,
  rewards: {},
  outgoing: null,
  made: [],
};

/** Let a device answer an invitation; return what came of it. */
async function run(vector: Case): Promise<Pick<Case, "outcome" | "uploads" | "words">> {
  let now = 0;
  const uploads: NonNullable<Case["uploads"]> = [];
  const source = new Script(vector.random ?? "", vector.noise ?? []);
  const services: typeof fetch = async (address, init) => {
    if (init?.method === "GET") return Response.json(vector.invitation);
    const token = new Headers(init?.headers).get("authorization")!.replace("Bearer ", "");
    const sent = init?.body instanceof Uint8Array ? init.body : new TextEncoder().encode(String(init?.body));
    const body = sent === init?.body ? btoa(String.fromCharCode(...sent)) : JSON.parse(String(init?.body));
    uploads.push({ address: String(address), token, body, length: sent.length });
    return Response.json({ status: "counted" }, { status: 201 });
  };
  try {
    const device = new Device({
      url: vector.url ?? "https://coordinator.example",
      study: "tea",
      promise: vector.promise,
      storage: new MemoryStorage(structuredClone(KNOWN)),
      fetch: services,
      sleep: async () => {},
      clock: () => (now += 0.5),
      source,
    });
    for (const reward of vector.rewards ?? []) await device.record(...reward);
    try {
      const outcome = await device.checkIn();
      if (source.left.length || source.noise.length) throw new Error("the device used less randomness than the vector has");
      const name = (Object.keys(Outcome) as (keyof typeof Outcome)[]).find((key) => Outcome[key] === outcome)!;
      return { outcome: name, uploads };
    } catch (error) {
      const spent = (await device.memory.read()).made.length;
      if (uploads.length || spent) throw new Error(`something was sent or spent before the refusal: ${String(error)}`);
      throw error;
    }
  } catch (error) {
    if (error instanceof InputError) return { words: error.message };
    throw error;
  }
}

/** Compare what devices send with what the vectors say. */
export async function wrongAnswers(vectors: Case[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const vector of vectors) {
    const found = JSON.stringify(await run(vector));
    const wanted = JSON.stringify({ outcome: vector.outcome, uploads: vector.uploads });
    if (found !== wanted) wrong.push(`${vector.name}: wanted ${wanted}, found ${found}`);
  }
  return wrong;
}

/** Compare what devices refuse, and in which words, with what the vectors say. */
export async function wrongRefusals(vectors: Case[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const vector of vectors) {
    const { words } = await run(vector);
    if (!words?.includes(vector.words!)) wrong.push(`${vector.name}: wanted ${vector.words}, found ${words}`);
  }
  return wrong;
}

/** Compare what the check of a promise computes. */
export function wrongNumbers({ multipliers, deltas, conditions }: Numbers): string[] {
  const wrong: string[] = [];
  const compare = (what: unknown, found: number, wanted: number, within: number): void => {
    const close = Math.abs(found - wanted) <= within * Math.abs(wanted) + 1e-300;
    if (!close) wrong.push(`${JSON.stringify(what)}: wanted ${wanted}, found ${found}`);
  };
  for (const [epsilon, delta, wanted] of multipliers) {
    compare({ epsilon, delta }, noiseMultiplier(epsilon, delta), wanted, 1e-9);
  }
  for (const [trials, chance, shift, epsilon, wanted] of deltas) {
    compare({ trials, chance, shift, epsilon }, binomialDelta(trials, chance, shift, epsilon), wanted, 1e-9);
  }
  for (const [root, wanted] of conditions) {
    const centre = root.map(() => 0);
    const ball = new Ball({ metric: "", centre, root, radius: 1, tail: [[], []] });
    compare({ condition: root }, ball.condition, wanted, 1e-7);
  }
  return wrong;
}
