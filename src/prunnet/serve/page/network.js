// The network in this browser: one file, of which as much is fetched as the largest capacity asked for needs.

import { PrunNet } from "/js/prunnet.js";

// A module with one function, which returns a vector of four zeros: older browsers refuse it.
const SIMD = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 17, 11,
]);

const TIMES = 5;
const PATIENCE = 150; // milliseconds after which it is not embedded again

/** Why networks do not run in this browser, or nothing. */
export function missing() {
  if (typeof WebAssembly === "undefined") return "This browser has no WebAssembly, or it is switched off";
  if (!WebAssembly.validate(SIMD)) return "This browser has WebAssembly without its vector instructions (SIMD)";
  return undefined;
}

export class Network {
  #model;
  #turn = Promise.resolve(); // the runtime is one subnetwork at a time: whoever asks waits for those before

  /** `progress` is told how many of the file's first bytes are here, while they arrive. */
  static async open(address, capacity, progress) {
    const network = new Network();
    const told = ({ loaded }) => progress(loaded);
    await forgetOlder(address);
    network.#model = await PrunNet.load(address, { capacity, progress: told });
    return network;
  }

  get familyId() {
    return this.#model.familyId;
  }

  /** How many bytes of the file are here. */
  get held() {
    return this.#model.held;
  }

  /** Fetch what `capacity` needs and is not here; how many bytes that were. */
  become(capacity) {
    return this.#next(async () => {
      const before = this.held;
      await this.#at(capacity);
      return this.held - before;
    });
  }

  /** The embedding of `pixels` at `capacity`, and how long it takes: the fastest of a few, as the first is slower. */
  embed(pixels, capacity) {
    return this.#next(async () => {
      await this.#at(capacity);
      const times = [];
      let vector, spent = 0;
      while (times.length < 2 || (times.length < TIMES && spent < PATIENCE)) {
        const began = performance.now();
        vector = await this.#model.embed(pixels);
        times.push(performance.now() - began);
        spent += times.at(-1);
      }
      return { vector, milliseconds: Math.min(...times) };
    });
  }

  close() {
    this.#model.close();
  }

  async #at(capacity) {
    if (this.#model.capacity !== capacity) await this.#model.upgrade(capacity);
  }

  #next(work) {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }
}

/** Delete files from the browser's Cache that were at `address` under another id. */
async function forgetOlder(address) {
  if (typeof caches === "undefined") return;
  const { href, pathname } = new URL(address, location.href);
  const cache = await caches.open("prunnet").catch(() => null);
  for (const { url } of (await cache?.keys()) ?? []) {
    if (url !== href && new URL(url).pathname === pathname) await cache.delete(url);
  }
}
