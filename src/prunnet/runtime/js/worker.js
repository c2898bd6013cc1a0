// The other end of prunnet.js: runs one model and answers messages.

import { Model } from "./model.js";

let model;

const methods = {
  async load({ source, ...options }) {
    const progress = (told) => postMessage({ progress: told });
    const [loaded, info] = await Model.load(source, { ...options, progress });
    model = loaded;
    return info;
  },
  upgrade: (capacity) => model.upgrade(capacity),
  embed: (picture) => model.embed(picture),
};

addEventListener("message", async ({ data: { id, method, argument } }) => {
  try {
    postMessage({ id, result: await methods[method](argument) });
  } catch (error) {
    postMessage({ id, error: error.message });
  }
});
