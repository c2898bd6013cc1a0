/** What is wrong, in one line. */
export class PrunNetError extends Error {}

export interface Pixels {
  /** 1 (grey), 3 (RGB) or 4 (RGBA, alpha ignored) bytes per pixel, row by row. */
  data: Uint8Array | Uint8ClampedArray;
  width: number;
  height: number;
}

export interface LoadOptions {
  /** One of the file's grid; default: the largest. */
  capacity?: number;
  /** Called while bytes arrive. */
  progress?: (told: { loaded: number; total?: number }) => void;
  /** Whether the bytes are kept in the browser's Cache; default: true. */
  cache?: boolean;
  /** Whether it runs in a Worker; default: where there are Workers. */
  worker?: boolean;
  /** The address or the bytes of prunnet.wasm.gz, compressed or not, if it is not beside this module. */
  wasm?: string | URL | ArrayBuffer | Uint8Array;
}

/** A subnetwork of a .prun file. */
export class PrunNet {
  static load(source: string | URL | ArrayBuffer | Uint8Array, options?: LoadOptions): Promise<PrunNet>;
  /** Of the space that embeddings lie in: those of another id cannot be compared. */
  readonly familyId: string;
  readonly capacity: number;
  readonly capacities: number[];
  readonly embeddingDim: number;
  /** [channels, height, width] of preprocessed images. */
  readonly inputSize: [number, number, number];
  /** How many bytes of the file were needed. */
  readonly bytes: number;
  /** How many bytes of the file are here: what fits into them costs no download. */
  readonly held: number;
  /** L2-normalised. A Float32Array is taken as already preprocessed. */
  embed(picture: ImageData | ImageBitmap | Blob | Pixels | Float32Array): Promise<Float32Array>;
  /** Downloads only what is not there yet. */
  upgrade(capacity: number): Promise<this>;
  /** Ends its Worker; what is asked of it afterwards is refused. */
  close(): void;
}
