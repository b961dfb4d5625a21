import assert from "node:assert/strict";
import { test } from "node:test";
import { logPhi } from "../src/gaussian.ts";
import { Source } from "../src/index.ts";

function scripted(...bytes: number[]): Source {
  return new Source((wanted) => wanted.set(bytes.splice(0, wanted.length)));
}

test("fair coins are the low bits of bytes, and other chances words of eight", () => {
  assert.equal(scripted(0xff, 0xff).binomial(11, 0.5), 11);
  assert.equal(scripted(0x0f, 0xf8).binomial(11, 0.5), 4); // of the last byte only the low three bits count
  assert.equal(scripted(0xff).binomial(8, 0.5), 8);
  assert.deepEqual(scripted(...Array<number>(8).fill(0), ...Array<number>(8).fill(255)).bernoulli([0.1, 0.9]), [1, 0]);
  assert.deepEqual(scripted(0, 0, 0, 0, 0, 0, 0, 0x80).bernoulli([0.5]), [0]); // exactly a half is not below it
  assert.deepEqual(scripted(255, 255, 255, 255, 255, 255, 255, 0x7f).bernoulli([0.5]), [1]);
  assert.equal(scripted(...Array<number>(8).fill(0), ...Array<number>(8).fill(255)).binomial(2, 0.25), 1);
  assert.equal(scripted(1, 2, 3).uniform(3), 1 + 256 * (2 + 256 * 3));
  assert.equal(scripted(255, 255, 255, 255, 255, 255).uniform(6), 2 ** 48 - 1);
});

test("more bytes than a browser gives at a time", () => {
  let most = 0;
  const source = new Source((bytes) => {
    most = Math.max(most, bytes.length);
    bytes.fill(0x55);
  });
  assert.equal(source.binomial(1_000_000, 0.5), 500_000);
  assert.equal(most, 65_536);
});

test("noise is the system's, different every time", () => {
  const source = new Source();
  const drawn = new Set(Array.from({ length: 50 }, () => source.gaussian(2 ** 40)));
  assert.ok(drawn.size > 45);
});

test("the Gaussian distribution function, near and far", () => {
  const known: [number, number][] = [
    [0, Math.log(0.5)],
    [1, -0.1727537790234499],
    [-1, -1.8410216450092636],
    [-2, -3.783184333682032],
    [-10, -53.23128515051247],
    [-40, -804.6084420137538],
    [9, -1.1285884059538408e-19],
  ];
  for (const [x, wanted] of known) assert.ok(Math.abs(logPhi(x) / wanted - 1) < 1e-12, `${x}: ${logPhi(x)}`);
});
