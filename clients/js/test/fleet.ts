/** Simulated devices in a process of their own.
 *
 * Standard input brings the settings and then the waves that were played, one JSON object a line; standard output
 * returns the reports that were counted, and when the devices have registered and finished.
 */
import { createInterface } from "node:readline";
import { Device, MemoryStorage, Outcome, type Outgoing, type OwnersPromise, type State } from "../src/index.ts";

type Settings = { url: string; study: string; promise: OwnersPromise; devices: number; prices: number[] };
type Played = { wave: number; arms: number[]; pulls: number[] };

const BETWEEN = 300; // milliseconds from one check-in to the next
const UNIT_COST = 1.5;

/** A storage that remembers the last report which was kept in it. */
class Noting extends MemoryStorage {
  last: Outgoing | null = null;

  override async update(change: (kept: State | null) => State): Promise<void> {
    await super.update((kept) => {
      const next = change(kept);
      this.last = next.outgoing ?? this.last;
      return next;
    });
  }
}

class Person {
  readonly storage = new Noting();
  readonly device: Device;
  private readonly prices: number[];
  private readonly most = 3 + 5 * Math.random(); // what the person would pay

  constructor({ url, study, promise, prices }: Settings) {
    this.device = new Device({ url, study, promise, storage: this.storage });
    this.prices = prices;
  }

  async live({ wave, arms, pulls }: Played): Promise<void> {
    for (const [place, arm] of arms.entries()) {
      const price = this.prices[arm]!;
      await this.device.record(wave, arm, price <= this.most ? price - UNIT_COST : 0, pulls[place]!);
    }
  }

  /** Return what was sent of the report that was counted: the helper's message first, if it was split. */
  get counted(): { wave: number; sent: string[] } {
    const { wave, uploads } = this.storage.last!;
    return { wave, sent: uploads.map(({ body }) => body) };
  }
}

function say(document: object): void {
  process.stdout.write(JSON.stringify(document) + "\n");
}

const lines: string[] = [];
let closed = false;
let wake = (): void => {};
const input = createInterface({ input: process.stdin });
input.on("line", (line) => {
  lines.push(line);
  wake();
});
input.on("close", () => {
  closed = true;
  wake();
});

/** Wait for a line, or for so many milliseconds. */
async function pause(most: number): Promise<void> {
  if (closed || lines.length) return;
  await new Promise<void>((done) => {
    wake = done;
    setTimeout(done, most);
  });
}

while (!lines.length && !closed) await pause(1000);
const settings = JSON.parse(lines.shift()!) as Settings;
let people = Array.from({ length: settings.devices }, () => new Person(settings));
await Promise.all(people.map(({ device }) => device.register()));
say({ registered: people.length });
for (let over = false; !over && !closed; ) {
  await pause(BETWEEN);
  while (lines.length) {
    const played = JSON.parse(lines.shift()!) as Played;
    await Promise.all(people.map((person) => person.live(played)));
  }
  const outcomes = await Promise.all(people.map(({ device }) => device.checkIn()));
  people.forEach((person, place) => {
    if (outcomes[place] === Outcome.ANSWERED) say(person.counted);
  });
  people = people.filter((_, place) => outcomes[place] !== Outcome.ANSWERED);
  over = people.length === 0 || outcomes.includes(Outcome.FINISHED);
}
say({ finished: true });
while (!closed) {
  lines.length = 0;
  await pause(1000);
}
