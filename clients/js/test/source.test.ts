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

test("all randomness is the system's, large draws and keys included", (context) => {
  let given = 0;
  const { crypto } = globalThis;
  const real = crypto.getRandomValues.bind(crypto);
  context.mock.method(crypto, "getRandomValues", (bytes: Uint8Array<ArrayBuffer>) => {
    given += bytes.length;
    return real(bytes);
  });
  context.mock.method(Math, "random", () => {
    throw new Error("a draw from a generator that can be predicted");
  });
  const source = new Source();
  for (const count of [1, 31, 32, 4096, 65_536, 65_537, 300_000]) {
    const [before, bytes] = [given, source.bytes(count)];
    assert.equal(given - before, count);
    for (let start = 0; start + 16 <= count; start += Math.ceil(count / 8)) {
      assert.ok(bytes.subarray(start, start + 16).some((byte) => byte !== 0)); // none is left as it was made
    }
  }
  const before = given;
  source.binomial(1_000_000, 0.5);
  source.binomial(100_000, 0.25);
  source.bernoulli(Array<number>(20_000).fill(0.3));
  assert.equal(given - before, 125_000 + 800_000 + 160_000);
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
