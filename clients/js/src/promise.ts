/** What the owner of a device was promised, and the check that the coordinator's release keeps it. */
import { InputError, isObject, requireInteger, requireNumber, shown } from "./errors.ts";
import { requireModel, type Model, type Release } from "./releases.ts";

/** The trust model, the (eps, delta) of one report, and how many reports may ever leave the device. */
export interface OwnersPromise {
  readonly model: Model;
  /** Of one report; needed unless nothing is promised. */
  readonly epsilon?: number;
  /** Of one report; 1e-6 unless given. */
  readonly delta?: number;
  /** How many reports may ever leave the device; 1 unless given. */
  readonly participations?: number;
  /** The share of the people whose devices must add noise for the promise to hold; 1 unless given. */
  readonly honest?: number;
  /** The address of the only shuffler that may see a report (model `shuffle`). */
  readonly shuffler?: string;
  /** The address of the only helper that may see a share (model `aggregate`). */
  readonly helper?: string;
}

export type Kept = Required<Omit<OwnersPromise, "shuffler" | "helper">> & { readonly other: string | null };

const MOST_DELTA = 0.01; // for which the analysis of binomial noise holds
const OTHERS = { shuffle: "shuffler", aggregate: "helper" } as const; // who else sees something of a report
const KNOWN = ["model", "epsilon", "delta", "participations", "honest", "shuffler", "helper"];

/** Return a promise with everything said, or refuse one that cannot be kept. */
export function requirePromise(given: OwnersPromise): Kept {
  if (!isObject(given)) throw new InputError(`a promise has a model, such as {model: "local", epsilon: 5}, got ${shown(given)}`);
  const unknown = Object.keys(given).find((name) => !KNOWN.includes(name));
  if (unknown !== undefined) throw new InputError(`a promise has no ${unknown}; known: ${KNOWN.join(", ")}`);
  const model = requireModel(given.model);
  const participations = requireInteger("participations", given.participations ?? 1, 1);
  const honest = requireNumber("honest", given.honest ?? 1, { above: 0, most: 1 });
  const own = model === "shuffle" || model === "aggregate" ? OTHERS[model] : null;
  for (const role of Object.values(OTHERS)) {
    if (given[role] != null && role !== own) {
      throw new InputError(`the ${model} model has no ${role}, got ${shown(given[role])}; leave it out`);
    }
  }
  const other = own ? (given[own] ?? null) : null;
  if (other !== null && !URL.canParse(other)) throw new InputError(`${own} must be an address, got ${shown(other)}`);
  const none = model === "none";
  const epsilon = none ? Infinity : requireNumber("epsilon", given.epsilon, { above: 0, most: 1000 });
  const delta = none ? 1 : requireNumber("delta", given.delta ?? 1e-6, { above: 0, below: 1 });
  if (own && delta > MOST_DELTA) {
    throw new InputError(`delta must be at most ${MOST_DELTA} in the ${model} model, got ${delta}; lower it`);
  }
  return { model, epsilon, delta, participations, honest, other };
}

/** Refuse a release that keeps less than the promise. */
export function checkRelease(promise: Kept, release: Release): void {
  if (release.model !== promise.model) {
    throw new InputError(
      `the ${promise.model} model was promised, but the coordinator asks for ${release.model}; nothing is sent`,
    );
  }
  const weakness = release.weakness(promise);
  if (weakness !== null) throw new InputError(`the coordinator asks for ${weakness}; nothing is sent`);
}
