// The queries of the service as pictures to choose from.

import { handOf, PLAIN } from "./hand.js";
import { pixelsOf } from "./pictures.js";
import { named } from "./words.js";

const SHOWN = 12;
const MODELS = 6; // beside the drawing pad

export class Queries {
  #service;
  #box;
  #models;
  #chosen;
  #all = [];
  #from = 0;

  /** `chosen` is called with a query {image, label}. */
  constructor(service, { box, models, others, chosen }) {
    this.#service = service;
    this.#box = box;
    this.#models = models;
    this.#chosen = chosen;
    others.addEventListener("click", () => this.#show(++this.#from));
  }

  /** Those that the service has. */
  async load() {
    this.#all = await this.#service.queries();
    this.#from = 0;
    this.#show();
    this.#models.replaceChildren(...this.#spaced(MODELS).map((query) => this.#button(query)));
  }

  /** The first of them. */
  get example() {
    return this.#all[0];
  }

  /** The hand that they are drawn in. */
  async hand() {
    if (!this.#all.length) return PLAIN;
    return handOf(await Promise.all(this.#spaced(SHOWN).map((query) => this.pixels(query))));
  }

  async pixels({ image, label }) {
    return pixelsOf(await this.#service.picture(image), `the query ${named(label)}`);
  }

  #spaced(count, from = 0) {
    const step = Math.max(1, Math.floor(this.#all.length / count));
    return Array.from({ length: Math.min(count, this.#all.length) }, (_, i) => this.#all[(i * step + from) % this.#all.length]);
  }

  #show() {
    this.#box.replaceChildren(...this.#spaced(SHOWN, this.#from).map((query) => this.#button(query)));
  }

  #button(query) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(this.#picture(query));
    button.addEventListener("click", () => this.#chosen(query));
    return button;
  }

  #picture({ image, label }) {
    const picture = document.createElement("img");
    picture.alt = picture.title = named(label) || "a query";
    picture.src = image;
    return picture;
  }
}
