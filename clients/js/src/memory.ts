/** What a device remembers, as plain data, and what may happen to it; where it is kept is a `Storage`'s business. */
import { HUGE } from "./ball.ts";
import { InputError, requireInteger, requireNumber } from "./errors.ts";

const VERSION = 3;

/** One message of a report: JSON, or bytes, which are kept in base64. */
export type Upload = { address: string; body: string; bytes?: true };

/** A report that was made and is not acknowledged yet; its uploads are made one after the other. */
export type Outgoing = { wave: number; token: string; uploads: Upload[] };

/** By arm, or by arm and metric ("17 retention"): the number of rounds, and the sum of what was measured. */
type Rewards = { [of: string]: [rounds: number, total: number] };

/** What was measured besides the reward, by the name of the metric. */
export type Metrics = Readonly<Record<string, number>>;

/** Where a metric of an arm is kept; the name of the reward is empty. */
const placeOf = (arm: number, metric: string): string => `${arm} ${metric}`.trimEnd();

/** All that a device keeps. */
export type State = {
  version: typeof VERSION;
  key: string;
  registered: boolean;
  withdrawn: boolean;
  forgotten: boolean;
  /** By wave and block. */
  rewards: { [wave: string]: { [block: string]: Rewards } };
  outgoing: Outgoing | null;
  /** The waves of all reports that were ever kept for sending, counted or not. */
  made: number[];
};

/** A place that outlives the page or the process, or does not. */
export interface Storage {
  /** Change what is kept, in one step: nobody else changes it meanwhile, and after an error nothing has changed.
   *
   * `change` gets a copy of what is kept, or null, and returns what to keep from now on; it may be called again.
   */
  update(change: (kept: State | null) => State): Promise<void>;
}

/** Nothing outlives the page or the process: for tests and demonstrations. */
export class MemoryStorage implements Storage {
  private kept: State | null;

  constructor(kept: State | null = null) {
    this.kept = kept;
  }

  async update(change: (kept: State | null) => State): Promise<void> {
    this.kept = change(structuredClone(this.kept));
  }
}

/** What version 2 kept: waves had no blocks. */
type Whole = Omit<State, "version" | "rewards"> & { version: 2; rewards: { [wave: string]: Rewards } };

/** What version 1 kept: waves were called phases, also in the addresses of reports. */
type Former = Omit<Whole, "version" | "outgoing"> & {
  version: 1;
  outgoing: { phase: number; token: string; uploads: Upload[] } | null;
};

function upgraded(kept: State | Whole | Former): State {
  if (kept.version === 1) {
    const { outgoing, ...rest } = kept;
    if (outgoing === null) return upgraded({ ...rest, version: 2, outgoing });
    const uploads = outgoing.uploads.map(({ address, body }) => ({
      address: address.replace("/v1/", "/v2/").replace("/phases/", "/waves/"),
      body,
    }));
    return upgraded({ ...rest, version: 2, outgoing: { wave: outgoing.phase, token: outgoing.token, uploads } });
  }
  if (kept.version !== 2) return kept;
  const whole = Object.entries(kept.rewards).map(([wave, rewards]) => [wave, { 1: rewards }] as const);
  return { ...kept, version: VERSION, rewards: Object.fromEntries(whole) };
}

export class Memory {
  private readonly storage: Storage;
  private readonly newKey: () => string;

  constructor(storage: Storage, newKey: () => string) {
    this.storage = storage;
    this.newKey = newKey;
  }

  /** Return what is kept; the device's own key is made on first use. */
  read(): Promise<State> {
    return this.change((state) => state);
  }

  /** Remember that the coordinator knows the key, or that it has forgotten it. */
  async note(fact: "registered" | "forgotten"): Promise<void> {
    await this.change((state) => (state[fact] = true));
  }

  /** Delete all rewards and the report that is not acknowledged, and keep none from now on. */
  withdraw(): Promise<State> {
    return this.change((state) => Object.assign(state, { withdrawn: true, rewards: {}, outgoing: null }));
  }

  /** Add a reward and other metrics, of one round or the average of several; return false after withdrawing. */
  async record(
    wave: number,
    arm: number,
    reward: number | null,
    rounds: number,
    block: number,
    metrics: Metrics,
  ): Promise<boolean> {
    requireInteger("wave", wave, 1);
    requireInteger("arm", arm, 0);
    requireInteger("rounds", rounds, 1);
    requireInteger("block", block, 1);
    // Beyond this every answer is clipped anyway; without a limit, a sum could be infinite.
    const known = Object.entries(reward === null ? metrics : { ...metrics, "": reward }).map(
      ([name, value]) => [name, Math.max(-HUGE, Math.min(HUGE, requireNumber(name || "reward", value)))] as const,
    );
    const { withdrawn } = await this.change((state) => {
      if (state.withdrawn) return state;
      const rewards = ((state.rewards[wave] ??= {})[block] ??= {});
      for (const [name, value] of known) {
        const place = placeOf(arm, name);
        const [count, total] = rewards[place] ?? [0, 0];
        rewards[place] = [count + rounds, total + value * rounds];
      }
      return state;
    });
    return !withdrawn;
  }

  /** Keep a report if fewer than `most` were ever kept, and count it; return the report to send, or null. */
  keepWithin(report: Outgoing, most: number): Promise<Outgoing | null> {
    return this.change((state) => {
      if (state.withdrawn) return null;
      if (state.outgoing !== null) return state.outgoing; // another tab or process of this device was faster
      if (state.made.length >= most) return null;
      state.made.push(report.wave);
      return (state.outgoing = report);
    });
  }

  /** Delete the report of a wave that is over for this device, and the rewards up to that wave. */
  async forget(wave: number): Promise<void> {
    await this.change((state) => {
      if (state.outgoing?.wave === wave) state.outgoing = null;
      for (const known of Object.keys(state.rewards)) if (Number(known) <= wave) delete state.rewards[known];
    });
  }

  private begun(): State {
    return {
      version: VERSION,
      key: this.newKey(),
      registered: false,
      withdrawn: false,
      forgotten: false,
      rewards: {},
      outgoing: null,
      made: [],
    };
  }

  private async change<T>(edit: (state: State) => T): Promise<T> {
    let found: { value: T } | undefined;
    await this.storage.update((kept) => {
      const state = kept === null ? this.begun() : upgraded(kept);
      if (state.version !== VERSION) {
        throw new InputError(`this device was kept by another version (${state.version}) of the software; use that one`);
      }
      found = { value: edit(state) };
      return state;
    });
    return found!.value;
  }
}

/** Compute the average of a metric for each arm in a block of a wave; NaN for an arm of which none is known. */
export function averages(state: State, wave: number, block: number, arms: number[], metric: string): number[] {
  return arms.map((arm) => {
    const found = state.rewards[wave]?.[block]?.[placeOf(arm, metric)];
    return found === undefined ? NaN : found[1] / found[0];
  });
}
