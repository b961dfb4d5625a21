/** Noise for real people: whole numbers that follow exactly from the system's random bytes, without a float in between.
 *
 * The discrete Gaussian is that of Canonne, Kamath and Steinke (2020), in rational numbers of any size.
 */
import { InputError } from "./errors.ts";

const BLOCK = 65_536; // bytes that a browser gives at a time

/** Fill an array with random bytes. */
export type Fill = (bytes: Uint8Array<ArrayBuffer>) => void;

/** Return the system's generator, or refuse a browser that has none. */
export function systemRandomness(): Fill {
  const crypto = globalThis.crypto as Crypto | undefined;
  if (typeof crypto?.getRandomValues !== "function") {
    throw new InputError(
      "this browser has no secure randomness (crypto.getRandomValues), without which nothing can be hidden; " +
        "nothing is sent: use another one",
    );
  }
  return (bytes) => {
    crypto.getRandomValues(bytes);
  };
}

/** A source of whole numbers. */
export class Source {
  readonly fill: Fill;

  constructor(fill: Fill = systemRandomness()) {
    this.fill = fill;
  }

  /** Draw bytes. */
  bytes(count: number): Uint8Array<ArrayBuffer> {
    const found = new Uint8Array(count);
    for (let start = 0; start < count; start += BLOCK) this.fill(found.subarray(start, start + BLOCK));
    return found;
  }

  /** Count how many words of 8 bytes, one for each chance, are below it: each is a one with that chance. */
  bernoulli(chances: number[]): number[] {
    const view = new DataView(this.bytes(8 * chances.length).buffer);
    return chances.map((chance, i) => {
      const upper = view.getUint32(8 * i + 4, true) * 2 ** 21 + (view.getUint32(8 * i, true) >>> 11);
      return upper * 2 ** -53 < chance ? 1 : 0;
    });
  }

  /** Draw a number of successes: by the ones among random bits if the chance is a half. */
  binomial(trials: number, chance: number): number {
    let ones = 0;
    if (chance === 0.5) {
      const bytes = this.bytes(Math.ceil(trials / 8));
      if (trials % 8) bytes[bytes.length - 1]! &= (1 << (trials % 8)) - 1;
      for (const byte of bytes) {
        const pairs = byte - ((byte >> 1) & 0x55); // in a time that does not depend on the byte
        const fours = (pairs & 0x33) + ((pairs >> 2) & 0x33);
        ones += (fours + (fours >> 4)) & 0x0f;
      }
      return ones;
    }
    for (let left = trials; left > 0; left -= BLOCK) {
      for (const one of this.bernoulli(Array<number>(Math.min(left, BLOCK)).fill(chance))) ones += one;
    }
    return ones;
  }

  /** Draw discrete Gaussian noise of this standard deviation, as it is exactly. */
  gaussian(std: number): bigint {
    const [n, d] = square(std);
    const t = BigInt(Math.floor(std)) + 1n;
    for (;;) {
      const y = this.laplace(t);
      const gap = (y < 0n ? -y : y) * d * t - n;
      if (this.decays(gap * gap, 2n * n * d * t * t)) return y;
    }
  }

  /** Draw discrete Laplace noise of this scale. */
  private laplace(scale: bigint): bigint {
    for (;;) {
      const rest = this.below(scale);
      if (!this.decays(rest, scale)) continue;
      let size = rest;
      while (this.decays(1n, 1n)) size += scale;
      const negative = this.below(2n) === 1n;
      if (!(negative && size === 0n)) return negative ? -size : size;
    }
  }

  /** Draw true with probability exp(-n / d). */
  private decays(n: bigint, d: bigint): boolean {
    for (; n > d; n -= d) if (!this.decays(1n, 1n)) return false;
    let k = 1n;
    while (this.below(d * k) < n) k++;
    return k % 2n === 1n;
  }

  /** Draw a whole number below a limit, each with the same chance. */
  private below(limit: bigint): bigint {
    const bits = (limit - 1n).toString(2).length;
    for (;;) {
      const hex = this.bytes(Math.ceil(bits / 8)).reduce((text, byte) => text + byte.toString(16).padStart(2, "0"), "0x");
      const found = BigInt.asUintN(bits, BigInt(hex));
      if (found < limit) return found;
    }
  }
}

/** Write the square of a float as the fraction that it is. */
function square(x: number): [bigint, bigint] {
  let d = 1n;
  for (; !Number.isInteger(x); x *= 2) d *= 2n;
  const n = BigInt(x);
  return [n * n, d * d];
}
