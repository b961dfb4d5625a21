/** How a wave is released, as the coordinator proposes it: what a device checks, and what it makes of its answer. */
import { Ball, between } from "./ball.ts";
import { binomialDelta } from "./binomial.ts";
import { exact, general, InputError, isObject, requireInteger, requireNumber, shown } from "./errors.ts";
import { noiseMultiplier } from "./gaussian.ts";
import type { Source } from "./source.ts";

const MOST_COUNT = 1e15;
const MOST_CONDITION = 1e9;
const [LEAST_STEPS, MOST_STEPS, MOST_STD] = [2 ** 10, 2 ** 32, 2 ** 44];
const [MOST_LEVELS, MOST_TRIALS, MOST_BITS] = [1e6, 2e7, 1e10];

/** What a shuffler or a helper is told of the reports that it adds up. */
export type Batch = { size: number; coordinates: number; levels: number; trials: number; chance: number };

/** What was promised; of the people's devices an honest share adds noise or, if it is said, this many. */
export type Promised = { epsilon: number; delta: number; honest: number; adding?: number };

/** A release of any model. */
export interface Release {
  readonly model: Model;
  readonly arms: number;
  /** What is wrong with it for a device that was promised this; null if nothing is. */
  weakness(promised: Promised): string | null;
  /** The report for averages y, in which NaN is one that is missing; null if the device has nothing to say. */
  randomize(y: number[], source: Source): number[] | null;
  readonly batch?: Batch;
  /** True where reports are split between coordinator and helper. */
  readonly shared?: boolean;
}

/** No privacy: averages are sent as they are. */
class Plain implements Release {
  readonly model = "none";
  readonly arms: number;

  constructor(data: Data) {
    requireNumber("step", data["step"], { above: 0 });
    this.arms = count("arms", data["arms"]);
  }

  weakness(): null {
    return null;
  }

  randomize(y: number[]): number[] | null {
    return y.some(Number.isNaN) ? null : y;
  }
}

/** What the private releases have in common. */
abstract class Clipped implements Release {
  abstract readonly model: Model;
  readonly ball: Ball;

  constructor(data: Data) {
    requireNumber("beta", data["beta"], { above: 0, most: 1 });
    this.ball = new Ball(data["ball"]);
    checkCost(data["cost"]);
  }

  get arms(): number {
    return this.ball.centre.length;
  }

  abstract weakness(promised: Promised): string | null;
  abstract randomize(y: number[], source: Source): number[];

  /** Say what is wrong with noise that the device adds itself. */
  protected weaknessOf(enough: boolean, epsilon: number): string | null {
    if (!(this.ball.radius < Infinity)) return "an answer without clipping";
    const condition = this.ball.condition;
    if (!(condition <= MOST_CONDITION)) {
      return `a root of condition ${general(condition, 2)}, at which whitening is not accurate`;
    }
    return enough ? null : `less noise than epsilon ${general(epsilon)} takes`;
  }
}

/** The agent clips and adds the noise; people trust it. */
class Central extends Clipped {
  readonly model: Model = "central";
  readonly step: number;
  readonly std: number;

  constructor(data: Data, limits: { above?: number; least?: number } = { least: 0 }) {
    super(data);
    this.step = requireNumber("step", data["step"], { above: 0 });
    this.std = requireNumber("std", data["std"], limits);
  }

  weakness(_: Promised): string | null {
    return null;
  }

  randomize(y: number[], _: Source): number[] {
    return y.map((value, i) => (Number.isNaN(value) ? this.ball.centre[i]! : value));
  }
}

/** The device clips and adds Gaussian noise on a grid. */
class Local extends Central {
  override readonly model = "local";

  constructor(data: Data) {
    super(data, { above: 0 });
  }

  override weakness({ epsilon, delta }: Promised): string | null {
    const steps = this.ball.radius / this.step;
    if (this.ball.radius < Infinity && !(steps >= LEAST_STEPS && steps <= MOST_STEPS)) {
      return `a grid of ${general(steps)} steps per radius, for which the noise is not known to be enough`;
    }
    if (this.std > MOST_STD) {
      return `noise of ${general(this.std)} steps, more than ${general(MOST_STD)}, with which a report would not be exact`;
    }
    const needed = noiseMultiplier(epsilon, delta) * (2 * steps + Math.sqrt(this.arms));
    return this.weaknessOf(this.std >= needed * (1 - 1e-6), epsilon);
  }

  override randomize(y: number[], source: Source): number[] {
    return this.ball.clipped(y).map((z) => nearest(z / this.step) + Number(source.gaussian(this.std)));
  }
}

/** The device clips, encodes its answer into ones, and adds binomial noise; a shuffler adds the reports up. */
class Shuffled extends Clipped {
  readonly model: Model = "shuffle";
  readonly batch: Batch;

  constructor(data: Data) {
    super(data);
    const code = data["encoding"];
    const names = ["levels", "trials", "chance", "people"];
    if (!isObject(code)) throw new InputError(`encoding must have the entries ${names.join(", ")}`);
    const extra = Object.keys(code).filter((name) => !names.includes(name));
    if (extra.length) throw new InputError(`encoding has the unknown entries ${shown(extra)}; leave them out`);
    this.batch = {
      size: count("people", code["people"]),
      coordinates: this.arms,
      levels: count("levels", code["levels"]),
      trials: count("trials", code["trials"]),
      chance: requireNumber("chance", code["chance"], { above: 0, below: 1 }),
    };
  }

  weakness({ epsilon, delta, honest, adding }: Promised): string | null {
    const { size, coordinates, levels, trials, chance } = this.batch;
    const known = levels <= MOST_LEVELS && trials <= MOST_TRIALS && size * trials <= MOST_BITS;
    if (this.ball.radius < Infinity && !known) {
      return (
        `an encoding (${levels} levels, ${trials} trials of ${exact(chance)}, ${size} people) ` +
        "whose privacy cannot be computed"
      );
    }
    const shift = Math.ceil(levels + Math.sqrt(coordinates));
    const noise = trials * (adding ?? Math.floor(honest * size));
    const enough = known && binomialDelta(noise, chance, shift, epsilon * (1 + 1e-9)) <= delta;
    return this.weaknessOf(enough, epsilon);
  }

  randomize(y: number[], source: Source): number[] {
    const { levels, trials, chance } = this.batch;
    const { radius } = this.ball;
    const unit = (2 * radius) / levels;
    const scaled = this.ball.clipped(y).map((z) => between(0, (z + radius) / unit, levels));
    const rounded = source.bernoulli(scaled.map((value) => value - Math.floor(value)));
    return scaled.map((value, i) => Math.floor(value) + rounded[i]! + source.binomial(trials, chance));
  }
}

/** As shuffled, with noise of fair coins; the report is split between coordinator and helper, and neither sees it. */
class Aggregate extends Shuffled {
  override readonly model = "aggregate";

  readonly shared = true;

  override weakness(promised: Promised): string | null {
    const { chance } = this.batch;
    if (chance !== 0.5) return `noise of coins with a chance of ${exact(chance)}, which are not fair`;
    return super.weakness(promised);
  }
}

const MODELS = { none: Plain, central: Central, local: Local, shuffle: Shuffled, aggregate: Aggregate };
type Data = Record<string, unknown>;
export type Model = keyof typeof MODELS;

/** Return the name if it is that of a trust model, or refuse it. */
export function requireModel(name: unknown): Model {
  if (typeof name === "string" && Object.hasOwn(MODELS, name)) return name as Model;
  throw new InputError(`unknown privacy model ${shown(name)}; known: ${Object.keys(MODELS).sort().join(", ")}`);
}

/** Read a release from the JSON of an invitation, or refuse it. */
export function readRelease(data: unknown): Release {
  try {
    if (!isObject(data)) throw new InputError(`got ${shown(data)}`);
    return new MODELS[requireModel(data["model"])](data);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    throw new InputError(`this is not a release: ${error.message}; nothing is sent`);
  }
}

type Form = (value: unknown) => boolean;
const isText: Form = (value) => typeof value === "string";
const isNumber: Form = (value) => typeof value === "number";
const isNumberOrNull: Form = (value) => value === null || isNumber(value);
const NOISE: Record<string, Form> = { trials: Number.isInteger, chance: isNumber, shift: Number.isInteger };
const COST: Record<string, Form> = {
  model: isText,
  people: Number.isInteger,
  epsilon: isNumberOrNull,
  delta: isNumber,
  multiplier: isNumberOrNull,
  wave: Number.isInteger,
  names: (value) => Array.isArray(value) && value.every(isText),
  binomial: (value) => value === null || hasForm(value, NOISE, Object.keys(NOISE)),
  honest: isNumber,
  guaranteed: (value) => typeof value === "boolean",
};

/** Return true for an object that has the needed entries, and others only if they are known; all in their form. */
function hasForm(value: unknown, forms: Record<string, Form>, needed: string[]): boolean {
  if (!isObject(value) || !needed.every((name) => name in value)) return false;
  return Object.entries(value).every(([name, entry]) => Object.hasOwn(forms, name) && forms[name]!(entry));
}

/** Check the form of what a release says that it costs; the device computes that itself. */
function checkCost(cost: unknown): void {
  if (!hasForm(cost, COST, ["model", "people", "epsilon"])) {
    throw new InputError(`cost has the entries ${Object.keys(COST).join(", ")} and no others`);
  }
}

function count(name: string, value: unknown): number {
  return requireInteger(name, value, 1, MOST_COUNT);
}

/** Round to the nearest whole number, and halves to the even one. */
function nearest(x: number): number {
  const floor = Math.floor(x);
  const rest = x - floor;
  return rest === 0.5 ? floor + Math.abs(floor % 2) : rest < 0.5 ? floor : floor + 1;
}
