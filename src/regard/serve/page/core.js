// What every view of the service's page needs: questions to the service, and a place for what comes back.

const state = { view: '' };
const REMEMBERED = ['view'];
let about = null; // what is served, and its limits
let has = { look: false, documents: false }; // what the service was started with
const TYPING_PAUSE = 300; // milliseconds without a key before a text is taken as typed
const TRIES = 3; // of a request that the service has no room for

/** Views have, beside what all pages' views have, the task of their models, and what the explorer is given to begin with. */
const modelsFor = (task) => about.models.filter((each) => each.task === task);

function refused(message, status = 0) { return Object.assign(new Refused(message), { status }); }

/** A reply of the service. Where it has no room, it is asked again after the time that it says. */
async function send(path, { given = null, signal = null, waiting = () => {} } = {}) {
  const isForm = given instanceof FormData;
  for (let tries = 1; ; tries++) {
    let reply;
    try {
      reply = await fetch(path, {
        method: given ? 'POST' : 'GET', signal,
        headers: { ...keyHeader(), ...(given && !isForm ? { 'Content-Type': 'application/json' } : {}) },
        body: !given || isForm ? given : JSON.stringify(given),
      });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw refused('The service does not answer. Is it still running, and this machine connected to it?');
    }
    if (reply.ok) return reply;
    const seconds = Number(reply.headers.get('Retry-After'));
    if (!seconds || tries === TRIES) throw refused(await reasonOf(reply), reply.status);
    waiting(`The service is busy: asking again in ${seconds} s …`);
    await pause(seconds, signal);
  }
}

async function reasonOf(reply) {
  try {
    const { error } = await reply.json();
    return error.message ?? error;
  } catch {
    return `The service answered with ${reply.status}.`;
  }
}

function pause(seconds, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, 1000 * seconds);
    signal?.addEventListener('abort', () => { clearTimeout(timer); done(); });
  });
}

async function ask(path, given, how) { return (await send(path, { ...how, given })).json(); }

/** A place for results. `run(work)` shows what `work({ signal, waiting })` resolves to, elements or a function that makes
    them; whoever runs last wins, and what is refused is told in the same place. */
function results(name, id) {
  const note = el('div', {}), body = el('div', { id });
  const root = el('section', { class: 'results', 'aria-label': name, 'aria-live': 'polite' }, note, body);
  let latest = null;
  function stop() {
    latest?.abort();
    latest = null;
    root.removeAttribute('aria-busy');
    put(note);
  }
  async function run(work) {
    stop();
    const own = latest = new AbortController(), wanted = () => own === latest;
    root.setAttribute('aria-busy', 'true');
    try {
      const found = await work({ signal: own.signal, waiting: (message) => wanted() && put(note, el('p', { class: 'faint' }, message)) });
      if (!wanted()) return;
      put(note);
      put(body, typeof found === 'function' ? found() : found);
    } catch (error) {
      if (!wanted() || own.signal.aborted) return;
      if (!(error instanceof Refused)) throw error;
      if (error.status === 401) wantKey();
      put(body);
      put(note, el('div', { class: 'problem', role: 'alert' }, el('p', {}, error.message),
        el('button', { type: 'button', class: 'quiet', on: { click: () => run(work) } }, 'Try again')));
    } finally {
      if (wanted()) root.removeAttribute('aria-busy');
    }
  }
  return { root, body, run, stop, show: (...parts) => { stop(); put(body, ...parts); } };
}

/** Calls `take` when typing pauses, and at once at Ctrl+Enter or, in a field of one line, at Enter. */
function whenTyped(field, take) {
  let timer = 0;
  const now = () => { clearTimeout(timer); if (field.isConnected) take(); };
  field.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(now, TYPING_PAUSE); });
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey || field.tagName === 'INPUT')) { event.preventDefault(); now(); }
  });
}

/** A text field of several lines under its name; `kept[key]` always has what it holds. */
function textField(name, kept, key, { rows = 5, hint = '', id = key } = {}) {
  const field = el('textarea', { id, rows, dir: 'auto', value: kept[key], placeholder: hint, spellcheck: 'false', on: { input: () => { kept[key] = field.value; } } });
  return { field, label: el('label', { class: 'wide' }, name, field) };
}

/** Which model is asked, where there are several for a task. */
function modelChoice(task, kept, changed) {
  const names = modelsFor(task).map((each) => each.name);
  kept.model = names.includes(kept.model) ? kept.model : names[0];
  return names.length > 1 ? choice('Model', names.map((name) => [name, name]), kept.model, (name) => { kept.model = name; changed(); }, { id: 'model' }) : null;
}

/** A button that opens a file. */
function fileButton(name, id, take, accept = null) {
  const file = el('input', { type: 'file', id, accept, class: 'unseen', on: { change: () => { if (file.files.length) take(file.files[0]); file.value = ''; } } });
  return el('label', { class: 'quiet file' }, name, file);
}

/** As Python counts them: a character beyond the first 65536 is one. */
const characters = (text) => Array.from(text);

// White space as Python has it: the service counts words by that.
const WORD = /[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/g;

/** A text as words and what stands between them: [{ gap, word }], and what is left at its end. */
function wordsOf(text) {
  let end = 0;
  const words = [...text.matchAll(WORD)].map(({ 0: word, index }) => {
    const gap = text.slice(end, index);
    end = index + word.length;
    return { gap, word, start: index, end };
  });
  return { words, tail: text.slice(end) };
}
