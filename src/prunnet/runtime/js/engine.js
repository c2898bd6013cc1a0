// The C library in WebAssembly: one model, its bytes and its embeddings.

export class PrunNetError extends Error {
  name = "PrunNetError";
}

export const CLOSED = "the model is closed";

/** Bytes of a file beside this module, in a browser or in node. */
export async function bytesBeside(url) {
  if (url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return readFile(url);
  }
  const response = await fetch(url);
  if (!response.ok) throw new PrunNetError(`${url} cannot be read (status ${response.status})`);
  return response.arrayBuffer();
}

/** `bytes` as they are, or what they hold if they are compressed and no server has undone it. */
async function unzipped(bytes) {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

export class Engine {
  #c;
  #model = 0;
  #floats = 0; // where embeddings are written

  static async create(wasm) {
    const source = wasm ?? new URL("./prunnet.wasm.gz", import.meta.url);
    const told = source instanceof URL || typeof source === "string";
    const bytes = new Uint8Array(told ? await bytesBeside(new URL(source, import.meta.url)) : source);
    const { instance } = await WebAssembly.instantiate(await unzipped(bytes), {});
    instance.exports._initialize();
    return new Engine(instance.exports);
  }

  constructor(exports) {
    this.#c = exports;
  }

  /** How many bytes the header takes, told by the first 44 of a file. */
  headerBytes(bytes) {
    const length = this.#lent(bytes, (at) => Number(this.#c.prunnet_header_bytes(at, bytes.length)));
    if (!length) throw new PrunNetError("it is no .prun file (prunnet.pack writes one)");
    return length;
  }

  open(bytes) {
    this.close();
    const place = this.#taken(4);
    const code = this.#lent(bytes, (at) => this.#c.prunnet_open(place, at, bytes.length));
    this.#model = new DataView(this.#c.memory.buffer).getUint32(place, true);
    this.#c.free(place);
    this.#check(code);
    this.#floats = this.#taken(4 * this.#c.prunnet_embedding_dim(this.#model));
  }

  append(bytes) {
    this.#check(this.#lent(bytes, (at) => this.#c.prunnet_append(this.#opened, at, bytes.length)));
  }

  plan(capacity) {
    this.#check(this.#c.prunnet_plan(this.#opened, capacity ?? 0, 1));
    return this.info();
  }

  /** Pixels are 1 (grey), 3 (RGB) or 4 (RGBA) bytes each. */
  embed({ data, width, height }) {
    const channels = data.length / (width * height);
    if (![1, 3, 4].includes(channels)) throw new PrunNetError(`${width} × ${height} pixels have 1, 3 or 4 bytes each; found ${data.length}`);
    this.#check(this.#lent(data, (at) => this.#c.prunnet_embed_picture(this.#opened, at, width, height, channels, this.#floats)));
    return this.#embedding();
  }

  /** A preprocessed image, [C, H, W]. */
  embedImage(image) {
    const { inputSize } = this.info();
    if (image.length !== inputSize[0] * inputSize[1] * inputSize[2]) throw new PrunNetError(`an image has ${inputSize.join(" × ")} floats; found ${image.length}`);
    const bytes = new Uint8Array(image.buffer, image.byteOffset, image.byteLength);
    this.#check(this.#lent(bytes, (at) => this.#c.prunnet_embed_image(this.#model, at, this.#floats)));
    return this.#embedding();
  }

  info() {
    const c = this.#c, model = this.#opened;
    const bands = Array.from({ length: c.prunnet_bands(model) }, (_, band) => ({
      capacity: c.prunnet_band_capacity(model, band),
      end: Number(c.prunnet_band_end(model, band)),
    }));
    return {
      familyId: this.#text(c.prunnet_family_id(model)),
      capacity: c.prunnet_capacity(model),
      embeddingDim: c.prunnet_embedding_dim(model),
      inputSize: [0, 1, 2].map((dimension) => c.prunnet_input_size(model, dimension)),
      bytes: Number(c.prunnet_bytes(model)),
      bands,
    };
  }

  close() {
    if (this.#floats) this.#c.free(this.#floats);
    if (this.#model) this.#c.prunnet_close(this.#model);
    this.#model = this.#floats = 0;
  }

  get #opened() {
    if (!this.#model) throw new PrunNetError(CLOSED);
    return this.#model;
  }

  #embedding() {
    const count = this.#c.prunnet_embedding_dim(this.#model);
    return new Float32Array(this.#c.memory.buffer, this.#floats, count).slice();
  }

  #taken(size) {
    const at = this.#c.malloc(size || 1);
    if (!at) throw new PrunNetError("there is not enough memory");
    return at;
  }

  /** `use` with a copy of `bytes` in the memory of the library. */
  #lent(bytes, use) {
    const at = this.#taken(bytes.length);
    try {
      new Uint8Array(this.#c.memory.buffer, at, bytes.length).set(bytes);
      return use(at);
    } finally {
      this.#c.free(at);
    }
  }

  #text(at) {
    const memory = new Uint8Array(this.#c.memory.buffer, at);
    return new TextDecoder().decode(memory.subarray(0, memory.indexOf(0)));
  }

  #check(code) {
    if (code) throw new PrunNetError(this.#text(this.#c.prunnet_message(this.#model)));
  }
}
