// A pad to draw characters on. Strokes are kept as points, so that they can be undone, and set in the family's hand.

import { drawn } from "./pictures.js";
import { PLAIN } from "./hand.js";

const SIDE = 128; // of the picture that is embedded

export class Drawing {
  #canvas;
  #strokes = []; // of [x, y] in shares of the pad
  #current = null;
  #hand = PLAIN;
  #changed;

  /** `changed` is called with the picture, or nothing if the pad is empty, when a stroke ends or is taken back. */
  constructor(canvas, changed) {
    this.#canvas = canvas;
    this.#changed = changed;
    canvas.addEventListener("pointerdown", (event) => this.#begin(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => this.#end());
    new ResizeObserver(() => this.#show()).observe(canvas);
  }

  set hand(hand) {
    this.#hand = hand;
    this.#show();
  }

  get empty() {
    return !this.#strokes.length;
  }

  undo() {
    this.#strokes.pop();
    this.#tell();
  }

  clear() {
    this.#strokes = [];
    this.#tell();
  }

  #begin(event) {
    if (event.button || this.#current) return;
    this.#canvas.setPointerCapture(event.pointerId);
    this.#current = { id: event.pointerId, points: [this.#place(event)] };
    this.#strokes.push(this.#current.points);
    this.#show();
  }

  #move(event) {
    if (event.pointerId !== this.#current?.id) return;
    const events = event.getCoalescedEvents?.() ?? [];
    this.#current.points.push(...(events.length ? events : [event]).map((each) => this.#place(each)));
    this.#show();
  }

  #end() {
    if (!this.#current) return;
    this.#current = null;
    this.#tell();
  }

  #place(event) {
    const box = this.#canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  #tell() {
    this.#show();
    this.#changed(this.empty ? undefined : this.#picture());
  }

  #show() {
    const side = Math.round(this.#canvas.clientWidth * devicePixelRatio) || SIDE;
    this.#canvas.width = this.#canvas.height = side;
    ink(this.#canvas.getContext("2d"), this.#strokes, side, this.#hand);
  }

  /** The strokes centred, as large as the drawings that the network has learned from, with lines as wide as theirs. */
  #picture() {
    const points = this.#strokes.flat();
    const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const { line, extent } = this.#hand;
    const size = Math.max(right - left, bottom - top, 0.05); // a dot stays one
    const scale = Math.max(extent - line, 0.1) / size;
    const set = ([x, y]) => [0.5 + scale * (x - (left + right) / 2), 0.5 + scale * (y - (top + bottom) / 2)];
    const strokes = this.#strokes.map((stroke) => stroke.map(set));
    return drawn(SIDE, SIDE, (context) => ink(context, strokes, SIDE, this.#hand));
  }
}

function ink(context, strokes, side, { light, line }) {
  context.fillStyle = light ? "#000" : "#fff";
  context.fillRect(0, 0, side, side);
  context.strokeStyle = light ? "#fff" : "#000";
  context.lineWidth = line * side;
  context.lineCap = context.lineJoin = "round";
  for (const stroke of strokes) {
    const points = stroke.map(([x, y]) => [x * side, y * side]);
    context.beginPath();
    context.moveTo(...points[0]);
    for (let i = 1; i < points.length - 1; i++) {
      const [[x, y], [nextX, nextY]] = [points[i], points[i + 1]];
      context.quadraticCurveTo(x, y, (x + nextX) / 2, (y + nextY) / 2);
    }
    context.lineTo(...points.at(-1));
    context.stroke();
  }
}
