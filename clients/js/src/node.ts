/** What a device remembers in Node: a file that only its owner may read, replaced as a whole. */
import { closeSync, fsyncSync, linkSync, openSync, readFileSync, renameSync, rmSync, writeSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { dirname } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import type { State, Storage } from "./memory.ts";

const PATIENCE = 5_000; // milliseconds after which a lock that does not change is that of a process which ended
const BETWEEN = 5; // milliseconds between two attempts

/** A file; of several processes that change it at once, one waits for the other. */
export class FileStorage implements Storage {
  private readonly path: string;
  private readonly patience: number;
  private readonly mine = randomUUID();

  constructor(path: string, patience = PATIENCE) {
    this.path = path;
    this.patience = patience;
  }

  async update(change: (kept: State | null) => State): Promise<void> {
    for (;;) {
      await this.lock();
      try {
        if (this.replace(change)) return;
      } finally {
        if (this.holder() === this.mine) rmSync(this.path + ".lock");
      }
    }
  }

  /** Wait until no other process changes the file. A lock holds for milliseconds, so one that stays is left over. */
  private async lock(): Promise<void> {
    const [own, lock] = [`${this.path}.${this.mine}`, this.path + ".lock"];
    let [seen, since] = [null as string | null, performance.now()];
    for (;;) {
      write(own, this.mine, false);
      try {
        linkSync(own, lock); // fails if there is one
        return;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      } finally {
        rmSync(own);
      }
      const holder = this.holder();
      if (holder !== seen) [seen, since] = [holder, performance.now()];
      else if (performance.now() - since > this.patience) rmSync(lock, { force: true });
      await pause(BETWEEN);
    }
  }

  /** Write the changed file beside the old one and put it in its place; return false if the lock was lost meanwhile. */
  private replace(change: (kept: State | null) => State): boolean {
    const text = read(this.path);
    const next = JSON.stringify(change(text === null ? null : this.parse(text)));
    if (next === text) return true;
    const draft = `${this.path}.${this.mine}`;
    try {
      write(draft, next, true);
      if (this.holder() !== this.mine) return false;
      renameSync(draft, this.path);
    } finally {
      rmSync(draft, { force: true });
    }
    const folder = openSync(dirname(this.path), "r");
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
    return true;
  }

  private parse(text: string): State {
    try {
      return JSON.parse(text) as State;
    } catch {
      throw new Error(`${this.path} does not hold what a device keeps; give it a file of its own`);
    }
  }

  private holder(): string | null {
    return read(this.path + ".lock");
  }
}

function read(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

function write(path: string, text: string, durable: boolean): void {
  const file = openSync(path, "w", 0o600);
  try {
    writeSync(file, text);
    if (durable) fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
