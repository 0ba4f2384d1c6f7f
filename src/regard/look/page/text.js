// The text that most views look at, and its way through the model.

const given = () => ({ text: state.text, second: state.second || null, to: state.to });

/** The form above a view, and what `draw` makes of the text below it. */
function withText(root, draw) {
  const below = el('div', {});
  const text = el('textarea', { id: 'text', dir: 'auto', rows: 2, value: state.draft ?? state.text, spellcheck: 'false', maxlength: about.characters });
  const second = el('textarea', { id: 'second', dir: 'auto', rows: 1, value: state.second || '', spellcheck: 'false', maxlength: about.characters });
  const labels = {
    translator: ['Text', 'Translation (empty: the model’s own)'],
    'language model': ['Text', null], embedder: ['Text', null], tagger: ['Text', null], answerer: ['Question', 'The text that it is about'], 'masked language model': ['Text; [MASK] hides a word', 'Second text, if any'],
  }[about.kind] || ['Text', 'Second text, if any'];
  const go = () => {
    state.text = text.value;
    state.draft = null;
    state.second = second.value.trim() ? second.value : null;
    state.query = 0;
    show();
  };
  const enter = (event) => {
    if (event.key === 'Enter' && !event.shiftKey) { event.preventDefault(); go(); }
  };
  text.addEventListener('keydown', enter);
  text.addEventListener('input', () => { state.draft = text.value; });
  second.addEventListener('keydown', enter);
  const saved = recorded ? recorded.texts.texts : [];
  const form = el('form', { on: { submit: (event) => { event.preventDefault(); go(); } } },
    saved.length > 1 ? choice('Text', saved.map((each, i) => [i, each.text]), saved.findIndex((each) => each.text === state.text),
      (i) => { Object.assign(state, saved[i]); redraw(); }, { id: 'texts' }) : null,
    saved.length > 1 ? null : el('label', { class: 'wide' }, labels[0], text),
    labels[1] && !saved.length ? el('label', { class: 'wide' }, labels[1], second) : null,
    saved.length ? null : el('div', { class: 'row' },
      languages(), el('button', { class: 'act', id: 'go' }, 'Read'), el('span', { class: 'faint' }, 'Enter reads, Shift+Enter makes a new line.')));
  if (saved.length === 1) text.readOnly = true;
  put(root, form, below);

  let latest = null;
  async function show() {
    remember();
    const own = latest = el('div', {}); // what is drawn too late is drawn into one that is gone
    const wanted = () => root.isConnected && own === latest;
    const read = await trying(async () => {
      const found = await ask('read', given());
      if (!wanted()) return;
      put(below, own);
      await draw(own, found);
    }, 'Reading …', wanted);
    if (!read && wanted()) put(below); // what is refused has nothing to show
  }
  show();
}

function languages(changed = redraw) {
  if (about.languages.length < 2) return null;
  return choice('into', about.languages.map((each) => [each, each]), state.to, (to) => { state.to = to; changed(); }, { id: 'to' });
}

/** What rows or columns stand for: tokens, or words; each with its places among the tokens. */
function units(side, { words, specials }) {
  const found = [], of = new Map();
  side.tokens.forEach((token, place) => {
    const owner = side.owners[place];
    if (owner < 0) {
      if (specials) found.push({ name: token, special: true, places: [place] });
    } else if (!words) {
      found.push({ name: token, special: false, places: [place] });
    } else if (of.has(owner)) {
      of.get(owner).places.push(place);
    } else {
      const unit = { name: side.words[owner], special: false, places: [place] };
      of.set(owner, unit);
      found.push(unit);
    }
  });
  return found;
}

/** Weights of tokens as weights of units: a word is attended to by the sum over its tokens, and attends by their mean. */
function merged(weights, columns, rowUnits, columnUnits) {
  const found = new Float32Array(rowUnits.length * columnUnits.length);
  rowUnits.forEach((row, i) => {
    columnUnits.forEach((column, j) => {
      let sum = 0;
      for (const r of row.places) for (const c of column.places) sum += weights[r * columns + c];
      found[i * columnUnits.length + j] = sum / row.places.length;
    });
  });
  return found;
}

/** The heads there are to choose from, kept inside what this model has. */
function clampHead(places) {
  if (!Object.hasOwn(places, state.place)) state.place = Object.keys(places)[0];
  const heads = places[state.place].heads;
  state.layer = Math.max(0, Math.min(Math.floor(state.layer), heads.length - 1));
  state.head = Math.max(0, Math.min(Math.floor(state.head), heads[state.layer] - 1));
}

const PLACES = {
  encoder: 'encoder: every token looks at every token',
  decoder: 'decoder: each token looks back',
  cross: 'cross: what is written looks at what was read',
  pool: 'pool: one query looks at all tokens',
};

/** Place, layer and head, as sliders; `changed` is called while they move. */
function headControls(places, changed) {
  clampHead(places);
  const heads = places[state.place].heads;
  const names = Object.keys(places);
  return el('div', { class: 'row' },
    names.length > 1 ? choice('Attention', names.map((name) => [name, PLACES[name] || name]), state.place,
      (place) => { state.place = place; state.query = 0; changed(true); }, { id: 'place' }) : null,
    heads.length > 1 ? slider('Layer', 1, heads.length, state.layer + 1, (n) => { state.layer = n - 1; changed(false); }, { id: 'layer' }) : null,
    Math.max(...heads) > 1 ? slider('Head', 1, Math.max(...heads), state.head + 1, (n) => { state.head = n - 1; changed(false); }, { id: 'head' }) : null);
}
