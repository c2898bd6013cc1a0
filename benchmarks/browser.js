// The page of browser.py: does what /files/task.json says and posts what came out.

const IMAGE = [1, 3, 224, 224];

/** Each gives, for a file, a function from an image to its embedding. */
const runtimes = {
  async prunnet(file, { capacity, worker }) {
    const { PrunNet } = await import("/prunnet/prunnet.js");
    const model = await PrunNet.load(file, { capacity, worker, cache: false });
    return (image) => model.embed(image);
  },
  async onnxruntime(file) {
    const ort = await import("/npm/onnxruntime-web/dist/ort.wasm.min.mjs");
    ort.env.wasm.numThreads = 1;
    const session = await ort.InferenceSession.create(file, { executionProviders: ["wasm"] });
    const [input] = session.inputNames, [output] = session.outputNames;
    return async (image) => (await session.run({ [input]: new ort.Tensor("float32", image, IMAGE) }))[output].data;
  },
  async litert(file) {
    const litert = await import("/npm/@litertjs/core/dist/index.js");
    await litert.loadLiteRt("/npm/@litertjs/core/wasm/"); // its file for one thread
    const model = await litert.loadAndCompile(file, { accelerator: "wasm" });
    return async (image) => {
      const tensor = new litert.Tensor(image, IMAGE);
      const [result] = await model.run([tensor]);
      const embedding = (await result.data()).slice();
      tensor.delete();
      result.delete();
      return embedding;
    };
  },
};

/** As prunnet._timing.medians: turns in an order that rotates, each called once unmeasured before it is measured. */
async function turns(tasks, rounds) {
  const times = tasks.map(() => []);
  const order = tasks.map((_, index) => index);
  for (let round = 0; round < rounds; round++) {
    for (const index of order) {
      await tasks[index]();
      const start = performance.now();
      await tasks[index]();
      times[index].push((performance.now() - start) / 1000);
    }
    order.unshift(order.pop());
  }
  return times;
}

async function done({ runs, rounds }) {
  const image = new Float32Array(await (await fetch("/files/image.bin")).arrayBuffer());
  const embed = [];
  for (const { runtime, file, ...options } of runs) embed.push(await runtimes[runtime](file, options));
  const embeddings = [];
  for (const one of embed) embeddings.push([...(await one(image))]);
  return { embeddings, seconds: await turns(embed.map((one) => () => one(image)), rounds) };
}

let told;
try {
  told = await done(await (await fetch("/files/task.json")).json());
} catch (error) {
  told = { error: `${error} ${error?.stack ?? ""}` };
}
await fetch("/done", { method: "POST", body: JSON.stringify(told) });
