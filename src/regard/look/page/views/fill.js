// Fill: a text with masks, and what could stand in their places.

view({
  name: 'fill',
  title: 'Fill',
  help: 'What the model would put in. Click on a word to hide it, or write [MASK] in its place; click on a candidate to put it in. Several masks are filled each on its own.',
  fits: (own) => own.views.includes('fill'),
  draw: drawFill,
});

const FILL_TOP = 10;
const filling = { of: null, text: '', before: [] }; // the text of the page, what became of it, and the way there

function drawFill(root) {
  if (filling.of !== state.text) Object.assign(filling, { of: state.text, text: state.text, before: [] });
  const text = el('textarea', { id: 'text', dir: 'auto', rows: 2, value: state.draft ?? filling.text, spellcheck: 'false', maxlength: about.characters, readonly: recorded !== null });
  const below = el('div', {});
  const saved = recorded ? recorded.texts.texts : [];
  text.addEventListener('input', () => { state.draft = text.value; });
  text.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey) { event.preventDefault(); go(text.value); }
  });

  /** A saved page stays with its own texts; else what is made here is the text of all views. */
  function keep(next, still) {
    filling.text = next;
    if (still) { text.value = next; state.draft = null; } // else something was typed that is not read yet
    if (recorded) return;
    state.text = filling.of = next;
    remember();
  }

  /** To another text; `passing` is done when it was read. */
  let latest = 0;
  async function go(next, focus, passing = (before) => { if (next !== before) filling.before.push(before); }) {
    const number = latest += 1, typed = state.draft, wanted = () => root.isConnected && number === latest;
    return trying(async () => {
      const found = await ask('fill', { text: next, top: FILL_TOP });
      if (!wanted()) return;
      passing(filling.text);
      keep(next, state.draft === typed && (focus || typed === null || typed === next));
      put(below, fillParts(found, go), fillMasks(found, go));
      const reached = focus && below.querySelector(focus);
      if (reached) reached.focus();
    }, 'Reading …', wanted);
  }

  put(root,
    el('form', { on: { submit: (event) => { event.preventDefault(); go(text.value); } } },
      saved.length > 1 ? choice('Text', saved.map((each, i) => [i, each.text]), saved.findIndex((each) => each.text === state.text),
        (i) => { Object.assign(state, saved[i]); redraw(); }, { id: 'texts' }) : null,
      el('label', { class: 'wide' }, 'Text; [MASK] hides a word', text),
      recorded ? null : el('div', { class: 'row' }, el('button', { class: 'act', id: 'go' }, 'Fill'), el('span', { class: 'faint' }, 'Enter fills, Shift+Enter makes a new line.'))),
    below);
  go(filling.text);
}

/** The text, word by word; a click hides one. */
function fillParts(found, go) {
  let mask = 0;
  const joined = (at, word) => found.parts.map(([part], i) => (i === at ? word : part)).join('');
  const words = found.parts.map(([part, kind], i) => {
    if (kind === 'gap') return null;
    if (kind === 'mask') {
      const number = (mask += 1);
      return el('button', {
        type: 'button', class: 'token mask', 'aria-label': `mask ${number}: go to its candidates`,
        on: { click: () => { const first = document.querySelector(`#mask-${number} button`); if (first) first.focus(); } },
      }, `[MASK] ${number}`);
    }
    return el('button', { type: 'button', class: 'token', title: 'hide this word', on: { click: () => go(joined(i, '[MASK]'), '.token.mask') } }, shown(part));
  });
  return [
    shareArrows(el('div', { class: 'tokens', id: 'parts' }, words)),
    el('div', { class: 'row' },
      el('button', {
        type: 'button', class: 'quiet', id: 'undo', disabled: !filling.before.length,
        on: { click: () => go(filling.before[filling.before.length - 1], '#parts button', () => filling.before.pop()) },
      }, 'Undo'),
      found.masks.length > 1 ? el('button', { type: 'button', class: 'quiet', id: 'fill-all', on: { click: () => go(found.filled, '#parts button') } }, 'Put the likeliest in everywhere') : null),
  ];
}

function fillMasks(found, go) {
  if (!found.masks.length) return el('p', { class: 'faint' }, 'Nothing is hidden yet: click on a word.');
  const joins = found.masks.some((candidates) => candidates.some((each) => each.joins));
  const masks = el('div', { class: 'masks' }, found.masks.map((candidates, i) => el('section', { id: `mask-${i + 1}`, 'aria-label': `mask ${i + 1}` },
    el('h3', {}, `Mask ${i + 1}`),
    shareTable(candidates.map((each) => ({ name: each.joins ? `…${each.word}` : each.word, share: each.share, text: each.text })), (row) => go(row.text, '#parts button')))));
  return [masks, joins ? el('p', { class: 'faint' }, '… goes on with the word before.') : null];
}
