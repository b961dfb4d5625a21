/** A device registers, checks in, and if it is invited makes a report and sends it until it is acknowledged. */
import { originOf, type Origin } from "./addresses.ts";
import { BrowserStorage } from "./browser.ts";
import { InputError, isObject, NoAnswerError, requireInteger, shown, StudyOverError } from "./errors.ts";
import { averages, Memory, type Metrics, type Outgoing, type State, type Storage, type Upload } from "./memory.ts";
import { checkCoordinator, checkRelease, requirePromise, type Kept, type OwnersPromise } from "./promise.ts";
import { readRelease, type Release } from "./releases.ts";
import { bodyOf, Caller, isDone, isNotNow, refusalOf, type Answer, type Sleep } from "./requests.ts";
import { Source } from "./source.ts";

const MOST_WAVE = 2 ** 31;
const TICK = 1; // seconds
const EARLY = 0.01; // seconds before a tick at which a timer, which is not exact, is given up for a loop
const MOST_PAUSE = 7 * 86_400; // seconds between two check-ins that a coordinator can ask for

/** How a check-in ended. */
export const Outcome = {
  WAITING: "not invited so far",
  ANSWERED: "the report was counted",
  TOO_LATE: "the report came too late and was not counted",
  ANOTHER: "another report was counted for this invitation, and this one was not",
  REFUSED: "the report was refused and not counted",
  NOTHING_TO_SAY: "invited, but the device has no reward for some decision of the wave; nothing was sent",
  SPENT: "invited, but the device has already made as many reports as its promise allows; nothing was sent",
  FINISHED: "the study is over",
  WITHDRAWN: "the device has withdrawn from the study; nothing is asked, kept or sent any more",
  OFFLINE: "the service did not answer; try again later",
} as const;
export type Outcome = (typeof Outcome)[keyof typeof Outcome];

/** The decision in force: its wave, its block, its index (the arm), its name, and for how many more rounds. */
export type Decision = {
  wave: number;
  block?: number; // an earlier coordinator does not say it: 1
  index: number;
  decision: Record<string, unknown>;
  stage: string;
  rounds: number;
};

export interface Options {
  /** The coordinator's address. */
  url: string;
  /** The study's name. */
  study: string;
  /** What the owner of the device was promised. */
  promise: OwnersPromise;
  /** Where the device keeps what it knows; in a browser an IndexedDB database, unless given. */
  storage?: Storage;
  /** The code without which nobody can register, if the study has one. */
  enrolmentCode?: string;
  /** The part of the population to which the owner belongs, if the study has strata. */
  stratum?: string;
  /** How often a request is made before the service counts as not answering; 5 unless given. */
  attempts?: number;
  fetch?: typeof fetch;
  sleep?: Sleep;
  /** Seconds since some moment. */
  clock?: () => number;
  /** Where noise and keys come from; only tests give one. */
  source?: Source;
}

type Invitation = Record<string, unknown>;

/** One participant of one study: rewards are recorded here, and leave only as the promise allows. */
export class Device {
  readonly url: string;
  readonly study: string;
  readonly memory: Memory;
  /** Seconds from the last check-in to the next; null if that is not known, or never. */
  nextCheckIn: number | null = null;
  private inForce: Decision | null = null; // as it was fetched last
  private readonly promise: Kept;
  private readonly mine: Origin;
  private readonly source: Source;
  private readonly caller: Caller;
  private readonly sleep: Sleep;
  private readonly clock: () => number;
  private readonly enrolmentCode: string | undefined;
  private readonly stratum: string | undefined;

  constructor(options: Options) {
    const { url, study, storage, enrolmentCode, attempts = 5 } = options;
    this.url = url.replace(/\/+$/, "");
    this.study = study;
    this.promise = requirePromise(options.promise);
    this.mine = checkCoordinator(this.promise, url);
    this.source = options.source ?? new Source();
    this.enrolmentCode = enrolmentCode;
    this.stratum = options.stratum;
    this.sleep = options.sleep ?? ((seconds) => new Promise((done) => setTimeout(done, 1000 * seconds)));
    this.clock = options.clock ?? (() => performance.now() / 1000);
    this.caller = new Caller(options.fetch ?? globalThis.fetch, attempts, this.sleep);
    this.memory = new Memory(storage ?? new BrowserStorage(`voxpop ${this.url} ${study}`), () => this.newKey());
  }

  /** Record a reward of the decision in force, in a block of a wave; it stays on the device.
   *
   * `metrics` are those of the study's guardrails, by name; a reward of null records them alone. Returns false if it is
   * refused, because it does not count: in block 0, and after withdrawing. Without a block it is the one in which
   * `decision` last said that this arm is in force.
   */
  async record(
    wave: number,
    arm: number,
    reward: number | null,
    rounds = 1,
    block?: number,
    metrics: Metrics = {},
  ): Promise<boolean> {
    const now = this.inForce;
    block ??= now?.wave === wave && now.index === arm ? (now.block ?? 1) : 1;
    return block !== 0 && (await this.memory.record(wave, arm, reward, rounds, block, metrics));
  }

  /** Fetch the decision in force. */
  async decision(): Promise<Decision> {
    const answer = await this.call("GET", "/decision");
    if (!("wave" in answer.document)) throw stranger(answer);
    this.inForce = answer.document as Decision;
    return this.inForce;
  }

  /** Register this device; repeating it changes nothing. */
  async register(): Promise<void> {
    if ((await this.memory.read()).withdrawn) {
      throw new InputError(
        `this device has withdrawn from the study ${shown(this.study)}; to take part again, begin with a new one`,
      );
    }
    const { enrolmentCode: code, stratum } = this;
    const body = stratum === undefined ? undefined : bodyOf({ stratum });
    const headers = code === undefined ? {} : { "x-voxpop-enrolment": code };
    const answer = await this.call("PUT", "/participant", headers, body);
    if (!isDone(answer, "registered")) throw stranger(answer);
    await this.memory.note("registered");
  }

  /** Ask whether this device is invited, and if so answer. A report is sent again until it is acknowledged. */
  async checkIn(): Promise<Outcome> {
    const state = await this.memory.read();
    if (state.withdrawn) return this.withdraw();
    try {
      if (!state.registered) await this.register();
      const left = state.outgoing;
      let sent: Outcome = left === null ? Outcome.OFFLINE : await this.send(left);
      if (sent !== Outcome.OFFLINE) return sent;
      const answer = await this.call("GET", "/checkin");
      const since = this.clock();
      const { invited, status, next_check_in: next } = answer.document;
      if (typeof invited !== "boolean") throw stranger(answer);
      this.nextCheckIn = typeof next === "number" && next >= 0 && next <= MOST_PAUSE ? next : null;
      if (left !== null) {
        if (invited && waveOf(answer.document) === left.wave) return Outcome.OFFLINE; // it is still waited for
        sent = await this.send(left); // for the last time, perhaps only to learn that it was counted
        if (sent !== Outcome.OFFLINE) return sent;
        await this.memory.forget(left.wave);
      }
      if (invited) return await this.answer(answer.document, since);
      if (status === "withdrawn") return await this.leave(); // with this key, on another device
      if (status === "finished") return Outcome.FINISHED;
      return status === "answered" ? Outcome.ANSWERED : Outcome.WAITING;
    } catch (error) {
      if (error instanceof StudyOverError) return Outcome.FINISHED;
      if (error instanceof NoAnswerError) return Outcome.OFFLINE;
      throw error;
    }
  }

  /** Leave the study: delete rewards and report here, and have the service forget what it may; safe to repeat.
   *
   * If the service does not answer, nothing is kept here all the same, and the next check-in tells it again.
   */
  async withdraw(): Promise<Outcome> {
    if ((await this.memory.withdraw()).forgotten) return Outcome.WITHDRAWN;
    try {
      const answer = await this.call("DELETE", "/participant");
      if (!isDone(answer, "withdrawn")) throw stranger(answer);
    } catch (error) {
      if (error instanceof NoAnswerError) return Outcome.OFFLINE;
      throw error;
    }
    return this.leave();
  }

  private async leave(): Promise<Outcome> {
    await this.memory.withdraw();
    await this.memory.note("forgotten");
    return Outcome.WITHDRAWN;
  }

  /** Make the report that the invitation asks for, keep it, and send it, if the promise allows one more. */
  private async answer(invitation: Invitation, since: number): Promise<Outcome> {
    const most = this.promise.participations;
    const state = await this.memory.read();
    if (state.made.length >= most) return Outcome.SPENT;
    const made = await this.report(invitation, state);
    if (made === null) return Outcome.NOTHING_TO_SAY;
    const kept = await this.memory.keepWithin(made, most);
    if (kept === null) return Outcome.SPENT;
    if (!["none", "central"].includes(this.promise.model)) await this.wait(since);
    return this.send(kept);
  }

  /** Wait for a whole number of ticks since the invitation came: how long sampling took tells the noise. */
  private async wait(since: number): Promise<void> {
    const due = since + TICK * (Math.floor((this.clock() - since) / TICK) + 1);
    await this.sleep(Math.max(0, due - EARLY - this.clock()));
    while (this.clock() < due); // a timer rounds to milliseconds, and with them what sampling took
  }

  /** Make the report, if the promise allows it; null if there is nothing to say. This draws the noise, once. */
  private async report(invitation: Invitation, state: State): Promise<Outgoing | null> {
    const wave = waveOf(invitation);
    const told = invitation["wave"] as Record<string, unknown>;
    const { release: proposed, arms, direction = "maximize", block: asked = 1, metrics = [] } = told;
    const release = readRelease(proposed);
    checkRelease(this.promise, release);
    const addresses = this.addresses(invitation, release);
    const token = invitation["token"];
    if (typeof token !== "string" || !/^[ -~]*$/.test(token)) {
      throw new InputError("the coordinator's token cannot be sent in a header; nothing is sent");
    }
    if (!Array.isArray(arms) || !arms.every(Number.isInteger)) {
      throw new InputError(`the coordinator asks about the decisions ${shown(arms)}; nothing is sent`);
    }
    if (!Array.isArray(metrics) || !metrics.every(isMetric)) {
      throw new InputError(`the coordinator asks about the metrics ${shown(metrics)}; nothing is sent`);
    }
    const each = [{ name: "", direction }, ...metrics]; // of the reward, and of guardrails
    if (arms.length * each.length !== release.arms) {
      const further = metrics.length ? ` and ${each.length} metrics` : "";
      throw new InputError(`a report has ${release.arms} numbers, got ${arms.length} decisions${further}; nothing is sent`);
    }
    if (!isWay(direction)) throw new InputError(`the coordinator wants to ${shown(direction)}; nothing is sent`);
    const block = requireInteger("the block of an invitation", asked, 1, MOST_WAVE);
    const known = each.flatMap(({ name, direction }) =>
      averages(state, wave, block, arms, name).map((average) => (direction === "minimize" ? 0 - average : average)),
    );
    const report = release.randomize(known, this.source);
    if (report === null) return null;
    return { wave, token, uploads: await this.uploads(report, release, addresses) };
  }

  /** Write the report down, as one message or as a share for each of two, of which the helper's comes first. */
  private async uploads(report: number[], release: Release, addresses: string[]): Promise<Upload[]> {
    const { batch, shared } = release;
    if (!shared) return [{ address: addresses[0]!, body: bodyOf({ report, ...batch }) }];
    const { levels, trials } = batch!;
    const { RANDOM_BYTES, shares } = await proofs();
    const [own, theirs] = shares(report, levels + trials, this.source.bytes(RANDOM_BYTES)).map(base64) as [string, string];
    return [
      { address: addresses[0]!, body: bodyOf({ report: theirs, ...batch, shared }) },
      { address: addresses[1]!, body: own, bytes: true },
    ];
  }

  /** Return the addresses to send the report to, in order, or refuse them. */
  private addresses(invitation: Invitation, release: Release): string[] {
    const upload = this.address(invitation["upload"], release.model === "shuffle");
    return !release.shared ? [upload] : [this.address(invitation["helper"], true), upload];
  }

  /** Return the absolute address to send a report or share to, at the coordinator or elsewhere, or refuse it. */
  private address(given: unknown, elsewhere: boolean): string {
    const there = typeof given === "string" && URL.canParse(given, this.url + "/") ? new URL(given, this.url + "/") : null;
    if (there === null || there.username || there.password) {
      throw new InputError(`the coordinator asks to send the report to ${shown(given)}; nothing is sent`);
    }
    if (there.protocol !== "https:" && there.protocol !== this.mine.scheme) {
      throw new InputError(`the coordinator asks to send the report over ${there.protocol.slice(0, -1)}; nothing is sent`);
    }
    const { role, other } = this.promise;
    const wanted = elsewhere ? originOf(role!, other) : this.mine;
    const { scheme, host, port } = originOf("upload", there.href);
    if (host === wanted.host && port === wanted.port && (!elsewhere || scheme === wanted.scheme)) return there.href;
    if (!elsewhere) throw new InputError("the coordinator asks to send the report to another server; nothing is sent");
    throw new InputError(`the ${role} ${other} was promised, but the coordinator names ${shown(given)}; nothing is sent`);
  }

  /** Send a kept report; forget it only when a voxpop service says that it was counted or refused. */
  private async send({ wave, token, uploads }: Outgoing): Promise<Outcome> {
    let outcome: Outcome = Outcome.ANSWERED;
    for (const { address, body, bytes } of uploads) {
      const kind = bytes ? "octet-stream" : "json";
      const headers = { "content-type": `application/${kind}`, authorization: `Bearer ${token}` };
      const sent = bytes ? Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0)) : body;
      try {
        const answer = await this.caller.request("PUT", address, headers, sent);
        if (isDone(answer, "counted", "counted before")) continue;
        if (isNotNow(answer) || refusalOf(answer) === null) return Outcome.OFFLINE;
        outcome =
          answer.status === 409 ? Outcome.ANOTHER : answer.status === 410 ? Outcome.TOO_LATE : Outcome.REFUSED;
        break;
      } catch (error) {
        if (error instanceof NoAnswerError) return Outcome.OFFLINE;
        throw error;
      }
    }
    await this.memory.forget(wave);
    return outcome;
  }

  private async call(method: string, path: string, headers: Record<string, string> = {}, body?: string): Promise<Answer> {
    const { key } = await this.memory.read();
    const address = `${this.url}/v2/studies/${encodeURIComponent(this.study)}${path}`;
    const kind = body === undefined ? {} : { "content-type": "application/json" };
    const answer = await this.caller.request(method, address, { authorization: `Bearer ${key}`, ...kind, ...headers }, body);
    const { status } = answer;
    if (isNotNow(answer)) throw new NoAnswerError(`the coordinator answered ${status}`);
    if (status >= 400) {
      const refusal = refusalOf(answer);
      if (status === 410 && refusal) throw new StudyOverError(refusal);
      throw new InputError(refusal ?? `${address} answered ${status}; is that a voxpop coordinator?`);
    }
    if (status !== 200 && status !== 201) throw stranger(answer);
    return answer;
  }

  private newKey(): string {
    const text = base64(this.source.bytes(32));
    return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  }
}

/** Load the part that only this model needs; without it, nothing can be sent now. */
async function proofs(): Promise<typeof import("./prio3.ts")> {
  try {
    return await import("./prio3.ts");
  } catch (error) {
    throw new NoAnswerError(`prio3.js cannot be loaded: ${String(error)}`);
  }
}

function base64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

const isWay = (value: unknown): boolean => value === "maximize" || value === "minimize";

/** Return true for the metric of a guardrail, as a coordinator names it. */
function isMetric(value: unknown): value is { name: string; direction: string } {
  return isObject(value) && typeof value["name"] === "string" && value["name"] !== "" && isWay(value["direction"]);
}

function waveOf(invitation: Invitation): number {
  const wave = invitation["wave"];
  if (!isObject(wave)) {
    throw new InputError(`the coordinator's invitation describes its wave as ${shown(wave)}; nothing is sent`);
  }
  return requireInteger("the wave of an invitation", wave["wave"], 1, MOST_WAVE);
}

function stranger({ address, status }: Answer): NoAnswerError {
  return new NoAnswerError(`${address} answered ${status}, but not as a voxpop coordinator does`);
}
