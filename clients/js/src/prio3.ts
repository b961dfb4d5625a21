/** Prio3 of draft-irtf-cfrg-vdaf-20, the device's part: a vector in two shares, with proofs that its numbers are in range.
 *
 * As `privacy/prio3.py` of the service does it, which says more: SumVec in the field of 2^64 - 2^32 + 1 elements, with
 * three proofs. The numbers' bits are checked by a polynomial, given by its values at roots of unity.
 */

const P = 2n ** 64n - 2n ** 32n + 1n;
const [SEED, PROOFS] = [32, 3];
const [MEASUREMENT, PROOF, JOINT, PROVE, , JOINT_SEED, JOINT_PART] = [1, 2, 3, 4, 5, 6, 7];
const TAG = [18, 0, 255, 255, 255, 255, 0]; // version, class and algorithm of the draft; a usage and "voxpop" follow

/** The random bytes for one report: a nonce, and the seeds of all shares. */
export const RANDOM_BYTES = 16 + 4 * SEED;

type Bytes = Uint8Array<ArrayBuffer>;

/** Share numbers from 0 to `most`: the coordinator's message and the helper's, each a nonce, a public part and a share. */
export function shares(numbers: number[], most: number, random: Bytes): [coordinator: Bytes, helper: Bytes] {
  const bits = most.toString(2).length;
  const last = most - (2 ** (bits - 1) - 1); // what the last bit weighs, so that all together weigh `most`
  const meant = numbers.flatMap((number) => {
    const high = number >= 2 ** (bits - 1);
    const rest = high ? number - last : number;
    return Array.from({ length: bits }, (_, bit) => (bit < bits - 1 ? BigInt(Math.floor(rest / 2 ** bit) % 2) : BigInt(high)));
  });
  const { chunk, size } = shape(meant.length);
  const calls = Math.ceil(meant.length / chunk);
  const [nonce, share, blind, ownBlind, prove] = [0, 16, 48, 80, 112].map((start, i) =>
    random.subarray(start, start + (i ? SEED : 16)),
  ) as [Bytes, Bytes, Bytes, Bytes, Bytes];
  const theirs = expand(meant.length, MEASUREMENT, share, Uint8Array.of(1));
  const own = meant.map((bit, i) => minus(bit, theirs[i]!));
  const parts = joined(
    hash(JOINT_PART, ownBlind, Uint8Array.of(0), nonce, encoded(own)),
    hash(JOINT_PART, blind, Uint8Array.of(1), nonce, encoded(theirs)),
  );
  const seed = hash(JOINT_SEED, new Uint8Array(SEED), parts);
  const joint = expand(PROOFS * calls, JOINT, seed, Uint8Array.of(PROOFS));
  const wires = expand(PROOFS * 2 * chunk, PROVE, prove, Uint8Array.of(PROOFS));
  const proofs = Array.from({ length: PROOFS }, (_, i) =>
    proof(meant, chunk, size, joint.slice(i * calls, (i + 1) * calls), wires.slice(2 * i * chunk, 2 * (i + 1) * chunk)),
  ).flat();
  const masks = expand(proofs.length, PROOF, share, Uint8Array.of(PROOFS, 1));
  const rest = proofs.map((value, i) => minus(value, masks[i]!));
  return [joined(nonce, parts, encoded(own), encoded(rest), ownBlind), joined(nonce, parts, share, blind)];
}

/** Return how many bits are checked at a time, and at how many roots of unity, so that proofs are short. */
function shape(bits: number): { chunk: number; size: number } {
  let best = { chunk: bits, size: 2 };
  for (let size = 2; size <= 2 * bits; size *= 2) {
    const chunk = Math.ceil(bits / (size - 1));
    if (chunk + size < best.chunk + best.size) best = { chunk, size };
  }
  const calls = Math.ceil(bits / best.chunk);
  let size = 2;
  while (size < calls + 1) size *= 2;
  return { chunk: best.chunk, size };
}

/** Prove that elements are zeros and ones: the wires' seeds, and the sum of their products at all roots but the last. */
function proof(bits: bigint[], chunk: number, size: number, joint: bigint[], seeds: bigint[]): bigint[] {
  const values = Array<bigint>(2 * size).fill(0n);
  const powers = joint.map(() => 1n);
  for (let j = 0; j < chunk; j++) {
    const [scaled, lowered] = [Array<bigint>(size).fill(0n), Array<bigint>(size).fill(0n)];
    [scaled[0], lowered[0]] = [seeds[2 * j]!, seeds[2 * j + 1]!];
    joint.forEach((r, call) => {
      const bit = bits[call * chunk + j] ?? 0n;
      powers[call] = (powers[call]! * r) % P;
      scaled[call + 1] = bit * powers[call];
      lowered[call + 1] = minus(bit, 1n);
    });
    const [a, b] = [doubled(scaled), doubled(lowered)];
    for (let k = 0; k < 2 * size; k++) values[k] = (values[k]! + a[k]! * b[k]!) % P;
  }
  return [...seeds, ...values.slice(0, -1)];
}

function minus(a: bigint, b: bigint): bigint {
  return a < b ? a - b + P : a - b;
}

function power(base: bigint, exponent: bigint): bigint {
  let found = 1n;
  for (; exponent; exponent >>= 1n) {
    if (exponent & 1n) found = (found * base) % P;
    base = (base * base) % P;
  }
  return found;
}

const ROOTS = new Map<number, bigint[]>(); // the powers of roots of unity, by their order

function roots(order: number): bigint[] {
  let found = ROOTS.get(order);
  if (found === undefined) {
    const root = power(7n, (P - 1n) / BigInt(order));
    found = [1n];
    while (found.length < order) found.push((found.at(-1)! * root) % P);
    ROOTS.set(order, found);
  }
  return found;
}

/** Evaluate a polynomial at the roots of unity, given its coefficients. */
function transform(values: bigint[]): bigint[] {
  const size = values.length;
  if (size === 1) return values;
  const [even, odd] = [0, 1].map((rest) => transform(values.filter((_, i) => i % 2 === rest))) as [bigint[], bigint[]];
  const turned = roots(size);
  const found = Array<bigint>(size);
  even.forEach((value, i) => {
    const other = (odd[i]! * turned[i]!) % P;
    found[i] = (value + other) % P;
    found[i + size / 2] = minus(value, other);
  });
  return found;
}

/** Return the values of a polynomial at twice as many roots of unity. */
function doubled(values: bigint[]): bigint[] {
  const size = values.length;
  const [whole, turned] = [power(BigInt(size), P - 2n), roots(2 * size)];
  const back = transform(values); // the coefficients, in reversed order and times the size
  const shifted = back.map((_, i) => (((back[(size - i) % size]! * whole) % P) * turned[i]!) % P);
  const between = transform(shifted);
  return values.flatMap((value, i) => [value, between[i]!]);
}

function encoded(elements: bigint[]): Bytes {
  const view = new DataView(new ArrayBuffer(8 * elements.length));
  elements.forEach((element, i) => view.setBigUint64(8 * i, element, true));
  return new Uint8Array(view.buffer);
}

function joined(...parts: Uint8Array[]): Bytes {
  const found = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((start, part) => (found.set(part, start), start + part.length), 0);
  return found;
}

function hash(usage: number, seed: Bytes, ...binder: Uint8Array[]): Bytes {
  return stream(usage, seed, ...binder)(SEED);
}

/** Expand a seed into elements; numbers that are none are left out. */
function expand(count: number, usage: number, seed: Bytes, binder: Bytes): bigint[] {
  const [read, found] = [stream(usage, seed, binder), [] as bigint[]];
  while (found.length < count) {
    const view = new DataView(read(8 * (count - found.length)).buffer);
    for (let i = 0; i < view.byteLength; i += 8) {
      const element = view.getBigUint64(i, true);
      if (element < P) found.push(element);
    }
  }
  return found;
}

function stream(usage: number, seed: Bytes, ...binder: Uint8Array[]): (count: number) => Bytes {
  const tag = [...TAG, usage, ...new TextEncoder().encode("voxpop")];
  return turboShake(joined(Uint8Array.of(tag.length, 0, ...tag, seed.length), seed, ...binder));
}

/** TurboSHAKE128 with the domain 1 (RFC 9861): Keccak with 12 rounds. Returns what reads the next bytes. */
export function turboShake(message: Uint8Array): (count: number) => Bytes {
  const rate = 168;
  const padded = new Uint8Array(Math.ceil((message.length + 1) / rate) * rate);
  padded.set(message);
  padded[message.length] = 1;
  padded[padded.length - 1]! ^= 128;
  const input = new DataView(padded.buffer);
  const state = new Int32Array(50); // of each lane the low half and the high half
  for (let start = 0; start < padded.length; start += rate) {
    for (let i = 0; i < rate / 4; i++) state[i]! ^= input.getInt32(start + 4 * i, true);
    keccak(state);
  }
  let place = 0;
  return (count) => {
    const found = new Uint8Array(count);
    for (let i = 0; i < count; i++, place++) {
      if (place === rate) {
        keccak(state);
        place = 0;
      }
      found[i] = state[place >> 2]! >>> (8 * (place & 3));
    }
    return found;
  };
}

// Round constants, low and high halves, of the last 12 rounds; and to which lane each lane goes, turned by how much.
const ROUNDS = [
  [0x8000808b, 0], [0x8b, 1], [0x8089, 1], [0x8003, 1], [0x8002, 1], [0x80, 1], [0x800a, 0], [0x8000000a, 1],
  [0x80008081, 1], [0x8080, 1], [0x80000001, 0], [0x80008008, 1],
] as const;
const MOVES: [to: number, turn: number][] = [];
for (let i = 0, [x, y] = [1, 0]; i < 24; i++) {
  [x, y] = [y, (2 * x + 3 * y) % 5] as [number, number];
  MOVES.push([x + 5 * y, (((i + 1) * (i + 2)) / 2) % 64]);
}

function keccak(s: Int32Array): void {
  const c = new Int32Array(10);
  const row = new Int32Array(10);
  for (const [low, high] of ROUNDS) {
    for (let i = 0; i < 10; i++) c[i] = s[i]! ^ s[i + 10]! ^ s[i + 20]! ^ s[i + 30]! ^ s[i + 40]!;
    for (let x = 0; x < 5; x++) {
      const [before, after] = [2 * ((x + 4) % 5), 2 * ((x + 1) % 5)];
      const d0 = c[before]! ^ ((c[after]! << 1) | (c[after + 1]! >>> 31));
      const d1 = c[before + 1]! ^ ((c[after + 1]! << 1) | (c[after]! >>> 31));
      for (let y = 0; y < 50; y += 10) {
        s[y + 2 * x]! ^= d0;
        s[y + 2 * x + 1]! ^= d1;
      }
    }
    let [a, b] = [s[2]!, s[3]!];
    for (const [to, turn] of MOVES) {
      const [low, high] = turn < 32 ? [a, b] : [b, a];
      const by = turn % 32;
      [a, b] = [s[2 * to]!, s[2 * to + 1]!];
      s[2 * to] = by ? (low << by) | (high >>> (32 - by)) : low;
      s[2 * to + 1] = by ? (high << by) | (low >>> (32 - by)) : high;
    }
    for (let y = 0; y < 50; y += 10) {
      for (let i = 0; i < 10; i++) row[i] = s[y + i]!;
      for (let i = 0; i < 10; i++) s[y + i] = row[i]! ^ (~row[(i + 2) % 10]! & row[(i + 4) % 10]!);
    }
    s[0]! ^= low;
    s[1]! ^= high << 31;
  }
}
