// The page: what was asked, by which capacities, and what to do when something is not as it should be.

import { agreement, show as showAnswers, told } from "./answers.js";
import { Camera, NoCamera } from "./camera.js";
import { Slider } from "./capacity.js";
import { Drawing } from "./drawing.js";
import { Matrix } from "./matrix.js";
import { missing, Network } from "./network.js";
import { Notice } from "./notice.js";
import { paint, pictureIn, pixelsOf, Unreadable } from "./pictures.js";
import { Queries } from "./queries.js";
import { FamilyChanged, Refused, Service, ServiceGone, TokenWanted } from "./service.js";
import { Tabs } from "./tabs.js";
import { bytes, count, milliseconds, named, percent } from "./words.js";

const ANSWERS = 6;
const START = 0.13; // the capacity nearest to it is loaded first
const PAUSES = [1, 2, 4, 8]; // seconds until the service is asked again whether it is back

const element = (id) => document.getElementById(id);
const say = (text) => (element("said").textContent = text);

const service = new Service();
const notice = new Notice(element("notice"));
const slider = new Slider(element("capacity"), (capacity) => attempt(() => move(capacity)));
const matrix = new Matrix(element("matrix"));
const camera = new Camera(element("video"));
const drawing = new Drawing(element("pad"), drew);
const tabs = new Tabs(document.querySelector("[role=tablist]"), (way) => way === "camera" || stopCamera());
const queries = new Queries(service, {
  box: element("queries"),
  models: element("models").querySelector(".models"),
  others: element("others"),
  chosen: (query) => attempt(() => askQuery(query)),
});

let family; // as the service describes it
let network; // of that family, in this browser
let now, kept; // capacities: that of the slider, and one to compare it with
let question; // {pixels, name, label, found}: `found` has what each capacity was answered
let failures = 0; // in a row
let refreshing, waiting;

// --- the service and its family ---

/** Be as the service says, and answer what is asked. Can be called at any time, and goes on once at a time. */
function refresh() {
  refreshing ??= refreshed().finally(() => (refreshing = undefined));
  return refreshing;
}

async function refreshed() {
  const told = await service.family();
  if (!network || told.family_id !== family.family_id || told.model !== family.model) await adopt(told);
  else notice.hide();
  await answer();
  failures = 0;
}

/** Take up a family: the page's first, or the one that the service was given since. */
async function adopt(told) {
  const before = family;
  network?.close();
  network = undefined;
  family = told;
  const nearest = (wanted) => family.capacities.map((stop) => stop.capacity).reduce((a, b) => (Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a));
  now = kept = nearest(now ?? START);
  slider.stops = family.capacities;
  slider.held = 0;
  slider.show(now, kept);
  matrix.measured = family.matrix;
  network = await Network.open(family.model, now, (loaded) => slider.coming(loaded));
  document.querySelector("input.input").disabled = false;
  if (before) {
    notice.say("news", `The service has another network now: family ${family.family_id} instead of ${before.family_id}. It was loaded, and asks instead of the old one.`);
    question?.found.clear();
  } else {
    notice.hide();
  }
  await offer();
  showState();
}

/** Ways to ask that fit the family; the first question is one of the service's, so that there is something to see. */
async function offer() {
  const draws = family.kind === "drawing", asks = family.queries.length > 0;
  if (asks) await queries.load();
  tabs.offered = [...(draws ? ["draw"] : []), ...(asks ? ["query"] : []), "picture", "camera"];
  element("models").hidden = !asks;
  if (draws) drawing.hand = await queries.hand();
  if (!asks || question) return;
  const example = await questionOf(queries.example);
  question ??= example; // by now the visitor may have asked
}

/** Do `work`; say what goes wrong, and offer what helps. */
async function attempt(work) {
  try {
    await work();
  } catch (error) {
    await failed(error);
  }
}

async function failed(error) {
  if (error instanceof ServiceGone) gone();
  else if (error instanceof TokenWanted) wantToken();
  else if (error instanceof FamilyChanged && ++failures < 3) await attempt(refresh);
  else if (error instanceof NoCamera || error instanceof Unreadable) notice.say("problem", `${error.message}.`);
  else if (error instanceof Refused || error instanceof FamilyChanged) notice.say("problem", `The service refuses: ${error.message}.`, "Try again", () => attempt(refresh));
  else await failedHere(error);
}

/** The network could not be fetched or run: perhaps since the service is gone, or has another one. */
async function failedHere(error) {
  const problem = () => notice.say("problem", `The network does not run: ${error.message}.`, "Try again", () => location.reload());
  try {
    const told = await service.family();
    if ((network && told.model === family.model) || ++failures > 1) problem();
    else await attempt(refresh);
  } catch (reason) {
    await failed(reason);
  }
}

function gone() {
  const pause = PAUSES[Math.min(failures++, PAUSES.length - 1)];
  notice.say("problem", "The service does not answer. Was it stopped, or is there no connection? The page asks again by itself.", "Ask now", again);
  clearTimeout(waiting);
  waiting = setTimeout(again, 1000 * pause);
}

function again() {
  clearTimeout(waiting);
  attempt(refresh);
}

function wantToken() {
  const form = element("token");
  if (form.hidden) notice.hide();
  else notice.say("problem", "The service does not know this token.");
  form.hidden = false;
  element("token-text").focus();
}

// --- asking ---

/** Ask with `pixels`. `label` is the class that a right answer has, where it is known. */
function ask(pixels, name, label) {
  question = { pixels, name, label, found: new Map() };
  notice.hide();
  return attempt(answer);
}

async function questionOf(query) {
  const label = family.labels ? (query.label ?? undefined) : undefined;
  return { pixels: await queries.pixels(query), name: `An example: ${named(query.label)}`, label, found: new Map() };
}

async function askQuery(query) {
  question = await questionOf(query);
  notice.hide();
  await answer();
}

async function askBlob(blob, name) {
  tabs.choose("picture");
  const pixels = await pixelsOf(blob, name);
  await ask(pixels, name);
}

function drew(picture) {
  element("pad-hint").hidden = !drawing.empty;
  element("undo").disabled = element("clear").disabled = drawing.empty;
  if (picture) ask(picture, "Your drawing");
}

/** The answers to the question by the capacity of the slider and by the one that it is compared with. */
async function answer() {
  const asked = question, asking = network;
  if (!asked || !asking) return;
  paint(element("asked"), asked.pixels);
  element("asked").hidden = false;
  element("asked-name").textContent = asked.name;
  element("answers").ariaBusy = "true";
  try {
    await answerBy(asking, asked);
  } finally {
    if (asked === question) element("answers").ariaBusy = "false";
  }
}

async function answerBy(asking, asked) {
  for (const capacity of new Set([now, kept])) {
    if (!asked.found.has(capacity)) {
      const found = await answered(asked, asking, capacity).catch(unless(asking));
      if (asked !== question || asking !== network) return;
      asked.found.set(capacity, found);
    }
    showState();
    if (capacity === now) say(told(asked.found.get(now)));
  }
}

/** Errors of a network that was closed since are of no interest. */
const unless = (asking) => (error) => {
  if (asking === network) throw error;
};

async function answered({ pixels, label }, asking, capacity) {
  const { vector, milliseconds: embedding } = await asking.embed(pixels, capacity);
  const { answers, milliseconds: searching } = await service.search(vector, asking.familyId, ANSWERS);
  const size = family.capacities.find((stop) => stop.capacity === capacity).bytes;
  return { capacity, size, embedding, vector, searching, answers, label };
}

// --- the capacity ---

async function move(capacity) {
  const before = now, asking = network;
  now = capacity;
  showState();
  const fetched = await asking?.become(capacity).catch(unless(asking));
  if (asking !== network || !asking) return;
  element("fetched").textContent = fetchedText(before, capacity, fetched);
  showState();
  await answer();
}

function fetchedText(before, after, fetched) {
  const way = `From ${percent(before)} ${after > before ? "up" : "down"} to ${percent(after)}:`;
  if (fetched) return `${way} ${bytes(fetched)} fetched, the bytes in between.`;
  return `${way} nothing fetched. ${after > before ? "Those bytes are here." : "The smaller network is the beginning of the larger."}`;
}

// --- what is seen ---

function showState() {
  slider.held = network?.held ?? 0;
  slider.show(now, kept);
  const found = question?.found.get(now), compared = now === kept ? undefined : question?.found.get(kept);
  const indexed = found?.answers[0]?.capacity;
  matrix.show(now, kept, indexed);
  showSteps(found, indexed);
  showColumns(found, compared);
  const keep = element("keep");
  keep.hidden = !found || now === kept;
  keep.textContent = `Keep ${percent(now)} to compare others with`;
}

function showSteps(found, indexed) {
  element("step-download").textContent = bytes(network?.held ?? 0);
  element("step-embed").textContent = found ? milliseconds(found.embedding) : "…";
  element("step-send").textContent = `${count(family.dimension)} numbers`;
  element("step-search").textContent = `${count(family.count)} pictures`;
  const whose = indexed === undefined ? "which the large network indexed" : `which the ${percent(indexed)} network indexed`;
  element("step-search-text").textContent = `searched${found ? ` in ${milliseconds(found.searching)}` : ""}, ${whose}`;
  const part = bytes(family.capacities.find((stop) => stop.capacity === now).bytes), whole = bytes(family.capacities.at(-1).bytes);
  element("about").textContent = `This browser runs ${now < 1 ? `the first ${part} of a network of ${whole}` : `a whole network of ${whole}`}, and asks a gallery that ${indexed === undefined || indexed === 1 ? "all of it" : percent(indexed)} indexed: every size embeds into one space.`;
  element("footer").textContent = `Family ${family.family_id} · ${count(family.count)} pictures · ${family.capacities.length} sizes in one file`;
}

function showColumns(found, compared) {
  if (!found) return; // until then, what was found before
  const columns = document.querySelector("#answers .columns");
  columns.hidden = false;
  columns.classList.toggle("two", Boolean(compared));
  element("kept").hidden = !compared;
  showAnswers(element("now"), found);
  if (compared) showAnswers(element("kept"), compared);
  element("agreement").textContent = compared ? agreement(compared, found) : "Move the slider: the answers of two capacities will stand side by side.";
}

// --- wiring ---

element("undo").addEventListener("click", () => drawing.undo());
element("clear").addEventListener("click", () => drawing.clear());
element("keep").addEventListener("click", () => {
  kept = now;
  showState();
});
element("file").addEventListener("change", ({ target }) => {
  const file = pictureIn(target);
  if (file) attempt(() => askBlob(file, file.name));
  target.value = "";
});
element("token").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => {
    await service.enter(element("token-text").value.trim());
    element("token").hidden = true;
    await refresh();
  });
});

addEventListener("paste", ({ clipboardData }) => {
  const file = pictureIn(clipboardData);
  if (file) attempt(() => askBlob(file, "The pasted picture"));
});
addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("dropping");
});
for (const end of ["dragleave", "drop"]) addEventListener(end, () => document.body.classList.remove("dropping"));
addEventListener("drop", (event) => {
  event.preventDefault();
  const file = pictureIn(event.dataTransfer);
  if (file) attempt(() => askBlob(file, file.name));
});

element("camera-start").addEventListener("click", () => attempt(async () => {
  await camera.start();
  showCamera();
  element("camera-take").focus();
}));
element("camera-take").addEventListener("click", () => ask(camera.take(), "The camera's picture"));
element("camera-stop").addEventListener("click", stopCamera);

function stopCamera() {
  if (camera.on) camera.stop();
  showCamera();
}

function showCamera() {
  element("camera-start").hidden = camera.on;
  element("camera-take").hidden = element("camera-stop").hidden = !camera.on;
}

const reason = missing();
if (reason) notice.say("problem", `${reason}, so no network runs in it. A newer one does, such as Chrome 91, Firefox 89 or Safari 16.4.`);
else attempt(refresh);
