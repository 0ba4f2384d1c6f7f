// What every page needs: elements, figures, small parts, and views that are drawn.

const views = [];

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

const fixed = (number, digits = 3) => number.toFixed(digits).replace(/^-(0\.?0*)$/, '$1');
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %`;

/** A spelling that can be seen: spaces and line ends too. */
const shown = (token) => (token === '' ? '∅' : token.replace(/\n/g, '↵').replace(/\t/g, '⇥'));

/** Asks for a redraw of the view with what is chosen now, once a frame at most. */
let redrawing = 0;
function redraw() {
  if (redrawing) return;
  redrawing = requestAnimationFrame(() => { redrawing = 0; if (state.view) drawView(); });
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

/** A text in which the words stand out that another does not have there. */
function differing(text, other) {
  const words = text.split(' '), own = other.split(' '), fewer = Math.min(words.length, own.length);
  let before = 0, after = 0;
  while (before < fewer && words[before] === own[before]) before += 1;
  while (after < fewer - before && words.at(-1 - after) === own.at(-1 - after)) after += 1;
  const middle = words.slice(before, words.length - after).join(' ');
  return [words.slice(0, before).join(' '), before ? ' ' : null, middle ? [el('b', {}, middle), after ? ' ' : null] : null, words.slice(words.length - after).join(' ')];
}
