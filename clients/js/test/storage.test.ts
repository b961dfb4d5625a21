import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { Outcome } from "../src/index.ts";
import { FileStorage } from "../src/node.ts";
import { LOCAL, Services, told } from "./services.ts";

let folder = "";
let path = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "voxpop-device-"));
  path = join(folder, "device.json");
});
afterEach(() => rmSync(folder, { recursive: true }));

test("a device continues from its file, which only its owner may read", async () => {
  const services = new Services(told("local"));
  services.replies["report"] = "nobody";
  const device = services.device(LOCAL, { storage: new FileStorage(path) });
  await device.record(3, 10, 0.123456789);
  assert.match(readFileSync(path, "utf8"), /0\.123456789/);
  assert.equal(await device.checkIn(), Outcome.OFFLINE);
  const kept = await device.memory.read();
  assert.equal(statSync(path).mode & 0o777, 0o600);
  delete services.replies["report"];
  const again = services.device(LOCAL, { storage: new FileStorage(path) });
  assert.equal(await again.checkIn(), Outcome.ANSWERED);
  assert.equal(services.uploads[0]!.body, kept.outgoing!.uploads[0]!.body);
  assert.equal((await again.memory.read()).key, kept.key);
  assert.equal(services.count("PUT participant"), 1);
  assert.doesNotMatch(readFileSync(path, "utf8"), /0\.123456789|report/);
  assert.equal(await again.checkIn(), Outcome.SPENT);
  assert.deepEqual(readdirSync(folder), ["device.json"]);
});

test("after an error nothing has changed", async () => {
  const storage = new FileStorage(path);
  const device = new Services({}).device(LOCAL, { storage });
  const before = await device.memory.read();
  await assert.rejects(
    storage.update(() => {
      throw new Error("no");
    }),
  );
  assert.deepEqual(await device.memory.read(), before);
  writeFileSync(path, "{");
  await assert.rejects(device.checkIn(), /does not hold what a device keeps/);
  assert.deepEqual(readdirSync(folder), ["device.json"]);
});

test("several processes of one device lose no reward and make one report", async () => {
  const program = `
    import { Memory } from ${JSON.stringify(new URL("../src/memory.ts", import.meta.url).href)};
    import { FileStorage } from ${JSON.stringify(new URL("../src/node.ts", import.meta.url).href)};
    const memory = new Memory(new FileStorage(process.argv[1]), () => "key of " + process.pid);
    for (let times = 0; times < 20; times++) await memory.record(1, 0, 1, 1, 1);
    const body = String(process.pid);
    const kept = await memory.keepWithin({ wave: 1, token: "t", uploads: [{ address: "a", body }] }, 1);
    console.log(kept.uploads[0].body);
  `;
  const children = [1, 2, 3].map(() => spawn(process.execPath, ["--input-type=module", "-e", program, path]));
  const said = await Promise.all(
    children.map(async (child) => {
      let [text, wrong] = ["", ""];
      child.stdout.on("data", (part) => (text += String(part)));
      child.stderr.on("data", (part) => (wrong += String(part)));
      const [status] = (await once(child, "close")) as [number];
      assert.equal(status, 0, wrong);
      return text;
    }),
  );
  assert.equal(new Set(said).size, 1);
  const kept = JSON.parse(readFileSync(path, "utf8")) as { rewards: unknown; made: number[] };
  assert.deepEqual([kept.rewards, kept.made], [{ 1: { 1: { 0: [60, 60] } } }, [1]]);
  assert.deepEqual(readdirSync(folder), ["device.json"]);
});

test("a lock that a power cut left behind does not last", async () => {
  writeFileSync(path + ".lock", "somebody who is gone");
  const device = new Services({}).device(LOCAL, { storage: new FileStorage(path, 50) });
  await device.record(1, 0, 1);
  assert.deepEqual(readdirSync(folder), ["device.json"]);
});
