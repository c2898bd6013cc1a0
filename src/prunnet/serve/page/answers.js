// The answers of one capacity: pictures with their similarity, right or wrong where that is known.

import { paint } from "./pictures.js";
import { bytes, milliseconds, named, percent } from "./words.js";

const shown = new WeakMap(); // what a column has, so that nothing is drawn twice

/** Fill `column` (an element like those in index.html) with what `asked` found. */
export function show(column, asked) {
  if (shown.get(column) === asked) return;
  shown.set(column, asked);
  const { capacity, size, embedding, vector, answers, label } = asked;
  const part = (name) => column.querySelector(`.${name}`);
  part("who").textContent = percent(capacity);
  part("cost").textContent = `${bytes(size)} · ${milliseconds(embedding)}`;
  part("score").textContent = label === undefined ? "" : `${answers.filter((answer) => answer.label === label).length} of ${answers.length} right`;
  strip(part("numbers"), vector);
  part("hits").replaceChildren(...answers.map((answer) => hit(answer, label)));
}

/** What is said of the answers aloud. */
export function told({ capacity, answers, label }) {
  if (!answers.length) return `${percent(capacity)}: the gallery has no answer`;
  const [first] = answers;
  const verdict = label === undefined ? "" : first.label === label ? ", right" : ", wrong";
  return `${percent(capacity)}: first ${named(first.label ?? first.id)}, similarity ${first.score.toFixed(2)}${verdict}`;
}

/** How much two capacities agree. */
export function agreement(one, other) {
  const similarity = one.vector.reduce((sum, number, i) => sum + number * other.vector[i], 0);
  const ids = new Set(one.answers.map((answer) => answer.id));
  const common = other.answers.filter((answer) => ids.has(answer.id)).length;
  const same = common === other.answers.length ? "all" : common || "none";
  const embeddings = `The embeddings of ${percent(one.capacity)} and ${percent(other.capacity)} have similarity ${similarity.toFixed(3)}`;
  return `${embeddings}; they have ${same} of ${other.answers.length} answers in common.`;
}

/** The embedding as a row of colours: orange below zero, blue above. */
function strip(canvas, vector) {
  const most = Math.max(...vector.map(Math.abs));
  const pixels = new ImageData(vector.length, 1);
  vector.forEach((number, i) => pixels.data.set([...(number < 0 ? [230, 120, 20] : [40, 100, 235]), (255 * Math.abs(number)) / most], 4 * i));
  canvas.setAttribute("aria-label", `Its embedding: ${vector.length} numbers`);
  paint(canvas, pixels);
}

function hit(answer, label) {
  const item = document.createElement("li");
  const name = answer.label === null ? answer.id : named(answer.label);
  const similarity = element("span", "similarity", answer.score.toFixed(3));
  similarity.setAttribute("aria-label", `similarity ${answer.score.toFixed(3)}`);
  item.title = answer.id;
  item.append(picture(answer, name), element("span", "name", name), similarity);
  if (label !== undefined) {
    const right = answer.label === label;
    item.className = right ? "right" : "wrong";
    const mark = element("span", "mark", right ? "✓" : "✗");
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", right ? "right" : "wrong");
    item.append(mark);
  }
  return item;
}

function picture(answer, name) {
  const none = () => element("span", "no-picture", "no picture");
  if (answer.image === null) return none();
  const image = element("img", "", "");
  image.alt = name;
  image.src = answer.image;
  image.onerror = () => image.replaceWith(none());
  return image;
}

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.textContent = text;
  return made;
}
