/** What the owner of a device was promised, and the check that the coordinator's release keeps it. */
import { originOf, sameMachine, type Origin } from "./addresses.ts";
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
  /** The least number of people among whom a report may be hidden (shuffle, aggregate); 1 unless given. */
  readonly crowd?: number;
  /** The epsilon that the device's own noise must keep if all others are made up; any unless given. */
  readonly alone?: number;
  /** The address of the only shuffler that may see a report; the model `shuffle` needs it. */
  readonly shuffler?: string;
  /** The address of the only helper that may get a share; the model `aggregate` needs it. */
  readonly helper?: string;
}

export type Kept = Required<Omit<OwnersPromise, "shuffler" | "helper">> & {
  /** Who else sees something of a report, and at which address. */
  readonly role: "shuffler" | "helper" | null;
  readonly other: string | null;
};

const MOST_DELTA = 0.01; // for which the analysis of binomial noise holds
const OTHERS = { shuffle: "shuffler", aggregate: "helper" } as const; // who else sees something of a report
const KNOWN = ["model", "epsilon", "delta", "participations", "honest", "crowd", "alone", "shuffler", "helper"];

/** Return a promise with everything said, or refuse one that cannot be kept. */
export function requirePromise(given: OwnersPromise): Kept {
  if (!isObject(given)) throw new InputError(`a promise has a model, such as {model: "local", epsilon: 5}, got ${shown(given)}`);
  const unknown = Object.keys(given).find((name) => !KNOWN.includes(name));
  if (unknown !== undefined) throw new InputError(`a promise has no ${unknown}; known: ${KNOWN.join(", ")}`);
  const model = requireModel(given.model);
  const participations = requireInteger("participations", given.participations ?? 1, 1);
  const honest = requireNumber("honest", given.honest ?? 1, { above: 0, most: 1 });
  const crowd = requireInteger("crowd", given.crowd ?? 1, 1);
  const alone = given.alone == null ? Infinity : requireNumber("alone", given.alone, { above: 0, most: 1000 });
  const own = model === "shuffle" || model === "aggregate" ? OTHERS[model] : null;
  if (own === null && (crowd > 1 || alone < Infinity)) {
    throw new InputError(`the ${model} model hides nobody among others; leave crowd and alone out`);
  }
  for (const role of Object.values(OTHERS)) {
    if (given[role] != null && role !== own) {
      throw new InputError(`the ${model} model has no ${role}, got ${shown(given[role])}; leave it out`);
    }
  }
  const other = own ? (given[own] ?? null) : null;
  if (own && other === null) {
    throw new InputError(
      `the ${model} model needs to know its ${own}; name the only one that may take part, such as ` +
        `${own}='https://${own}.example'`,
    );
  }
  if (own) originOf(own, other);
  const none = model === "none";
  const epsilon = none ? Infinity : requireNumber("epsilon", given.epsilon, { above: 0, most: 1000 });
  const delta = none ? 1 : requireNumber("delta", given.delta ?? 1e-6, { above: 0, below: 1 });
  if (own && delta > MOST_DELTA) {
    throw new InputError(`delta must be at most ${MOST_DELTA} in the ${model} model, got ${delta}; lower it`);
  }
  return { model, epsilon, delta, participations, honest, crowd, alone, role: own, other };
}

/** Return where the coordinator is; refuse one at its shuffler's or helper's host, which would be both. */
export function checkCoordinator({ role, other }: Kept, url: string): Origin {
  const mine = originOf("url", url);
  if (other !== null && sameMachine(mine, originOf(role!, other))) {
    throw new InputError(
      `the coordinator ${url} and the ${role} ${other} are one server; name a ${role} that somebody else runs`,
    );
  }
  return mine;
}

/** Refuse a release that keeps less than the promise. */
export function checkRelease(promise: Kept, release: Release): void {
  if (release.model !== promise.model) {
    throw new InputError(
      `the ${promise.model} model was promised, but the coordinator asks for ${release.model}; nothing is sent`,
    );
  }
  const { crowd, alone, delta } = promise;
  const size = release.batch?.size ?? Infinity;
  let weakness = release.weakness(promise);
  if (weakness === null && size < crowd) weakness = `a crowd of ${size} people, where ${crowd} were promised`;
  if (weakness === null && alone < Infinity) {
    const lonely = release.weakness({ epsilon: alone, delta, honest: 1, adding: 1 });
    weakness = lonely && `${lonely} if all others are made up`;
  }
  if (weakness !== null) throw new InputError(`the coordinator asks for ${weakness}; nothing is sent`);
}
