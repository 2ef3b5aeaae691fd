/**
 * The page /compare: reads the broken mode and the fixed mode at once, and shows what came when.
 *
 * Each side has readers, and each reader its answer and its row of the timeline. The fixed side is read as an app of
 * yours would be, with client.js, and comes back to its streams when the page is loaded anew. The desk, if there is
 * one (`flaskstream compare --serve`), starts the broken server with a mistake, and tells the debug lines of both.
 *
 * All text is set as text. Times are in milliseconds, moments in those of `Date.now()`, which outlives the page.
 *
 * @module
 */

import { listen, paint, stream } from "./client.js";

/**
 * What there is to choose: the usual mistakes, or one alone. `seconds`: how long a stream has to be to show it.
 *
 * @typedef {object} Choice
 * @property {string} name
 * @property {string} sentence
 * @property {string} met
 * @property {string} cure
 * @property {number} readers
 * @property {string} script
 * @property {number} seconds
 */

/**
 * What the desk tells. `pace`: tokens, and milliseconds between them, if the model can be told.
 *
 * @typedef {{ broken: string, choice: string, choices: Choice[], pace: [number, number] | null }} State
 */

/** @typedef {{ at: number, events: number }} Arrival what came at once */

/**
 * Of a reader, for the page that comes after this one.
 *
 * @typedef {object} Kept
 * @property {boolean} isOpen
 * @property {string} location
 * @property {string} lastEventId
 * @property {string} text
 * @property {Arrival[]} arrivals
 * @property {string} outcome
 * @property {number} endedAt
 */

/**
 * From "Start" on. `id`: the ids of its streams begin with it, and nobody guesses it; `fields`: of the form.
 *
 * @typedef {object} Run
 * @property {string} id
 * @property {number} began
 * @property {number} interval
 * @property {Record<string, string>} models
 * @property {Record<string, string>} fields
 */

const KEPT = "flaskstream compare";
/** @type {import("./client.js").Options} for another origin: without a header that it would have to allow first */
const ELSEWHERE = { idempotencyKey: false, credentials: "omit" };
const AT_ONCE = 5; // what comes within so many milliseconds came at once
const HINT_AFTER = 3000;
const STOP_WITHIN = 3000; // or it is left
const MOST_LINES = 300;
const SPEECH = 2500; // between two sentences to a screen reader
/** @type {Record<string, string>} */
const FIGURES = {
  first: "First token",
  arrived: "Arrived in",
  gap: "Largest gap",
  ended: "Ended",
  said: "Model said",
  lines: "Debug lines",
};
const OF_DESK = ["said", "lines"];
/** @type {Record<string, string>} */
const MARKS = { done: "✓", stopped: "■", left: "■", lost: "✗", failed: "✗" };

/**
 * @template {Element} Kind
 * @param {string} selector
 * @param {ParentNode} [within]
 * @returns {Kind}
 */
const find = (selector, within = document) => /** @type {Kind} */ (within.querySelector(selector));

/**
 * @param {string} name
 * @param {string} text
 * @param {Record<string, string>} [attributes]
 */
function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

/** @param {number} ms */
const seconds = (ms) => (ms < 995 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`);

/**
 * @param {number} count
 * @param {string} what
 */
const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

// What is said to a screen reader: each thing once, a few seconds apart.

const announce = (() => {
  /** @type {string[]} */
  let waiting = [];
  let timer = 0;
  let spokeAt = 0;
  const speak = () => {
    timer = 0;
    spokeAt = Date.now();
    find("#status").textContent = waiting.join(" ");
    waiting = [];
  };
  return (/** @type {string} */ sentence) => {
    waiting.push(sentence);
    timer ||= setTimeout(speak, Math.max(0, spokeAt + SPEECH - Date.now()));
  };
})();

/** One who reads an answer: its text, when each piece came, and how it ended. */
class Reader {
  /** @type {Arrival[]} */
  arrivals = [];
  text = "";
  /** "": it still reads. */
  outcome = "";
  endedAt = 0;
  why = "";
  isLeft = false;
  /** Its first response has begun. */
  isOpen = false;
  /** @type {ReturnType<typeof stream> | undefined} */
  events;

  /**
   * @param {Column} column
   * @param {number} number from 1
   */
  constructor(column, number) {
    this.column = column;
    this.id = `${run.id}-${column.side}-${number}`;
    this.name = `${column.title}, reader ${number}`;
    this.box = element("div", "", { class: "answer", role: "group", tabindex: "0", "aria-label": this.name });
    this.painter = paint(this.box);
    find(".answers", column.section).append(this.box);
  }

  /** Ask, under the id of this reader: who asks for the second time gets the same answer, where there is a store. */
  ask() {
    const query = new URLSearchParams({ q: run.fields.question });
    const { isFixed, side } = this.column;
    if (run.models[side]) query.set("model", run.models[side]);
    if (isFixed) return this.read(`chat?${query}`, { headers: { "X-Stream-Id": this.id } });
    query.set("stream", this.id);
    return this.read(`${state?.broken}/chat?${query}`, ELSEWHERE);
  }

  /**
   * @param {string} url
   * @param {import("./client.js").Options} options
   */
  async read(url, options) {
    const { column } = this;
    const onhint = (/** @type {string} */ hint) => column.hint(column.isFixed ? hint : HELD);
    const onretry = (/** @type {{ delay: number }} */ { delay }) =>
      column.hint(`The connection was lost; the answer goes on. Back in ${seconds(delay)}.`);
    const onopen = () => {
      this.isOpen = true;
      column.hint("");
    };
    this.events = stream(url, { hintAfter: HINT_AFTER, ...options, onhint, onretry, onopen });
    try {
      for await (const event of this.events) this.#take(event);
      this.end(this.events.state === "closed" ? "left" : this.events.state);
    } catch (error) {
      const { code = "error", message = String(error) } = /** @type {import("./client.js").StreamError} */ (error);
      this.end(this.isLeft ? "left" : "failed", `${code}: ${message}`);
    }
  }

  /** End it: at the server, where there is somebody to tell and that can be reached, and here in any case. */
  stop() {
    const { events, column } = this;
    if (this.outcome || !events) return;
    const leave = () => events.close();
    this.isLeft = true;
    if (!column.isFixed) return leave();
    events.stop().catch((error) => {
      column.hint(`The server could not be told to stop: ${error.message}`);
      leave();
    });
    setTimeout(leave, STOP_WITHIN);
  }

  /** @param {import("./client.js").StreamEvent} event */
  #take(event) {
    this.painter.take(event);
    if (event.event === "reset") [this.text, this.arrivals] = ["", []];
    if (event.event !== "message") return;
    this.text += JSON.parse(event.data).t ?? "";
    this.column.hint("");
    const at = Date.now();
    const last = this.arrivals[this.arrivals.length - 1];
    if (!last) announce(`${this.name}: the first token came after ${seconds(at - run.began)}.`);
    if (last && at - last.at < AT_ONCE) last.events += 1;
    else this.arrivals.push({ at, events: 1 });
    keepSoon();
  }

  /**
   * @param {string} outcome
   * @param {string} [why]
   */
  end(outcome, why = "") {
    if (this.outcome) return;
    [this.outcome, this.why, this.endedAt] = [outcome, why, Date.now()];
    this.painter.flush();
    announce(`${this.name}: ${outcome}${why && ` (${why})`} after ${seconds(this.endedAt - run.began)}.`);
    keepSoon();
    update();
  }

  get eventCount() {
    return this.arrivals.reduce((sum, { events }) => sum + events, 0);
  }

  get largestGap() {
    const gaps = this.arrivals.slice(1).map(({ at }, n) => at - this.arrivals[n].at);
    return Math.max(0, ...gaps);
  }

  /** @returns {Kept} */
  kept() {
    const { text, arrivals, outcome, endedAt, isOpen, events } = this;
    const { location = "", lastEventId = "" } = events ?? {};
    return { text, arrivals, outcome, endedAt, isOpen, location, lastEventId };
  }

  /**
   * Go on with what the page before this one has read. The fixed side can, also before it has got an answer.
   *
   * @param {Kept | undefined} kept
   */
  goOn(kept) {
    if (kept) this.#restore(kept);
    if (this.outcome) return;
    const isKept = this.column.isFixed && (!kept?.isOpen || kept.location); // by the server, as far as is known
    if (!isKept) this.end("lost", "with the page: there is nothing to come back to");
    else if (kept?.lastEventId) this.read(kept.location, { lastEventId: kept.lastEventId });
    else this.ask();
  }

  /** @param {Kept} kept */
  #restore({ text, arrivals, outcome, endedAt }) {
    Object.assign(this, { text, arrivals, outcome, endedAt });
    this.painter.add(text);
  }
}

const SIX = "By HTTP/1.1 a browser opens six connections to one server: is this page open in six other tabs?";
const HELD = "There is no answer yet, not even its head: the server holds it, or serves somebody else.";

/** One side: its readers, and what is told about them. */
class Column {
  /** @type {Reader[]} */
  readers = [];
  said = "";
  lines = { count: 0, late: 0 };

  /** @param {string} side */
  constructor(side) {
    this.side = side;
    this.isFixed = side === "fixed";
    this.section = /** @type {HTMLElement} */ (find(`#${side}`));
    this.title = find("h2", this.section).textContent ?? "";
    this.canvas = /** @type {HTMLCanvasElement} */ (find("canvas", this.section));
    this.list = find(".lines", this.section);
    /** @type {Record<string, HTMLElement>} */
    this.figures = {};
    for (const [name, label] of Object.entries(FIGURES)) {
      if (OF_DESK.includes(name) && !state) continue;
      this.figures[name] = element("dd", "–", { "data-figure": name });
      find(".figures", this.section).append(element("dt", label), this.figures[name]);
    }
  }

  get isReading() {
    return this.readers.some(({ outcome }) => !outcome);
  }

  /** @param {string} text */
  hint(text) {
    const box = /** @type {HTMLElement} */ (find(".hint", this.section));
    if (box.textContent === text) return;
    box.textContent = text;
    box.hidden = !text;
    if (text) announce(`${this.title}: ${text}`);
  }

  /** @param {number} count */
  reset(count) {
    find(".answers", this.section).replaceChildren();
    this.list.replaceChildren();
    this.readers = Array.from({ length: count }, (_, n) => new Reader(this, n + 1));
    this.said = "";
    this.lines = { count: 0, late: 0 };
    for (const figure of Object.values(this.figures)) set(figure, "–");
    this.describe();
    this.hint("");
  }

  /** @param {number} now */
  show(now) {
    const { readers, figures } = this;
    if (!readers.length) return;
    const firsts = readers.map(({ arrivals }) => arrivals[0]?.at - run.began);
    const slowest = readers.length > 1 ? ", the slowest" : "";
    const events = readers.reduce((sum, reader) => sum + reader.eventCount, 0);
    const pieces = readers.reduce((sum, { arrivals }) => sum + arrivals.length, 0);
    const gap = Math.max(...readers.map((reader) => reader.largestGap));
    const missing = this.isReading ? "not yet" : "never";
    set(figures.first, firsts.some(Number.isNaN) ? missing : `after ${seconds(Math.max(...firsts))}${slowest}`);
    set(figures.arrived, events ? `${counted(pieces, "piece")}, ${counted(events, "event")}` : "–");
    set(figures.gap, pieces > readers.length ? seconds(gap) : pieces ? "none: all came at once" : "–");
    set(figures.ended, this.isReading ? `not yet: ${seconds(now - run.began)}` : this.ends());
    set(figures.said, this.said || "–");
    const late = this.lines.late > 50 ? `up to ${seconds(this.lines.late)} late` : "each at once";
    const { count } = this.lines;
    const part = count < events ? `${count} of ${events}` : String(count);
    set(figures.lines, count ? `${part} came out, ${late}` : "none came out yet");
  }

  ends() {
    const told = (/** @type {Reader} */ { outcome, why, endedAt }) =>
      `${MARKS[outcome]} ${outcome} after ${seconds(endedAt - run.began)}${why && `: ${why}`}`;
    return this.readers.map(told).join("; ");
  }

  /** What the picture shows, for those who do not see it. */
  describe() {
    const told = Object.entries(this.figures).map(([name, { textContent }]) => `${FIGURES[name]}: ${textContent}`);
    this.canvas.setAttribute("aria-label", `Timeline of the ${this.side} side. ${told.join(". ")}.`);
  }

  /** @param {{ side: string, came_at: number, late: number | null, text: string }} line */
  print({ came_at, late, text }) {
    this.lines.count += 1;
    this.lines.late = Math.max(this.lines.late, (late ?? 0) * 1000);
    const row = element("li", "");
    row.append(element("time", `+${((came_at * 1000 - run.began) / 1000).toFixed(2)} s `));
    if ((late ?? 0) > 0.05) row.append(element("span", `${seconds((late ?? 0) * 1000)} late `, { class: "late" }));
    row.append(text);
    const isAtEnd = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 16;
    this.list.append(row);
    if (this.list.childElementCount > MOST_LINES) this.list.firstElementChild?.remove();
    if (isAtEnd) this.list.scrollTop = this.list.scrollHeight;
  }
}

/**
 * @param {HTMLElement | undefined} where
 * @param {string} text
 */
function set(where, text) {
  if (where && where.textContent !== text) where.textContent = text;
}

/**
 * What stands in backticks is code.
 *
 * @param {Element} where
 * @param {string} text
 */
function setTicked(where, text) {
  where.replaceChildren(...text.split("`").map((part, n) => (n % 2 ? element("code", part) : part)));
}

// The timeline.

const [ROW, TOP, AXIS, LEFT, RIGHT] = [28, 8, 22, 12, 28];
const SPANS = [5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200, 3600];

/**
 * @param {Column} column
 * @param {number} now
 * @param {number} span both sides have the same
 */
function draw(column, now, span) {
  const { canvas, readers } = column;
  const [width, height] = [canvas.clientWidth, TOP + Math.max(readers.length, 1) * ROW + AXIS];
  if (!width) return;
  const scale = devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  [canvas.width, canvas.height] = [width * scale, height * scale];
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.scale(scale, scale);
  const colors = getComputedStyle(document.documentElement);
  const color = (/** @type {string} */ name) => colors.getPropertyValue(`--${name}`).trim();
  const x = (/** @type {number} */ at) => LEFT + ((at - run.began) / span) * (width - LEFT - RIGHT);
  axis(pen, width, height, span, color);
  readers.forEach((reader, n) => row(pen, reader, TOP + (n + 0.5) * ROW, x, now, color));
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {number} width
 * @param {number} height
 * @param {number} span
 * @param {(name: string) => string} color
 */
function axis(pen, width, height, span, color) {
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = color("soft");
  pen.textAlign = "center";
  pen.strokeStyle = color("line");
  for (let n = 0; n <= 5; n++) {
    const x = LEFT + (n / 5) * (width - LEFT - RIGHT);
    line(pen, x, TOP, x, height - AXIS);
    pen.fillText(`${((span / 5000) * n).toFixed(0)} s`, x, height - 6);
  }
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Reader} reader
 * @param {number} y
 * @param {(at: number) => number} x
 * @param {number} now
 * @param {(name: string) => string} color
 */
function row(pen, reader, y, x, now, color) {
  const { arrivals, outcome, endedAt } = reader;
  const end = outcome ? endedAt : now;
  const silence = Math.max(500, run.interval * 4);
  const first = arrivals[0]?.at ?? end;
  pen.strokeStyle = color("soft");
  dashed(pen, [1, 5], x(run.began), x(first), y);
  pen.strokeStyle = color("doubt");
  [...arrivals.map(({ at }) => at), end].forEach((at, n, all) => {
    if (n && at - all[n - 1] > silence) dashed(pen, [6, 4], x(all[n - 1]), x(at), y);
  });
  pen.fillStyle = color(reader.column.isFixed ? "good" : "bad");
  for (const { at, events } of arrivals) {
    pen.beginPath();
    pen.arc(x(at), y, Math.min(2.2 + Math.sqrt(events - 1), 10), 0, 2 * Math.PI);
    pen.fill();
  }
  if (!outcome) return;
  pen.fillStyle = color(outcome === "done" ? "good" : outcome === "stopped" || outcome === "left" ? "soft" : "bad");
  pen.font = "600 15px system-ui, sans-serif";
  pen.fillText(MARKS[outcome] ?? "", x(endedAt) + 16, y + 5);
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {number[]} dashes
 * @param {number} from
 * @param {number} to
 * @param {number} y
 */
function dashed(pen, dashes, from, to, y) {
  pen.setLineDash(dashes);
  pen.lineWidth = 1.5;
  line(pen, from, y, to, y);
  pen.setLineDash([]);
  pen.lineWidth = 1;
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {number} fromX
 * @param {number} fromY
 * @param {number} toX
 * @param {number} toY
 */
function line(pen, fromX, fromY, toX, toY) {
  pen.beginPath();
  pen.moveTo(fromX, fromY);
  pen.lineTo(toX, toY);
  pen.stroke();
}

// The run.

const desk = /** @type {HTMLMetaElement} */ (find("meta[name=desk]")).content;
const slow = desk ? setTimeout(() => announce(`The desk has not answered yet. ${SIX}`), HINT_AFTER) : 0;
/** @type {State | null} */
const state = desk ? await asked("/state").catch(() => null) : null;
clearTimeout(slow);
const columns = { broken: new Column("broken"), fixed: new Column("fixed") };
const shown = state ? [columns.broken, columns.fixed] : [columns.fixed];
const form = /** @type {HTMLFormElement} */ (find("form"));
const startButton = /** @type {HTMLElement} */ (find("#start"));
const stopButton = /** @type {HTMLElement} */ (find("#stop"));
const reloadButton = /** @type {HTMLElement} */ (find("#reload"));
const stillness = matchMedia("(prefers-reduced-motion: reduce)");

/** @type {Run} */
let run = { id: "", began: Date.now(), interval: 100, models: {}, fields: {} };
/** @type {AbortController | undefined} While the broken server is being started. */
let starting;

/**
 * @param {string} path
 * @param {RequestInit} [init]
 */
async function asked(path, init) {
  const response = await fetch(desk + path, { credentials: "omit", ...init });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error ?? `HTTP ${response.status}`);
  return answer;
}

const isRunning = () => Boolean(starting) || shown.some(({ isReading }) => isReading);

/** @returns {Choice | undefined} */
const chosen = () => state?.choices.find(({ name }) => name === form.fault.value);

/** The model's name tells the embedded model what to say; another is asked for nothing. */
function modelOf(/** @type {string} */ side, /** @type {Choice} */ choice) {
  const interval = Number(form.interval.value);
  const most = Math.max(Number(form.tokens.value), Math.ceil((choice.seconds * 1000) / interval));
  const script = new URLSearchParams({ tokens: String(most), interval_ms: String(interval) });
  new URLSearchParams(choice.script).forEach((value, key) => script.set(key, value));
  return `${side}-${run.id}?${script}`;
}

async function start() {
  if (isRunning()) return;
  const choice = chosen();
  run = { id: newId(), began: Date.now(), interval: Number(form.interval.value), fields: fields(), models: {} };
  if (choice && state?.pace) for (const { side } of shown) run.models[side] = modelOf(side, choice);
  for (const column of shown) column.reset(0);
  const trouble = choice ? await prepared(choice.name) : "";
  if (trouble) columns.broken.hint(trouble);
  else begin();
  keepSoon(); // not at once: what fails because the page is left is kept
  update();
}

function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function begin() {
  run.began = Date.now();
  announce("Reading.");
  for (const column of shown) {
    column.reset(Number(run.fields.readers));
    for (const reader of column.readers) reader.ask();
  }
  watch();
}

/**
 * Have the broken server started with a mistake.
 *
 * @param {string} name
 * @returns {Promise<string>} why there is none, if there is none
 */
async function prepared(name) {
  const { signal } = (starting = new AbortController());
  announce(`Starting the broken server with ${name}.`);
  keep();
  update();
  try {
    await asked(`/choice?name=${name}`, { method: "POST", signal });
    return "";
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    return signal.aborted ? "Stopped before it began." : `The broken server could not be started: ${message}`;
  } finally {
    starting = undefined;
  }
}

function stop() {
  starting?.abort();
  for (const { readers } of shown) for (const reader of readers) reader.stop();
}

const FIELDS = ["question", "fault", "readers", "tokens", "interval"];

function fields() {
  return Object.fromEntries(FIELDS.map((name) => [name, form[name].value]));
}

/** @param {Record<string, string>} fields */
function fill(fields) {
  form.fault.value = fields.fault;
  showChoice();
  for (const name of FIELDS) form[name].value = fields[name];
}

/**
 * While it runs they say what runs.
 *
 * @param {boolean} isFixed
 */
function fix(isFixed) {
  if (isFixed && FIELDS.includes(document.activeElement?.id ?? "")) startButton.focus(); // or the focus would be lost
  for (const name of FIELDS) form[name].disabled = isFixed;
}

let keeping = 0;

function keepSoon() {
  keeping ||= setTimeout(keep, 200);
}

function keep() {
  clearTimeout(keeping);
  keeping = 0;
  const sides = Object.fromEntries(shown.map(({ side, readers }) => [side, readers.map((reader) => reader.kept())]));
  if (isRunning()) sessionStorage.setItem(KEPT, JSON.stringify({ run, sides }));
  else sessionStorage.removeItem(KEPT);
}

/**
 * What the page before this one has kept.
 *
 * @returns {{ run: Run, sides: Record<string, Kept[]> } | undefined} nothing, also where it makes no sense
 */
function remembered() {
  try {
    const { run, sides } = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
    return run.fields.readers && run.models && sides ? { run, sides } : undefined;
  } catch {
    return undefined;
  }
}

/** Go on with what was read when the page was loaded anew. */
function restore() {
  const kept = remembered();
  if (!kept) return;
  run = kept.run;
  fill(run.fields);
  announce("The page was loaded anew.");
  for (const column of shown) {
    column.reset(Number(run.fields.readers));
    column.readers.forEach((reader, n) => reader.goOn(kept.sides[column.side]?.[n]));
  }
  watch();
}

function reload() {
  if (!isRunning()) return;
  keep();
  location.reload();
}

function buttons() {
  const isOn = isRunning();
  // Not `disabled`, which would take the focus away.
  startButton.setAttribute("aria-disabled", String(isOn));
  for (const button of [stopButton, reloadButton]) button.setAttribute("aria-disabled", String(!isOn));
  fix(isOn);
}

// What is shown while it runs.

let drawn = 0;

function update() {
  const now = Date.now();
  const ends = shown.flatMap(({ readers }) => readers.map(({ outcome, endedAt }) => (outcome ? endedAt : now)));
  const elapsed = Math.max(0, ...ends) - run.began;
  const span = 1000 * (SPANS.find((one) => one * 1000 >= elapsed) ?? Math.ceil(elapsed / 1000));
  for (const column of shown) {
    column.show(now);
    draw(column, now, span);
  }
  buttons();
}

/** Update now and then, until everything has ended. */
function watch() {
  const tick = () => {
    if (Date.now() - drawn > (stillness.matches ? 1000 : 66)) {
      drawn = Date.now();
      update();
    }
    if (isRunning()) return void requestAnimationFrame(tick);
    for (const column of shown) column.describe();
    keep();
  };
  update();
  tick();
  if (state?.pace) askModel();
}

let asking = "";

/** Tell what the model said to each side, also to nobody: until it has ended there. */
async function askModel() {
  const { id } = run;
  if (asking === id) return;
  asking = id;
  for (let quiet = 0; asking === id && quiet < 60; quiet += isRunning() ? 0 : 1) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    const wasOver = !isRunning(); // before it was asked
    let goesOn = false;
    for (const column of shown) {
      const model = encodeURIComponent(run.models[column.side] ?? "");
      /** @type {{ sent_tokens: number, ended: string | null }[]} */
      const found = await asked(`/asked?model=${model}`).catch(() => []);
      if (asking !== id) return;
      if (!found.length) continue;
      const sum = found.reduce((so, { sent_tokens }) => so + sent_tokens, 0);
      const speaks = found.some(({ ended }) => !ended);
      column.said = `${counted(sum, "token")}, asked ${found.length === 1 ? "once" : `${found.length} times`}`;
      if (wasOver) column.said += speaks ? "; goes on" : "; over";
      goesOn ||= speaks;
    }
    update();
    if (wasOver && !goesOn) break;
  }
  for (const column of shown) column.describe();
}

/** The lines of both servers, as they come out; those of this run are shown, also if they come out in another one. */
function followLines() {
  const after = run.id ? "?after=0" : ""; // what came out while the page was loaded anew
  listen(`${desk}/lines${after}`, {
    ...ELSEWHERE,
    onevent({ event, data }) {
      const told = JSON.parse(data);
      if (event === "hello" || !run.id || !told.text.includes(` stream=${run.id}-`)) return;
      columns[/** @type {"broken" | "fixed"} */ (told.side)].print(told);
      if (!isRunning()) update();
    },
    onerror: () => announce("The desk has gone: is flaskstream compare --serve still running?"),
  });
}

function showChoice() {
  const choice = chosen();
  if (!choice) return;
  setTicked(find("#sentence"), choice.sentence);
  setTicked(find("#met"), choice.met);
  setTicked(find("#cure"), choice.cure);
  form.readers.value = String(choice.readers);
}

/**
 * @param {string} selector
 * @param {boolean} isShown
 */
function reveal(selector, isShown) {
  for (const one of document.querySelectorAll(selector)) /** @type {HTMLElement} */ (one).hidden = !isShown;
}

reveal("[data-with=desk]", Boolean(state));
reveal("[data-without=desk]", !state);
reveal("[data-with=pace]", Boolean(state?.pace));
if (state) {
  for (const { name: value } of state.choices)
    form.fault.append(element("option", value === "broken" ? "the usual ones, all at once" : value, { value }));
  if (state.choice) form.fault.value = state.choice;
  if (state.pace) [form.tokens.value, form.interval.value] = state.pace.map(String);
}
if (desk && !state) announce("The desk does not answer: is flaskstream compare --serve still running?");
showChoice();
form.fault.addEventListener("change", showChoice);
form.addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  start();
});
stopButton.addEventListener("click", stop);
reloadButton.addEventListener("click", reload);
addEventListener("pagehide", () => isRunning() && keep());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
new ResizeObserver(update).observe(find("main"));
restore();
if (state) followLines();
update();
