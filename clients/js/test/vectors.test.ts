import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { requirePromise } from "../src/index.ts";
import { wrongAnswers, wrongNumbers, wrongRefusals, type Case, type Numbers } from "./vectors.ts";

const FOLDER = new URL("../../vectors/", import.meta.url);

function read(name: string): { cases: Case[] } & Numbers {
  return JSON.parse(readFileSync(new URL(name, FOLDER), "utf8")) as { cases: Case[] } & Numbers;
}

const models = readdirSync(FOLDER).filter((name) => !["refusals.json", "numbers.json"].includes(name));

test("there are vectors of every trust model", () => {
  assert.deepEqual(models.sort(), ["aggregate.json", "central.json", "local.json", "none.json", "shuffle.json"]);
  for (const name of models) assert.ok(read(name).cases.length >= 8);
  assert.ok(read("refusals.json").cases.length >= 150);
});

for (const name of models) {
  test(`what is sent: ${name}`, async () => {
    assert.deepEqual(await wrongAnswers(read(name).cases), []);
  });
}

test("what is refused, and in which words", async () => {
  assert.deepEqual(await wrongRefusals(read("refusals.json").cases), []);
});

test("what the check of a promise computes", () => {
  assert.deepEqual(wrongNumbers(read("numbers.json")), []);
});

test("a wrong vector is noticed", async () => {
  const [vector] = read("central.json").cases as [Case];
  assert.equal((await wrongAnswers([{ ...vector, outcome: "SPENT" }])).length, 1);
  assert.equal((await wrongRefusals([{ ...vector, words: "anything" }])).length, 1);
  assert.equal(wrongNumbers({ multipliers: [[1, 1e-6, 4.2]], deltas: [], conditions: [] }).length, 1);
  assert.throws(() => requirePromise({ model: "local" }), /epsilon must be a number above 0 and at most 1000/);
});
