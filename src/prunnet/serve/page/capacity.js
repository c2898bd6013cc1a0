// The slider over the file: its track is the file, to scale, and a capacity is how much of the beginning one has.

import { bytes, percent } from "./words.js";

const STEPS = { ArrowRight: 1, ArrowUp: 1, PageUp: 1, ArrowLeft: -1, ArrowDown: -1, PageDown: -1, Home: -Infinity, End: Infinity };
const ROOM = 38; // CSS pixels between the middles of two labels

export class Slider {
  #elements;
  #stops = []; // {capacity, bytes}, rising
  #held = 0;
  #now = 0; // places in `stops`
  #kept = 0;
  #moved;

  /** `moved` is called with the capacity that is wanted. */
  constructor(root, moved) {
    const part = (name) => root.querySelector(`.${name}`);
    const names = ["input", "capacity", "size", "used", "held", "coming", "kept-mark", "ticks"];
    this.#elements = Object.fromEntries(names.map((name) => [name, part(name)]));
    this.#moved = moved;
    const { input } = this.#elements;
    input.addEventListener("input", () => this.#slid(false));
    input.addEventListener("change", () => this.#slid(true));
    input.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#label()).observe(root);
  }

  /** The stops of a file. */
  set stops(stops) {
    this.#stops = stops;
    this.#elements.input.max = stops.at(-1).bytes;
    this.#elements.ticks.replaceChildren(...stops.map((stop) => this.#tick(stop)));
    this.#label();
  }

  /** Where one is, and with what it is compared. */
  show(now, kept) {
    this.#now = this.#place(now);
    this.#kept = this.#place(kept);
    this.#elements.input.value = this.#stops[this.#now].bytes;
    this.#shown();
  }

  /** How much of the file is here. */
  set held(held) {
    this.#held = held;
    this.#elements.coming.hidden = true;
    this.#shown();
  }

  /** `loaded` bytes are here, of those that were asked for. */
  coming(loaded) {
    const { coming } = this.#elements;
    coming.hidden = loaded <= this.#held;
    this.#span(coming, this.#held, loaded);
  }

  #place(capacity) {
    return this.#stops.findIndex((stop) => stop.capacity === capacity);
  }

  #slid(released) {
    const value = Number(this.#elements.input.value);
    const distance = (stop) => Math.abs(stop.bytes - value);
    const nearest = this.#stops.reduce((best, stop) => (distance(stop) < distance(best) ? stop : best));
    if (released) this.#elements.input.value = nearest.bytes;
    if (released || nearest.bytes <= this.#held) this.#go(nearest);
    else this.#say(nearest);
  }

  #key(event) {
    const step = STEPS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const wanted = Math.min(Math.max(this.#now + step, 0), this.#stops.length - 1);
    this.#elements.input.value = this.#stops[wanted].bytes;
    this.#go(this.#stops[wanted]);
  }

  #go(stop) {
    const place = this.#stops.indexOf(stop);
    this.#say(stop);
    if (place === this.#now) return;
    this.#now = place;
    this.#label();
    this.#moved(stop.capacity);
  }

  #say(stop) {
    const { input, capacity, size } = this.#elements;
    capacity.textContent = percent(stop.capacity);
    const missing = stop.bytes - this.#held;
    size.textContent = missing > 0 ? `${bytes(stop.bytes)}, ${bytes(missing)} of them not here yet` : `the first ${bytes(stop.bytes)} of the file`;
    input.setAttribute("aria-valuetext", `${capacity.textContent}, ${size.textContent}`);
  }

  #shown() {
    if (!this.#stops.length || this.#now < 0) return;
    const now = this.#stops[this.#now];
    const mark = this.#elements["kept-mark"];
    this.#say(now);
    this.#span(this.#elements.used, 0, Math.min(now.bytes, this.#held));
    this.#span(this.#elements.held, 0, this.#held);
    mark.hidden = this.#kept < 0 || this.#kept === this.#now;
    if (!mark.hidden) mark.style.left = this.#share(this.#stops[this.#kept].bytes);
    this.#label();
  }

  #share(number) {
    return `${(100 * number) / this.#stops.at(-1).bytes}%`;
  }

  #span(element, from, to) {
    element.style.left = this.#share(from);
    element.style.width = this.#share(Math.max(0, to - from));
  }

  #tick(stop) {
    const tick = document.createElement("span");
    tick.style.left = this.#share(stop.bytes);
    tick.textContent = percent(stop.capacity);
    return tick;
  }

  /** Labels that have room; the present one and the last always have. */
  #label() {
    const ticks = [...this.#elements.ticks.children];
    const width = this.#elements.ticks.clientWidth, total = this.#stops.at(-1)?.bytes;
    const at = (place) => (width * this.#stops[place].bytes) / total;
    const shown = [];
    for (const place of [this.#now, ticks.length - 1, ...ticks.keys()]) {
      if (place >= 0 && shown.every((other) => Math.abs(at(place) - at(other)) >= ROOM)) shown.push(place);
    }
    ticks.forEach((tick, place) => {
      tick.classList.toggle("unlabelled", !shown.includes(place));
      tick.classList.toggle("now", place === this.#now);
    });
  }
}
