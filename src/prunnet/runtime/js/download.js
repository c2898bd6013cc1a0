// The first bytes of a file: by range requests, kept in the browser's Cache, or from memory.

import { PrunNetError } from "./engine.js";

const PREAMBLE = 44; // magic, length and SHA-256 of the header, which holds the SHA-256 of every section
const FIRST = 32768; // holds the header of most networks
const STORE = "prunnet";

/** Grows a prefix of the file at `url`; `progress` is called with {loaded, total} as bytes arrive. */
export class Download {
  #url;
  #progress;
  #cache;
  #whole = false; // a server without ranges has sent all of it
  prefix = new Uint8Array(0);

  constructor(url, { progress, cache = true } = {}) {
    this.#url = String(url);
    this.#progress = progress;
    this.#cache = cache && typeof caches !== "undefined" ? caches.open(STORE).catch(() => null) : null;
  }

  /** The prefix that the cache has, if the file is still the same, or the first bytes from the server. */
  async start() {
    const kept = await this.#kept();
    if (kept && (await this.#isStill(kept))) this.prefix = kept;
    else await this.to(FIRST);
    return this.prefix;
  }

  /** At least `end` bytes, or all there are. */
  async to(end) {
    const start = this.prefix.length;
    if (end <= start || this.#whole) return this.prefix;
    const { bytes, whole } = await this.#fetched(start, end);
    this.#whole = whole;
    this.prefix = whole ? bytes : joined(this.prefix, bytes);
    return this.prefix;
  }

  async keep() {
    const cache = await this.#cache;
    await cache?.put(this.#url, new Response(this.prefix)).catch(() => {}); // a full store is no reason to fail
  }

  async forget() {
    await (await this.#cache)?.delete(this.#url);
    this.prefix = new Uint8Array(0);
    this.#whole = false;
  }

  async #kept() {
    const response = await (await this.#cache)?.match(this.#url);
    return response && new Uint8Array(await response.arrayBuffer());
  }

  async #isStill(kept) {
    try {
      const { bytes } = await this.#fetched(0, PREAMBLE, true);
      return kept.length >= PREAMBLE && bytes.subarray(0, PREAMBLE).every((byte, i) => byte === kept[i]);
    } catch {
      return true; // without a connection, what there is
    }
  }

  /** A `glance` tells no progress, and wants nothing beyond `end` of a server that sends all. */
  async #fetched(start, end, glance = false) {
    const response = await fetch(this.#url, { headers: { Range: `bytes=${start}-${end - 1}` }, cache: "no-store" });
    if (response.status === 416) return { bytes: new Uint8Array(0), whole: false };
    if (!response.ok) throw new PrunNetError(`${this.#url} cannot be read (status ${response.status})`);
    const whole = response.status !== 206;
    const range = response.headers.get("Content-Range"); // servers of other origins may not show it
    if (!whole && range && !range.startsWith(`bytes ${start}-`)) {
      throw new PrunNetError(`${this.#url}: the server sends other bytes than those asked for`);
    }
    const before = whole ? 0 : start;
    const total = whole ? Number(response.headers.get("Content-Length")) || undefined : end;
    const pieces = [];
    let loaded = before;
    for (const reader = response.body.getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) break;
      pieces.push(value);
      loaded += value.length;
      if (!glance) this.#progress?.({ loaded, total });
      else if (loaded >= end) {
        await reader.cancel();
        break;
      }
    }
    return { bytes: joined(...pieces), whole };
  }
}

/** A file that is in memory already. */
export class InMemory {
  constructor(bytes) {
    this.prefix = new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength);
  }

  async start() {
    return this.prefix;
  }

  async to() {
    return this.prefix;
  }

  async keep() {}

  async forget() {}
}

function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
