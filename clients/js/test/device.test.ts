import assert from "node:assert/strict";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Device, InputError, MemoryStorage, NoAnswerError, Outcome, Source, StudyOverError } from "../src/index.ts";
import type { State } from "../src/memory.ts";
import { bodyOf } from "../src/requests.ts";
import { CENTRAL, LOCAL, SECOND, Services, told, type Reply } from "./services.ts";

/** Serve HTTP on a free port of this machine. */
async function serving(listener: RequestListener): Promise<{ server: Server; url: string }> {
  const server = createServer(listener);
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

const PORTAL: Reply = { text: "<html>Welcome to our hotel</html>" };

test("a device registers, answers, forgets, and has then spent its promise", async () => {
  const services = new Services(told("local"));
  const device = services.device(LOCAL, { enrolmentCode: "sesame" });
  await device.record(3, 10, 0.25, 3);
  await device.record(3, 10, 0.75);
  assert.deepEqual((await device.memory.read()).rewards, { 3: { 1: { 10: [4, 1.5] } } });
  assert.equal(await device.checkIn(), Outcome.ANSWERED);
  const state = await device.memory.read();
  assert.deepEqual([state.rewards, state.outgoing, state.made], [{}, null, [3]]);
  assert.match(state.key, /^[\w-]{43}$/);
  const { address, headers } = services.uploads[0]!;
  assert.equal(address, "https://coordinator.example/v2/studies/tea/waves/3/report");
  assert.equal(headers.get("authorization"), `Bearer ${String(told("local").token)}`);
  assert.equal(await device.checkIn(), Outcome.SPENT);
  assert.equal(services.uploads.length, 1);
  assert.equal(device.nextCheckIn, 61.3);
  assert.deepEqual(services.asked, ["PUT participant", "GET checkin", "PUT report", "GET checkin"]);
});

test("a device reports on the block that it is asked about", async () => {
  const invitation = told("central");
  const { arms } = invitation.wave as { arms: number[] };
  const services = new Services({ ...invitation, wave: { ...invitation.wave, block: 2 } });
  const plain = new Services(invitation);
  const [device, other] = [services.device(CENTRAL), plain.device(CENTRAL)];
  for (const arm of arms) {
    await device.record(3, arm, 100, 1, 1);
    await device.record(3, arm, 0.01 * arm, 2, 2);
    await other.record(3, arm, 0.01 * arm);
  }
  await device.record(3, arms[0]!, 100, 7, 3);
  await device.record(3, arms[0]!, 100, 7, 0); // a round that does not count
  assert.equal(await device.checkIn(), Outcome.ANSWERED);
  assert.equal(await other.checkIn(), Outcome.ANSWERED);
  assert.deepEqual(services.uploads[0]!.body, plain.uploads[0]!.body);
  await assert.rejects(device.record(3, 0, 1, 1, -1), InputError);
});

test("a device says its stratum, and nothing where there are none", async () => {
  const services = new Services(told("local"));
  await services.device(LOCAL, { stratum: "jünger" }).register();
  await services.device(LOCAL).register();
  assert.deepEqual(services.registrations, [`{"stratum":"jünger"}${" ".repeat(235)}`, undefined]); // 256 bytes
  assert.equal(Buffer.from(bodyOf({ stratum: "ü".repeat(122) })).length, 256 * 2);
});

test("a device of a study that minimises turns its costs", async () => {
  const reports: number[][] = [];
  for (const [direction, value] of [["maximize", -0.25], ["minimize", 0.25]] as const) {
    const invitation = told("central");
    const services = new Services({ ...invitation, wave: { ...invitation.wave, direction } });
    const device = services.device(CENTRAL);
    for (const arm of invitation.wave.arms) await device.record(3, arm, value);
    assert.equal(await device.checkIn(), Outcome.ANSWERED);
    reports.push((JSON.parse(services.uploads[0]!.body) as { report: number[] }).report);
  }
  assert.deepEqual(reports[0], reports[1]);
  const odd = told("central");
  const services = new Services({ ...odd, wave: { ...odd.wave, direction: "less" } });
  await assert.rejects(services.device(CENTRAL).checkIn(), /wants to "less"; nothing is sent/);
});

test("the same report is sent until it is acknowledged, and counts only once", async () => {
  for (const model of ["central", "local", "shuffle", "aggregate"] as const) {
    const services = new Services(told(model));
    services.replies["report"] = { status: 503, body: { error: "busy" } };
    const device = services.device({ model, epsilon: 8, delta: 1e-5, ...SECOND[model] });
    assert.equal(await device.checkIn(), Outcome.OFFLINE);
    const kept = (await device.memory.read()).outgoing!;
    assert.equal(await device.checkIn(), Outcome.OFFLINE); // it is still waited for
    delete services.replies["report"];
    assert.equal(await device.checkIn(), Outcome.ANSWERED);
    assert.deepEqual(new Set(services.uploads.map(({ body }) => body)), new Set(kept.uploads.map(({ body }) => body)));
    assert.equal((await device.memory.read()).made.length, 1);
  }
});

test("requests answered with not now are repeated with pauses, and nothing is forgotten", async () => {
  for (const status of [408, 425, 429, 500, 502, 503, 504, 511, 524, 599]) {
    for (const kind of ["participant", "checkin", "report"]) {
      const services = new Services(told("central"));
      services.replies[kind] = { status, text: "<html>" };
      const device = services.device(CENTRAL, { attempts: 3 });
      assert.equal(await device.checkIn(), Outcome.OFFLINE);
      assert.equal(services.asked.filter((asked) => asked.endsWith(kind)).length, 3);
      assert.ok(services.slept.every((pause) => pause > 0 && pause <= 0.4));
      services.replies = {};
      assert.equal(await device.checkIn(), Outcome.ANSWERED);
    }
  }
});

test("replies that voxpop cannot have sent are not believed", async () => {
  const strange: Reply[] = [
    PORTAL,
    { status: 201, body: {} },
    { body: { status: "ok" } },
    { body: ["counted"] },
    { text: "[".repeat(100_000) },
    { status: 204 },
    { status: 302, text: "", headers: { location: "http://portal/" } },
    { status: 403, text: "<html>pay first</html>" },
    { status: 404, text: "no such page" },
  ];
  for (const reply of strange) {
    const services = new Services(told("central"));
    services.replies["report"] = reply;
    const device = services.device(CENTRAL);
    assert.equal(await device.checkIn(), Outcome.OFFLINE);
    assert.notEqual((await device.memory.read()).outgoing, null);
    for (const kind of ["participant", "checkin"]) {
      const portal = new Services(told("central"));
      portal.replies[kind] = reply;
      const guest = portal.device(CENTRAL);
      if (reply !== "nobody" && (reply.status ?? 200) >= 400) {
        await assert.rejects(guest.checkIn(), /is that a voxpop coordinator/);
      } else assert.equal(await guest.checkIn(), Outcome.OFFLINE);
      assert.equal((await guest.memory.read()).registered, kind === "checkin");
      assert.deepEqual(portal.uploads, []);
    }
  }
  const services = new Services(told("central"));
  services.replies["decision"] = PORTAL;
  await assert.rejects(services.device(CENTRAL).decision(), NoAnswerError);
});

test("only rounds that count are recorded", async () => {
  const services = new Services(told("central"));
  const device = services.device(CENTRAL);
  services.replies["decision"] = { status: 200, body: { wave: 3, block: 0, index: 10 } };
  const between = await device.decision();
  assert.equal(await device.record(3, 10, 9), false); // as it was fetched last
  assert.equal(await device.record(3, 10, 9, 1, between.block), false);
  assert.equal(await device.record(3, 10, 0.5, 1, 1), true); // of a round before, told late
  assert.deepEqual((await device.memory.read()).rewards, { 3: { 1: { 10: [1, 0.5] } } });
  await device.withdraw();
  assert.equal(await device.record(3, 10, 0.5, 1, 1), false);
});

test("no request carries cookies or a referrer, is answered from a cache, or follows a redirect", async () => {
  const services = new Services(told("central"));
  const device = services.device(CENTRAL);
  await device.checkIn();
  await device.decision();
  await device.withdraw();
  assert.equal(services.settings.length, 5);
  for (const { cache, credentials, redirect, referrerPolicy, signal } of services.settings) {
    assert.deepEqual([cache, credentials, redirect, referrerPolicy], ["no-store", "omit", "manual", "no-referrer"]);
    assert.ok(signal instanceof AbortSignal);
  }
});

test("a redirect takes neither report nor token elsewhere", async () => {
  const heard: string[] = [];
  const [thief, portal] = await Promise.all([
    serving((request, response) => {
      heard.push(request.url!);
      response.end('{"status": "counted"}');
    }),
    serving((_, response) => response.writeHead(307, { location: `${thief.url}/stolen` }).end()),
  ]);
  try {
    const invitation = { ...told("central"), upload: `${portal.url}/v2/x` };
    const services = new Services(invitation);
    const device = services.device(CENTRAL, {
      url: portal.url,
      attempts: 1,
      fetch: (address, init) => (init?.method === "PUT" && String(address).endsWith("/v2/x") ? fetch : services.fetch)(address, init),
    });
    assert.equal(await device.checkIn(), Outcome.OFFLINE);
    assert.notEqual((await device.memory.read()).outgoing, null);
    assert.deepEqual(heard, []);
  } finally {
    thief.server.close();
    portal.server.close();
  }
});

test("the key is 32 bytes of the source", async () => {
  const source = new Source((bytes) => bytes.forEach((_, i) => (bytes[i] = 250 - i)));
  const { key } = await new Services({}).device(LOCAL, { source }).memory.read();
  assert.deepEqual([...Buffer.from(key, "base64url")], Array.from({ length: 32 }, (_, i) => 250 - i));
});

test("counting and keeping are one step, so that two tabs make no more reports than one", async () => {
  const { memory } = new Services({}).device(LOCAL);
  const report = { wave: 3, token: "t", uploads: [] };
  assert.deepEqual(await memory.keepWithin(report, 1), report);
  await memory.forget(3); // it was acknowledged, while another tab had read that none was made
  assert.equal(await memory.keepWithin({ ...report, wave: 4 }, 1), null);
  assert.deepEqual((await memory.read()).made, [3]);
});

const LIVES = [
  [],
  [0],
  [0.1, 0.2, 0.3, 0.7],
  [1e308, -1e308, 1e-320, -5e-324],
  [-2.2250738585072014e-308, -1.2345678901234567e-300, 1 / 3, -2 / 3],
  [1, -1, 1, -1],
  [1e100, 1e21, 123456789012345680000, -1e-7],
];

test("the length of what is sent depends on public constants only", async () => {
  for (const model of ["none", "central", "local", "shuffle", "aggregate"] as const) {
    const lengths = [new Set<number>(), new Set<number>()];
    for (const gained of model === "none" ? LIVES.slice(2) : LIVES) {
      for (const direction of ["maximize", "minimize"]) {
        const invitation = told(model);
        const services = new Services({ ...invitation, wave: { ...invitation.wave, direction } });
        const device = services.device({ model, epsilon: 8, delta: 1e-5, ...SECOND[model] });
        for (const [i, reward] of gained.entries()) await device.record(3, invitation.wave.arms[i]!, reward, 1 + i);
        assert.equal(await device.checkIn(), Outcome.ANSWERED);
        services.uploads.forEach(({ body }, i) => lengths[i]!.add(Buffer.from(body).length));
      }
    }
    assert.deepEqual(lengths.map((found) => found.size), model === "aggregate" ? [1, 1] : [1, 0], model);
  }
});

test("when a report is sent does not depend on how long its noise took", async () => {
  for (const model of ["local", "shuffle", "aggregate"] as const) {
    for (const [took, ticks] of [[0, 1], [1e-4, 1], [0.3, 1], [0.9, 1], [1.1, 2], [2.5, 3]] as const) {
      const services = new Services(told(model));
      const source = new Source((bytes) => {
        crypto.getRandomValues(bytes);
        services.time += took / drawn;
      });
      let drawn = Infinity;
      let counted = 0;
      const counting = new Source((bytes) => {
        crypto.getRandomValues(bytes);
        counted++;
      });
      const promise = { model, epsilon: 8, delta: 1e-5, ...SECOND[model] };
      if (model !== "local") {
        await new Services(told(model)).device(promise, { source: counting }).checkIn();
        drawn = counted - 1; // the first draw is the key
      } else source.gaussian = () => ((services.time += took / 4), 7n);
      const device = services.device(promise, { source });
      await device.register();
      const before = services.time;
      assert.equal(await device.checkIn(), Outcome.ANSWERED);
      const passed = services.uploads[0]!.at - before;
      assert.ok(passed >= ticks && passed < ticks + 1e-3, `${model}: ${took} s became ${passed} s`);
    }
  }
});

test("refusals say what happened", async () => {
  const expected = { 409: Outcome.ANOTHER, 410: Outcome.TOO_LATE, 422: Outcome.REFUSED, 401: Outcome.REFUSED };
  for (const [status, outcome] of Object.entries(expected)) {
    const services = new Services(told("central"));
    services.replies["report"] = { status: Number(status), body: { error: "one sentence" } };
    const device = services.device(CENTRAL);
    assert.equal(await device.checkIn(), outcome);
    const { outgoing, made } = await device.memory.read();
    assert.deepEqual([outgoing, made.length], [null, 1]); // somebody has seen it
  }
});

test("a dead address blocks no longer than its wave", async () => {
  const ends = { waiting: Outcome.WAITING, finished: Outcome.FINISHED, answered: Outcome.ANSWERED };
  for (const [status, outcome] of Object.entries(ends)) {
    const services = new Services(told("central"));
    services.replies["report"] = "nobody";
    const device = services.device(CENTRAL, { attempts: 2 });
    assert.equal(await device.checkIn(), Outcome.OFFLINE);
    services.invitation = { invited: false, status, next_check_in: null };
    assert.equal(await device.checkIn(), outcome);
    assert.equal(device.nextCheckIn, null);
    assert.equal((await device.memory.read()).outgoing, null);
  }
  const services = new Services(told("central"));
  services.replies["report"] = "nobody";
  const device = services.device(CENTRAL, { attempts: 2 });
  await device.checkIn();
  const next = told("central");
  next.wave.wave = 4;
  services.invitation = next;
  assert.equal(await device.checkIn(), Outcome.OFFLINE); // the report of wave 4, at the same dead address
  assert.equal((await device.memory.read()).outgoing?.wave, 4);
});

test("a pause is as long as asked within reason, whatever the device's clock says", async () => {
  const year = 365 * 86_400_000;
  const now = Date.now;
  const date = "Wed, 21 Oct 2015 07:28:00 GMT";
  const cases: [string, string | undefined, number, number][] = [
    ["2", undefined, 2, 2],
    ["86400", undefined, 60, 60],
    ["1e400", undefined, 60, 60],
    ["-5", undefined, 0, 1],
    ["soon", undefined, 0, 1],
    ["", undefined, 0, 1],
    ["Wed, 21 Oct 2015 07:28:30 GMT", date, 30, 30],
    ["Wed, 21 Oct 2015 07:28:30 GMT", undefined, 0, 1],
  ];
  for (const offset of [-30 * year, 0, 30 * year]) {
    Date.now = () => now() + offset;
    try {
      for (const [header, served, least, most] of cases) {
        const services = new Services(told("central"));
        const headers = { "retry-after": header, ...(served === undefined ? {} : { date: served }) };
        services.replies["checkin"] = { status: 503, text: "", headers };
        assert.equal(await services.device(CENTRAL, { attempts: 3 }).checkIn(), Outcome.OFFLINE);
        assert.equal(services.slept.length, 2);
        assert.ok(services.slept.every((pause) => pause >= least && pause <= most), header);
      }
    } finally {
      Date.now = now;
    }
  }
});

test("a study that is over, and one that refuses to register", async () => {
  const services = new Services({});
  services.replies["participant"] = { status: 410, body: { error: "the study is over" } };
  assert.equal(await services.device(CENTRAL).checkIn(), Outcome.FINISHED);
  await assert.rejects(services.device(CENTRAL).register(), StudyOverError);
  services.replies["participant"] = { status: 403, body: { error: "wrong code" } };
  await assert.rejects(services.device(CENTRAL).checkIn(), { name: "InputError", message: "wrong code" });
});

test("withdrawing deletes everything at once, and the service is told until it has heard", async () => {
  const services = new Services(told("central"));
  const device = services.device(CENTRAL, { attempts: 1 });
  await device.record(3, 10, 1);
  services.replies["participant"] = { status: 503, body: { error: "not now" } };
  assert.equal(await device.withdraw(), Outcome.OFFLINE);
  await device.record(3, 10, 1);
  assert.deepEqual((await device.memory.read()).rewards, {});
  assert.equal(await device.checkIn(), Outcome.OFFLINE);
  services.replies["participant"] = PORTAL;
  assert.equal(await device.checkIn(), Outcome.OFFLINE);
  delete services.replies["participant"];
  assert.deepEqual([await device.checkIn(), await device.checkIn()], [Outcome.WITHDRAWN, Outcome.WITHDRAWN]);
  assert.equal(services.count("DELETE participant"), 4);
  await assert.rejects(device.register(), /has withdrawn from the study/);
  const elsewhere = new Services({ invited: false, status: "withdrawn", next_check_in: null });
  const other = elsewhere.device(CENTRAL);
  await other.record(3, 10, 1);
  assert.equal(await other.checkIn(), Outcome.WITHDRAWN);
  assert.deepEqual((await other.memory.read()).rewards, {});
});

test("two devices on one storage make one report", async () => {
  const storage = new MemoryStorage();
  const services = new Services(told("local"));
  const devices = [1, 2, 3].map(() => services.device(LOCAL, { storage }));
  const outcomes = await Promise.all(devices.map((device) => device.checkIn()));
  assert.deepEqual(new Set(services.uploads.map(({ body }) => body)).size, 1);
  assert.ok(outcomes.includes(Outcome.ANSWERED));
  assert.deepEqual((await devices[0]!.memory.read()).made, [3]);
});

test("what cannot be kept or protected is refused in one sentence", async () => {
  const { crypto } = globalThis;
  Object.defineProperty(globalThis, "crypto", { value: undefined, configurable: true });
  try {
    assert.throws(() => new Services({}).device(LOCAL), /no secure randomness .* nothing is sent/);
  } finally {
    Object.defineProperty(globalThis, "crypto", { value: crypto, configurable: true });
  }
  const options = { url: "https://coordinator.example", study: "tea", promise: LOCAL };
  assert.throws(() => new Device(options), /no IndexedDB here to keep rewards in/);
  assert.throws(() => new Device({ ...options, url: "coordinator" }), /url must be an address, such as/);
  const device = new Services({}).device(LOCAL);
  const wrong: [number, number, number, number][] = [[0, 0, 1, 1], [1, -1, 1, 1], [1, 0, NaN, 1], [1, 0, 1, 0], [1.5, 0, 1, 1]];
  for (const given of wrong) await assert.rejects(device.record(...given), InputError);
  const newer = structuredClone(await device.memory.read());
  const storage = new MemoryStorage({ ...newer, version: 4 as 3 });
  await assert.rejects(new Services({}).device(LOCAL, { storage }).checkIn(), /another version \(4\)/);
});

test("what devices of versions 1 and 2 kept is upgraded", async () => {
  const upload = { address: "https://coordinator.example/v1/studies/tea/phases/3/report", body: "{}" };
  const rest = { key: "a-key", registered: true, withdrawn: false, forgotten: false, rewards: { 3: { 0: [2, 1] } }, made: [3] };
  const rewards = { 3: { 1: { 0: [2, 1] } } }; // the whole wave is one block
  const former = { ...rest, version: 1, outgoing: { phase: 3, token: "sesame", uploads: [upload] } };
  const device = new Services({}).device(LOCAL, { storage: new MemoryStorage(former as unknown as State) });
  const address = "https://coordinator.example/v2/studies/tea/waves/3/report";
  const outgoing = { wave: 3, token: "sesame", uploads: [{ address, body: "{}" }] };
  assert.deepEqual(await device.memory.read(), { ...rest, rewards, version: 3, outgoing });
  for (const version of [1, 2]) {
    const idle = { ...rest, version, outgoing: null };
    const other = new Services({}).device(LOCAL, { storage: new MemoryStorage(idle as unknown as State) });
    assert.deepEqual(await other.memory.read(), { ...rest, rewards, version: 3, outgoing: null });
  }
});

test("a device that lost its storage is someone new", async () => {
  const services = new Services(told("local"));
  const keys = [];
  for (let times = 0; times < 2; times++) {
    const device = services.device(LOCAL);
    assert.equal(await device.checkIn(), Outcome.ANSWERED);
    keys.push((await device.memory.read()).key);
  }
  assert.notEqual(keys[0], keys[1]);
  assert.equal(services.count("PUT participant"), 2);
});

test("the helper gets its share first, and the coordinator only if the helper took it", async () => {
  const promise = { model: "aggregate", epsilon: 8, delta: 1e-5, helper: "https://other.example" } as const;
  const services = new Services(told("aggregate"));
  const order: string[] = [];
  let busy = 3; // the coordinator's answers that are lost
  const device = services.device(promise, {
    attempts: 2,
    fetch: async (address, init) => {
      const { host } = new URL(String(address));
      if (init?.method === "PUT" && String(address).endsWith("report")) {
        order.push(host);
        if (host === "coordinator.example" && busy-- > 0) throw new TypeError("cut");
      }
      return services.fetch(address, init);
    },
  });
  assert.equal(await device.checkIn(), Outcome.OFFLINE);
  assert.equal(await device.checkIn(), Outcome.ANSWERED);
  const round = ["other.example", "coordinator.example", "coordinator.example"];
  assert.deepEqual(order, [...round, ...round]);
  const bodies = services.uploads.map(({ body }) => body);
  assert.deepEqual(bodies, [bodies[0], bodies[0], bodies[2]]); // the same shares again
  for (const [status, outcome] of [[409, Outcome.ANOTHER], [410, Outcome.TOO_LATE], [422, Outcome.REFUSED]] as const) {
    const refusing = new Services(told("aggregate"));
    refusing.replies["report"] = { status, body: { error: "no" } };
    const other = refusing.device(promise);
    assert.equal(await other.checkIn(), outcome);
    assert.deepEqual(refusing.uploads.map(({ address }) => new URL(address).host), ["other.example"]);
    assert.equal((await other.memory.read()).outgoing, null);
  }
});

test("a reply that never ends is no answer", async () => {
  let parts = 0;
  const endless = () =>
    new ReadableStream({
      pull(stream) {
        parts++;
        stream.enqueue(new Uint8Array(2 ** 22));
      },
    });
  const device = new Device({
    url: "https://coordinator.example",
    study: "tea",
    promise: CENTRAL,
    storage: new MemoryStorage(),
    attempts: 1,
    fetch: async () => new Response(endless()),
  });
  assert.equal(await device.checkIn(), Outcome.OFFLINE);
  assert.ok(parts < 20);
});
