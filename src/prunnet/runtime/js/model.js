// A model where it runs: in a Worker, or in this very thread.

import { Download, InMemory } from "./download.js";
import { Engine, PrunNetError } from "./engine.js";

export class Model {
  #engine;
  #file;
  #turn = Promise.resolve(); // what is fetched for one upgrade is appended before the next one asks

  static async load(source, { capacity, wasm, progress, cache } = {}) {
    const model = new Model();
    const inMemory = source instanceof ArrayBuffer || ArrayBuffer.isView(source);
    model.#engine = await Engine.create(wasm);
    model.#file = inMemory ? new InMemory(source) : new Download(source, { progress, cache });
    const start = await model.#file.start();
    const end = model.#engine.headerBytes(start);
    const header = await model.#file.to(end);
    model.#engine.open(header.subarray(0, end));
    return [model, await model.upgrade(capacity)];
  }

  /** Fetch what `capacity` (default: the largest) needs beyond what is there, and become it. */
  upgrade(capacity) {
    const upgraded = this.#turn.then(() => this.#grow(capacity));
    this.#turn = upgraded.catch(() => {});
    return upgraded;
  }

  async #grow(capacity) {
    const { bands, bytes } = this.#engine.info();
    const band = capacity === undefined ? bands.at(-1) : bands.find((b) => Math.abs(b.capacity - capacity) <= 1e-9);
    if (!band) {
      const known = bands.map((b) => percent(b.capacity)).join(", ");
      throw new PrunNetError(`the file has no band that ends at ${percent(capacity)}; it has ${known}`);
    }
    const prefix = await this.#file.to(band.end);
    if (prefix.length > bytes) this.#engine.append(prefix.subarray(bytes, Math.max(bytes, Math.min(prefix.length, band.end))));
    try {
      const info = this.#engine.plan(capacity === undefined && prefix.length < band.end ? 0 : band.capacity);
      await this.#file.keep();
      return { ...info, held: prefix.length };
    } catch (error) {
      await this.#file.forget(); // so that it is fetched again
      throw error;
    }
  }

  async embed(picture) {
    if (picture instanceof Float32Array) return this.#engine.embedImage(picture);
    return this.#engine.embed(await pixelsOf(picture));
  }

  close() {
    this.#engine.close();
  }
}

function percent(capacity) {
  return `${+(100 * capacity).toPrecision(4)} %`;
}

/** ImageData or anything like it as it is; a Blob or ImageBitmap drawn. */
async function pixelsOf(picture) {
  if (typeof Blob !== "undefined" && picture instanceof Blob) {
    if (typeof createImageBitmap === "undefined") throw new PrunNetError("pictures are not decoded here; give {data, width, height}");
    picture = await createImageBitmap(picture, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  }
  if (typeof ImageBitmap !== "undefined" && picture instanceof ImageBitmap) {
    const context = new OffscreenCanvas(picture.width, picture.height).getContext("2d", { willReadFrequently: true });
    context.drawImage(picture, 0, 0);
    return context.getImageData(0, 0, picture.width, picture.height);
  }
  if (picture?.data && picture.width > 0 && picture.height > 0) return picture;
  throw new PrunNetError("a picture is an ImageData, ImageBitmap or Blob, {data, width, height}, or a Float32Array that is preprocessed");
}
