// The measured matrix: a row asks, a column indexed. It marks where the visitor is.

import { percent } from "./words.js";

export class Matrix {
  #section;
  #table;
  #text;
  #capacities = [];
  #metric = "";

  constructor(section) {
    this.#section = section;
    this.#table = section.querySelector("table");
    this.#text = section.querySelector(".here");
  }

  /** {capacities, values} or nothing, if none was measured. */
  set measured(matrix) {
    this.#section.hidden = !matrix;
    this.#capacities = matrix?.capacities ?? [];
    if (!matrix) return;
    const { capacities, metric, values } = matrix;
    this.#metric = metric;
    this.#section.querySelector(".metric").textContent = metric;
    const all = values.flat(), low = Math.min(...all), high = Math.max(...all);
    const corner = cell("td", "asks ↓ indexed →");
    const names = capacities.map((capacity) => cell("th", percent(capacity), "col"));
    this.#table.tHead.replaceChildren(row([corner, ...names]));
    this.#table.tBodies[0].replaceChildren(
      ...values.map((line, asks) =>
        row([
          cell("th", percent(capacities[asks]), "row"),
          ...line.map((value) => {
            const made = cell("td", (100 * value).toFixed(1));
            made.style.setProperty("--heat-share", high > low ? (value - low) / (high - low) : 1);
            return made;
          }),
        ]),
      ),
    );
  }

  /** Mark the row of `now`, that of `kept`, and the column of the network that indexed the gallery. */
  show(now, kept, gallery) {
    const places = [now, kept].map((capacity) => this.#nearest(capacity));
    const column = this.#nearest(gallery);
    [...this.#table.tBodies[0].rows].forEach((line, asks) => {
      line.classList.toggle("now", asks === places[0]);
      line.classList.toggle("kept", asks === places[1] && kept !== now);
      [...line.cells].forEach((each, place) => {
        const here = asks === places[0] && place === column + 1;
        each.classList.toggle("gallery", place === column + 1);
        if (here) each.setAttribute("aria-current", "true");
        else each.removeAttribute("aria-current");
      });
    });
    const here = this.#table.querySelector("[aria-current]");
    const measured = this.#capacities[places[0]];
    const near = measured === now ? "" : `, the nearest to ${percent(now)} that was measured,`;
    this.#text.textContent = here ? `You are here: ${percent(measured)}${near} asks the gallery of ${percent(this.#capacities[column])}; ${this.#metric} ${here.textContent}.` : "";
  }

  #nearest(capacity) {
    if (capacity === undefined) return -1;
    const distance = (known) => Math.abs(Math.log(known / capacity));
    return this.#capacities.reduce((best, known, place) => (best < 0 || distance(known) < distance(this.#capacities[best]) ? place : best), -1);
  }
}

function row(cells) {
  const made = document.createElement("tr");
  made.append(...cells);
  return made;
}

function cell(tag, text, scope) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (scope) made.scope = scope;
  return made;
}
