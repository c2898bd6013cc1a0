// Embed pictures with a subnetwork from the first bytes of a .prun file, in a browser or in node.
//
//   const model = await PrunNet.load("family.prun", { capacity: 0.1 });
//   const query = await model.embed(imageData);      // Float32Array of length 1, of the space model.familyId
//   await model.upgrade(0.4);                        // downloads the bytes in between

import { CLOSED, PrunNetError } from "./engine.js";
import { Model } from "./model.js";

export { PrunNetError };

export class PrunNet {
  #info;
  #run; // (method, argument) => promise
  #end;

  /**
   * `source`: an address, or the file's bytes. `options`: `capacity` (default: the largest), `progress` called with
   * {loaded, total} while bytes arrive, `cache: false` to keep nothing in the browser's Cache, `worker: false` to run in
   * this thread, `wasm` the address or the bytes of prunnet.wasm.gz if it is not beside this module.
   */
  static async load(source, { capacity, progress, cache = true, worker = typeof Worker !== "undefined", wasm } = {}) {
    const model = new PrunNet();
    const here = typeof location === "undefined" ? undefined : location.href;
    const told = { capacity, cache, wasm: wasm instanceof URL ? wasm.href : wasm };
    const from = typeof source === "string" || source instanceof URL ? new URL(source, here).href : source;
    if (worker) {
      model.#run = inWorker(progress, (end) => (model.#end = end));
      try {
        model.#info = await model.#run("load", { source: from, ...told });
      } catch (error) {
        model.#end();
        throw error;
      }
    } else {
      const [running, info] = await Model.load(from, { ...told, progress });
      model.#info = info;
      model.#run = (method, argument) => running[method](argument);
      model.#end = () => running.close();
    }
    return model;
  }

  get familyId() {
    return this.#info.familyId;
  }

  get capacity() {
    return this.#info.capacity;
  }

  get capacities() {
    return this.#info.bands.map((band) => band.capacity);
  }

  get embeddingDim() {
    return this.#info.embeddingDim;
  }

  /** [channels, height, width] of preprocessed images. */
  get inputSize() {
    return this.#info.inputSize;
  }

  /** How many bytes of the file were needed. */
  get bytes() {
    return this.#info.bytes;
  }

  /** How many bytes of the file are here: what fits into them costs no download. */
  get held() {
    return this.#info.held;
  }

  /** The L2-normalised embedding of an ImageData, ImageBitmap, Blob, {data, width, height}, or preprocessed floats. */
  embed(picture) {
    return this.#run("embed", picture);
  }

  /** Become the subnetwork at `capacity`, downloading only what is not there yet. */
  async upgrade(capacity) {
    this.#info = await this.#run("upgrade", capacity);
    return this;
  }

  close() {
    this.#end();
  }
}

function inWorker(progress, ends) {
  const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  const waiting = new Map();
  let count = 0, closed = false;
  const fail = (message) => {
    for (const { reject } of waiting.values()) reject(new PrunNetError(message));
    waiting.clear();
  };
  worker.onerror = (event) => fail(`the worker failed: ${event.message ?? "it could not be started"}`);
  worker.onmessage = ({ data }) => {
    if (data.progress) return progress?.(data.progress);
    const { resolve, reject } = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.error === undefined) resolve(data.result);
    else reject(new PrunNetError(data.error));
  };
  ends(() => {
    worker.terminate();
    closed = true;
    fail(CLOSED);
  });
  return (method, argument) =>
    new Promise((resolve, reject) => {
      if (closed) throw new PrunNetError(CLOSED);
      waiting.set(++count, { resolve, reject });
      worker.postMessage({ id: count, method, argument });
    });
}
