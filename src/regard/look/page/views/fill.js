// Fill: a text with masks, and what could stand in their places. Also what the views of probabilities share.

/** The colour behind a share from 0 to 1: pale enough for the ink on it, light and dark. */
function shareShade(share) { return css(colour(0.45 * Math.max(0, Math.min(1, share)))); }

/** A share as one reads it: never 0 where it is only small. */
function sharePercent(share) { return share > 0 && share < 0.0005 ? '<0.1 %' : percent(share); }

/** A token or a word, shaded by a share, with a note under it; a button where it can be chosen. */
function shareChip({ name, note, share, special, pressed, label, data, click }) {
  return el(click ? 'button' : 'span', {
    type: click ? 'button' : null, class: special ? 'token chip special' : 'token chip', title: label, ...data,
    'aria-pressed': pressed === undefined ? null : String(pressed), style: { background: shareShade(share) },
    on: click ? { click } : {},
  }, el('span', {}, shown(name)), note ? el('small', { class: 'number' }, note) : null);
}

/** Rows of { name, share, data, closed }, with bars; a name is a button where it can be picked. */
function shareTable(rows, pick, id) {
  return el('table', { id, class: 'shares' }, el('tbody', {}, rows.map((row) => el('tr', row.data || {},
    el('td', {}, pick && !row.closed
      ? el('button', { type: 'button', class: 'quiet pick', on: { click: () => pick(row) } }, shown(row.name))
      : el('span', { class: row.closed ? 'faint' : '' }, shown(row.name))),
    el('td', { class: 'number' }, sharePercent(row.share)),
    el('td', { class: 'bars' }, bar(row.share))))));
}

/** One stop for the tab key in a line of buttons; arrows move between them. */
function shareArrows(box, chosen = 0) {
  const all = () => [...box.querySelectorAll('button')];
  all().forEach((button, i) => { button.tabIndex = i === Math.max(0, chosen) ? 0 : -1; });
  box.addEventListener('keydown', (event) => {
    const buttons = all(), at = buttons.indexOf(document.activeElement);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (at < 0 || to === undefined || !buttons[to]) return;
    event.preventDefault();
    buttons[at].tabIndex = -1;
    buttons[to].tabIndex = 0;
    buttons[to].focus();
  });
  return box;
}

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
