/** What a device remembers in a browser: one record of an IndexedDB database, which all tabs share. */
import { InputError } from "./errors.ts";
import type { State, Storage } from "./memory.ts";

const PLACE = "device";

/** An IndexedDB database of the page's origin; of several tabs that change it at once, one waits for the other. */
export class BrowserStorage implements Storage {
  private readonly name: string;

  constructor(name: string) {
    if (typeof indexedDB === "undefined") {
      throw new InputError(
        "there is no IndexedDB here to keep rewards in; give a storage, such as FileStorage of voxpop-device/node",
      );
    }
    this.name = name;
  }

  async update(change: (kept: State | null) => State): Promise<void> {
    const database = await this.open();
    try {
      await new Promise<void>((done, fail) => {
        const transaction = database.transaction(PLACE, "readwrite", { durability: "strict" });
        const store = transaction.objectStore(PLACE);
        let wrong: unknown;
        transaction.oncomplete = () => done();
        transaction.onabort = () => fail(wrong ?? this.refusal(transaction.error));
        const read = store.get(PLACE) as IDBRequest<State | undefined>;
        read.onsuccess = () => {
          try {
            store.put(change(read.result ?? null), PLACE);
          } catch (error) {
            wrong = error;
            transaction.abort();
          }
        };
      });
    } finally {
      database.close();
    }
  }

  private open(): Promise<IDBDatabase> {
    return new Promise((done, fail) => {
      const request = indexedDB.open(this.name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(PLACE);
      request.onsuccess = () => done(request.result);
      request.onerror = () => fail(this.refusal(request.error));
    });
  }

  private refusal(error: DOMException | null): InputError {
    return new InputError(`this browser keeps nothing (${error?.message ?? "no reason"}); allow the page to store data`);
  }
}
