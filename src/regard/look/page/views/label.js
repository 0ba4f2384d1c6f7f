// Label: what a classifier says of a text, or a tagger of its words, and where they looked.

view({
  name: 'label',
  title: 'Label',
  help: 'What the model says of the text, how sure it is, and what it looked at. Attention shows where a vector came from; it is no proof of why.',
  fits: (own) => own.views.includes('label') || own.views.includes('tags'),
  draw: (root) => withText(root, about.views.includes('tags') ? drawTags : drawLabels),
});

const labelling = { look: null, layer: null, word: 0, text: null, all: false };
const FEW_LABELS = 10;

async function drawLabels(root) {
  const asked = { text: state.text, second: state.second || null };
  const found = await ask('label', asked);
  if (!root.isConnected || asked.text !== state.text) return; // another text is on its way
  const verdict = el('section', { id: 'verdict' }), look = el('section', { id: 'look' });

  function drawVerdict() {
    const few = labelling.all ? found.chances : found.chances.slice(0, FEW_LABELS);
    put(verdict,
      el('h3', {}, labelVerdict(found)),
      found.problem === 'number' ? null : shareTable(few.map(([name, share]) => ({ name, share, data: { 'data-label': name } })), null, 'labels'),
      found.chances.length > FEW_LABELS ? el('button', { type: 'button', class: 'quiet', id: 'all-labels', on: { click: () => { labelling.all = !labelling.all; drawVerdict(); } } },
        labelling.all ? 'Fewer' : `All ${found.chances.length} labels`) : null);
  }

  function drawLook() {
    const looks = found.looks;
    if (!looks.length) { put(look, el('p', { class: 'faint' }, 'This model does not attend, so there is nothing to see of where it looked.')); return; }
    const pool = looks.findIndex((each) => each.of === 'pool');
    const at = labelling.look !== null && labelling.look in looks ? labelling.look : pool >= 0 ? pool : looks.length - 1;
    put(look,
      el('h3', {}, 'Where it looked'),
      el('div', { class: 'row' },
        choice('Attention of', looks.map((each, i) => [i, each.name]), at, (i) => { labelling.look = Number(i); drawLook(); look.querySelector('select').focus(); }, { id: 'of' }),
        tick('special tokens', state.specials, (on) => { state.specials = on; remember(); drawLook(); }, { id: 'specials' })),
      el('p', { class: 'faint' }, {
        first: 'What the first token looks at, whose state the label is read from; mean over heads.',
        last: 'What the last token looks at, whose state the label is read from; mean over heads.',
        all: 'What is looked at, mean over all tokens and heads: the label is read from all of them.',
        pool: 'How the pool weighs the tokens, whose sum the label is read from.',
      }[looks[at].of]),
      labelWords(found, numbers(looks[at].weights)));
  }

  put(root, el('div', { class: 'split' }, verdict, look));
  drawVerdict();
  drawLook();
}

function labelVerdict(found) {
  if (found.problem === 'number') return el('span', { id: 'value', class: 'number' }, fixed(found.value, 3));
  if (found.problem === 'multi') return found.labels.length ? found.labels.map(shown).join(', ') : 'No label is likelier than not';
  return shown(found.label);
}

/** The words, shaded by what falls on each; the deepest is the largest that is shown. */
function labelWords(found, weights) {
  const seen = found.units.map((name, i) => ({ name, special: found.special[i], weight: weights[i] })).filter((each) => state.specials || !each.special);
  const most = Math.max(1e-9, ...seen.map((each) => each.weight));
  const hidden = 1 - seen.reduce((sum, each) => sum + each.weight, 0);
  return [
    el('div', { class: 'tokens', 'data-words': '' }, seen.map((each) => shareChip({
      name: each.name, note: sharePercent(each.weight), share: each.weight / most, special: each.special, label: `${shown(each.name)}: ${fixed(each.weight, 4)}`,
    }))),
    !state.specials && hidden > 0.005 ? el('p', { class: 'faint' }, `${percent(hidden)} goes to special tokens, which are hidden.`) : null,
  ];
}

// Taggers

async function drawTags(root) {
  if (labelling.text !== state.text) Object.assign(labelling, { text: state.text, word: 0 });
  const text = state.text, found = await ask('label', { text });
  if (!root.isConnected || text !== state.text) return; // another text is on its way
  const words = el('div', {}), one = el('section', { id: 'one', 'aria-live': 'polite' });
  labelling.word = Math.max(0, Math.min(labelling.word, found.words.length - 1));

  async function choose(word, focus) {
    labelling.word = word;
    put(words, tagWords(found, (next) => choose(next, true)));
    if (focus) words.querySelector(`[data-word="${word}"]`).focus();
    put(one, tagOne(found, word));
    if (!found.attends) return;
    const look = el('div', {});
    one.append(look);
    await trying(async () => {
      const answer = await ask('word_attention', { text, word });
      if (look.isConnected) tagLook(look, found, answer);
    });
  }

  put(root, el('div', { class: 'split' }, el('section', { id: 'tagged' }, words), one));
  if (found.words.length) await choose(labelling.word);
  else put(words, el('p', { class: 'faint' }, 'There are no words in it.'));
}

/** Words with their tags; those of one span are held together. */
function tagWords(found, choose) {
  const numeric = found.values.map((value) => value ?? 0), low = Math.min(...numeric), high = Math.max(...numeric);
  const chip = (i) => found.values.length ? shareChip({
    name: found.words[i], note: found.tags[i], share: high > low ? (numeric[i] - low) / (high - low) : 0, pressed: i === labelling.word, data: { 'data-word': i },
    click: () => choose(i),
  }) : shareChip({
    name: found.words[i], share: found.tags[i] === 'O' ? 0 : found.chances[i] ?? 0, pressed: i === labelling.word, data: { 'data-word': i },
    note: found.chances[i] === null ? found.tags[i] : `${shown(found.tags[i])} ${sharePercent(found.chances[i])}`, click: () => choose(i),
  });
  const parts = [];
  let at = 0;
  for (const [label, start, end] of [...found.spans, [null, found.words.length, found.words.length]]) {
    for (; at < start; at++) parts.push(chip(at));
    if (label === null) break;
    const inside = [];
    for (; at < end; at++) inside.push(chip(at));
    parts.push(el('span', { class: 'entity', role: 'group', 'aria-label': shown(label), 'data-span': label }, el('b', {}, shown(label)), inside));
  }
  return shareArrows(el('div', { class: 'tokens tagged', id: 'words-tagged' }, parts), labelling.word);
}

function tagOne(found, word) {
  const count = found.labels.length, every = numbers(found.every).subarray(word * count, (word + 1) * count);
  const rows = found.labels.map((name, i) => ({ name, share: every[i], data: { 'data-label': name } })).sort((a, b) => b.share - a.share);
  return [
    el('h3', {}, `“${shown(found.words[word])}”`),
    found.chances[word] === null
      ? el('p', { class: 'faint' }, 'This word left no token, so the model says nothing of it.')
      : found.values.length ? el('p', { class: 'number', id: 'word-value' }, fixed(found.values[word], 4)) : shareTable(rows.slice(0, FEW_LABELS), null, 'labels'),
    rows.length > FEW_LABELS ? el('p', { class: 'faint' }, `The ${FEW_LABELS} likeliest of ${rows.length} tags.`) : null,
  ];
}

function tagLook(root, found, answer) {
  const every = numbers(answer.weights), width = found.units.length;
  const layer = labelling.layer === null ? answer.layers - 1 : Math.min(labelling.layer, answer.layers - 1);
  const words = el('div', {});
  const draw = (at) => put(words, labelWords(found, every.subarray(at * width, (at + 1) * width)));
  put(root,
    el('h3', {}, 'What it looks at'),
    el('div', { class: 'row' },
      answer.layers > 1 ? slider('Layer', 1, answer.layers, layer + 1, (n) => { labelling.layer = n - 1; draw(n - 1); }, { id: 'layer' }) : null,
      tick('special tokens', state.specials, (on) => { state.specials = on; remember(); draw(labelling.layer ?? answer.layers - 1); }, { id: 'specials' })),
    el('p', { class: 'faint' }, 'Mean over the heads of a layer, and over the tokens of the word.'),
    words);
  draw(layer);
}
