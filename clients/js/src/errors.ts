/** The one error that an app sees: a sentence that names the value and the remedy. */
export class InputError extends Error {
  override name = "InputError";
}

/** The study is over, and nobody can register any more. */
export class StudyOverError extends InputError {
  override name = "StudyOverError";
}

/** Nobody answered, or something that is not a voxpop service did. */
export class NoAnswerError extends Error {
  override name = "NoAnswerError";
}

export type Limits = { above?: number; least?: number; below?: number; most?: number };

const WORDS = { above: "above", least: "at least", below: "below", most: "at most" } as const;

/** Write a number as C's `%g` does, so that all devices say the same. */
export function general(x: number, digits = 6): string {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf";
  const [front, back] = x.toExponential(digits - 1).split("e") as [string, string];
  const exponent = Number(back);
  if (exponent >= -4 && exponent < digits) return String(Number(x.toPrecision(digits)));
  return `${Number(front)}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

/** Write a chance with all its digits, as Python does. */
export function exact(chance: number): string {
  return chance < 1e-4 ? chance.toExponential().replace(/e-(\d)$/, "e-0$1") : String(chance);
}

/** Write anything that somebody else sent, cut off if it is long. */
export function shown(value: unknown): string {
  return (JSON.stringify(value) ?? String(value)).slice(0, 100);
}

/** Return the value as a finite number inside its range, or refuse it. */
export function requireNumber(name: string, value: unknown, limits: Limits = {}): number {
  const { above = -Infinity, least = -Infinity, below = Infinity, most = Infinity } = limits;
  const finite = typeof value === "number" && Number.isFinite(value);
  if (finite && value > above && value >= least && value < below && value <= most) return value;
  const wanted = (Object.keys(WORDS) as (keyof Limits)[])
    .filter((key) => limits[key] !== undefined)
    .map((key) => `${WORDS[key]} ${general(limits[key]!)}`);
  throw new InputError(`${name} must be a number ${wanted.join(" and ")}`.trim() + `, got ${shown(value)}`);
}

/** Return the value as a whole number inside its range, or refuse it. */
export function requireInteger(name: string, value: unknown, least: number, most?: number): number {
  if (Number.isInteger(value) && (value as number) >= least && (value as number) <= (most ?? Infinity)) {
    return value as number;
  }
  const range = `at least ${least}` + (most === undefined ? "" : ` and at most ${most}`);
  throw new InputError(`${name} must be a whole number, ${range}, got ${shown(value)}`);
}

/** True for what JSON calls an object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
