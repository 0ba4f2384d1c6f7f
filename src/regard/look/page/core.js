// What every view needs: elements, questions, numbers, and what is chosen.

const state = {
  view: '', text: '', second: null, to: null, draft: null,
  place: '', layer: 0, head: 0, query: 0,
  words: false, specials: true, mode: 'lines',
};
const views = [];
let about = null;

/** A view: { name, title, help, fits(about), draw(root) }. draw may be called again at any time with a fresh root. */
function view(one) { views.push(one); }

/** An element. Strings become text, never markup; `on` holds listeners, `style` properties, anything else attributes. */
function el(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') for (const [event, listen] of Object.entries(value)) made.addEventListener(event, listen);
    else if (name === 'style') for (const [key, each] of Object.entries(value)) made.style.setProperty(key, each);
    else if (name === 'value') made.value = value;
    else if (name === 'checked') made.checked = value;
    else made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

/** In place of what an element held. What had the focus has it again, if it is there under the same id. */
function put(root, ...children) {
  keepingFocus(root, () => root.replaceChildren(...children.flat(Infinity).filter((each) => each)));
}

function keepingFocus(root, work) {
  const before = document.activeElement, { id, selectionStart, selectionEnd } = before;
  const held = id && root.contains(before);
  work();
  const after = held && !before.isConnected && document.getElementById(id);
  if (!after) return;
  after.focus({ preventScroll: true });
  if (after.tagName === 'TEXTAREA') after.setSelectionRange(selectionStart, selectionEnd);
}

function say(message, bad = false) {
  const said = document.getElementById('said');
  said.textContent = message;
  said.classList.toggle('bad', bad);
}

class Refused extends Error {}

let warned = ''; // what the last answers came with, said when they are shown
let recorded = null; // the answers that a saved page carries
const answers = new Map();
const MOST_ANSWERS = 60;

function spelled(question, given) {
  const own = {};
  for (const name of Object.keys(given).sort()) {
    if (given[name] !== null && given[name] !== undefined) own[name] = given[name];
  }
  return `${question} ${JSON.stringify(own)}`;
}

/** The answer to a question; one that was asked before is remembered. */
function ask(question, given = {}) {
  const key = spelled(question, given);
  if (answers.has(key)) {
    const found = answers.get(key);
    answers.delete(key);
    answers.set(key, found);
    return found;
  }
  const found = recorded ? fromPage(key) : fromServer(question, given);
  answers.set(key, found);
  found.catch(() => answers.delete(key));
  if (answers.size > MOST_ANSWERS) answers.delete(answers.keys().next().value);
  return found;
}

async function fromPage(key) {
  const answer = Object.hasOwn(recorded, key) ? recorded[key] : null;
  if (answer && !answer.refused) return answer;
  throw new Refused(answer ? answer.refused : 'This page was saved with the answers for its own texts. For others, start: regard look MODEL');
}

async function fromServer(question, given) {
  let reply, answer;
  try {
    reply = await fetch(`/ask/${question}`, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(given),
    });
    answer = await reply.json();
  } catch {
    throw new Refused('The explorer does not answer: is "regard look" still running?');
  }
  if (!reply.ok) throw new Refused(answer.refused);
  if (answer.warned) warned = answer.warned.join(' ');
  return answer;
}

/** Runs what a view does; what is refused is said at the foot of the page, while it is still wanted. Resolves to
    whether it worked. */
async function trying(work, meanwhile = '', wanted = () => true) {
  if (meanwhile) say(meanwhile);
  try {
    await work();
    const own = warned;
    warned = '';
    if (wanted() && (meanwhile || own)) say(own);
    return true;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (wanted()) say(error.message, true);
    return false;
  }
}

/** Numbers as the server spells them: a format, a colon, base 64. Whole ones are shares of their largest. */
function numbers(text) {
  const raw = atob(text.slice(3));
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  switch (text.slice(0, 2)) {
    case 'u1': return sharesOf(bytes, 255);
    case 'u2': return sharesOf(new Uint16Array(bytes.buffer), 65535);
    case 'f4': return new Float32Array(bytes.buffer);
    case 'f2': return Float32Array.from(new Uint16Array(bytes.buffer), half);
    default: throw new Error(`numbers in an unknown format: ${text.slice(0, 3)}`);
  }
}

function sharesOf(whole, most) {
  const found = new Float32Array(whole.length);
  for (let i = 0; i < whole.length; i++) found[i] = whole[i] / most; // a head can be a million of them
  return found;
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, part = bits & 1023;
  if (exponent === 0) return sign * part * 2 ** -24;
  return exponent === 31 ? (part ? NaN : sign * Infinity) : sign * (1 + part / 1024) * 2 ** (exponent - 15);
}

const fixed = (number, digits = 3) => number.toFixed(digits).replace(/^-(0\.?0*)$/, '$1');
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %`;

const layerName = (layer) => (layer === 0 ? 'embedding' : `layer ${layer}`);

/** A spelling that can be seen: spaces and line ends too. */
const shown = (token) => (token === '' ? '∅' : token.replace(/\n/g, '↵').replace(/\t/g, '⇥'));

/** Asks for a redraw of the view with what is chosen now, once a frame at most. */
let redrawing = 0;
function redraw() {
  if (redrawing) return;
  redrawing = requestAnimationFrame(() => { redrawing = 0; drawView(); });
}

function drawView() {
  const one = views.find((each) => each.name === state.view);
  const root = el('div', { 'data-view': one.name });
  const frame = document.getElementById('view');
  keepingFocus(frame, () => {
    put(frame, el('p', { class: 'help' }, one.help), root);
    one.draw(root);
  });
}

// Small parts

function choice(label, options, chosen, pick, given = {}) {
  const select = el('select', { ...given, on: { change: () => pick(select.value) } },
    options.map(([value, name]) => el('option', { value, selected: String(value) === String(chosen) }, name)));
  return el('label', {}, label, select);
}

function tick(label, on, pick, given = {}) {
  const box = el('input', { type: 'checkbox', checked: on, ...given, on: { change: () => pick(box.checked) } });
  return el('label', {}, box, label);
}

/** A slider that tells its value while it moves. */
function slider(label, least, most, value, pick, given = {}) {
  const out = el('output', { class: 'number' }, String(value));
  const range = el('input', {
    type: 'range', min: least, max: most, ...given,
    on: { input: () => { out.textContent = range.value; pick(Number(range.value)); } },
  });
  range.value = value;
  return el('label', {}, label, range, out);
}

function bar(share, most = 1) {
  return el('span', {
    class: share < 0 ? 'bar minus' : 'bar', style: { width: `${Math.min(100, (100 * Math.abs(share)) / most)}%` },
  });
}
