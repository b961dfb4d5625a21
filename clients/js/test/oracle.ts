/** Answers questions, one JSON document a line: what this implementation refuses, reports and draws. */
import { createInterface } from "node:readline";
import { InputError, requirePromise, Source, type OwnersPromise } from "../src/index.ts";
import { shares, turboShake } from "../src/prio3.ts";
import { checkRelease } from "../src/promise.ts";
import { readRelease } from "../src/releases.ts";

const source = new Source();

/** Return why a release is refused, or null. */
function refusal({ promise, release }: { promise: OwnersPromise; release: unknown }): string | null {
  try {
    checkRelease(requirePromise(promise), readRelease(release));
    return null;
  } catch (error) {
    if (error instanceof InputError) return error.message;
    throw error;
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

const QUESTIONS = {
  refusals: (cases: { promise: OwnersPromise; release: unknown }[]) => cases.map(refusal),
  reports: ({ release, answers }: { release: unknown; answers: number[][] }) =>
    answers.map((y) => readRelease(release).randomize(y, source)),
  gaussian: ([std, count]: [number, number]) => Array.from({ length: count }, () => Number(source.gaussian(std))),
  binomial: ([trials, chance, count]: [number, number, number]) =>
    Array.from({ length: count }, () => source.binomial(trials, chance)),
  bernoulli: ([chance, count]: [number, number]) => source.bernoulli(Array<number>(count).fill(chance)),
  shares: ([numbers, most, random]: [number[], number, string]) =>
    shares(numbers, most, Uint8Array.from(Buffer.from(random, "hex"))).map(hex),
  turboShake: ([message, ...counts]: [string, ...number[]]) => {
    const read = turboShake(Buffer.from(message, "hex"));
    return counts.map((count) => hex(read(count)));
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [[name, asked]] = Object.entries(JSON.parse(line) as object) as [[keyof typeof QUESTIONS, never]];
  process.stdout.write(JSON.stringify(QUESTIONS[name](asked)) + "\n");
}
