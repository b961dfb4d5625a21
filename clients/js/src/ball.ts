/** The ball that answers are clipped to, in whitened coordinates z = L^-1 (y - c). */
import { InputError, isObject, requireNumber } from "./errors.ts";

export const HUGE = 1e100; // rewards, and their distance from the centre, are cut off here
const FARTHEST = 1e150; // and here in whitened coordinates

export class Ball {
  readonly centre: number[];
  readonly root: number[][];
  readonly radius: number;

  /** Read the ball of a release, or refuse it. */
  constructor(data: unknown) {
    if (!isObject(data) || typeof data["metric"] !== "string" || data["radius"] === undefined) {
      throw new InputError("ball must have a metric, a centre, a root, a radius and a tail");
    }
    const radius = data["radius"];
    this.radius = radius === null ? Infinity : requireNumber("radius", radius, { least: 1 / HUGE, most: HUGE });
    this.centre = numbers("centre", data["centre"]);
    const size = this.centre.length;
    const rows = data["root"];
    if (!size || !Array.isArray(rows) || rows.length !== size) {
      throw new InputError("root must be a square matrix that matches centre");
    }
    this.root = rows.map((row) => numbers("root", row));
    const triangular = this.root.every(
      (row, i) => row.length === size && row[i]! > 0 && row.every((value, j) => j <= i || value === 0),
    );
    if (!triangular) throw new InputError("root must be lower triangular with a positive diagonal");
    const tail = data["tail"];
    if (!Array.isArray(tail) || tail.length !== 2) throw new InputError("tail must be two lists of the same length");
    const [excess, chance] = tail.map((part) => numbers("tail", part));
    if (excess!.length !== chance!.length) throw new InputError("tail must be two lists of the same length");
  }

  /** Whiten and clip an answer, whatever it holds: NaN counts as the centre, and nothing is refused for its value. */
  clipped(y: number[]): number[] {
    const z: number[] = [];
    this.root.forEach((row, i) => {
      let rest = Number.isNaN(y[i]!) ? 0 : between(-HUGE, y[i]! - this.centre[i]!, HUGE);
      z.forEach((value, j) => (rest -= row[j]! * value));
      z.push(rest / row[i]!);
    });
    const finite = z.map((value) => (Number.isNaN(value) ? 0 : between(-FARTHEST, value, FARTHEST)));
    const largest = Math.max(this.radius, ...finite.map(Math.abs)); // so that no square overflows
    const norm = largest * Math.sqrt(finite.reduce((sum, value) => sum + (value / largest) ** 2, 0));
    return norm > this.radius ? finite.map((value) => value * (this.radius / norm)) : finite;
  }

  /** Compute the condition number of L, by one-sided Jacobi rotations of its columns. */
  get condition(): number {
    const size = this.root.length;
    const scale = this.root.flat().reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const columns = this.root.map((_, j) => this.root.map((row) => row[j]! / scale));
    for (let sweep = 0, turned = true; turned && sweep < 60; sweep++) {
      turned = false;
      for (let i = 0; i < size; i++) {
        for (let j = 0; j < i; j++) turned = rotate(columns[i]!, columns[j]!) || turned;
      }
    }
    const lengths = columns.map((column) => Math.sqrt(dot(column, column)));
    return Math.max(...lengths) / Math.min(...lengths);
  }
}

/** Make two columns orthogonal; return whether they were not. */
function rotate(one: number[], other: number[]): boolean {
  const a = dot(one, one);
  const b = dot(other, other);
  const c = dot(one, other);
  if (!(Math.abs(c) > 1e-15 * Math.sqrt(a) * Math.sqrt(b))) return false;
  const zeta = (b - a) / (2 * c);
  const tangent = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.hypot(1, zeta));
  const cosine = 1 / Math.hypot(1, tangent);
  const sine = cosine * tangent;
  for (let k = 0; k < one.length; k++) {
    const [x, y] = [one[k]!, other[k]!];
    one[k] = cosine * x - sine * y;
    other[k] = sine * x + cosine * y;
  }
  return true;
}

function dot(one: number[], other: number[]): number {
  return one.reduce((sum, value, k) => sum + value * other[k]!, 0);
}

export function between(low: number, value: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

function numbers(name: string, values: unknown): number[] {
  if (Array.isArray(values) && values.every((value) => typeof value === "number" && Number.isFinite(value))) {
    return values as number[];
  }
  throw new InputError(`${name} must be a list of finite numbers`);
}
