// Fill: words that could stand in place of a mask.

view({
  name: 'fill',
  title: 'Fill',
  help: 'Click on a word to hide it, or write [MASK] in its place: the likeliest words come up. Click on one to put it in.',
  task: 'pretrain',
  carries: () => ({ text: filling.text }),
  draw: drawFill,
});

const filling = { model: null, text: '' };
const FILL_TOP = 8, MASK = '[MASK]';

function drawFill(root) {
  const text = textField('Text', filling, 'text', { rows: 3, hint: 'The [MASK] sat on the mat.' });
  const result = results('Candidates', 'candidates'), parts = el('div', {});

  function become(next) {
    filling.text = text.field.value = next;
    take();
    parts.querySelector('button')?.focus();
  }

  /** The words, to be hidden by a click; marks around a word stay. */
  function drawParts() {
    const { words, tail } = wordsOf(filling.text);
    const whole = (at, word) => words.map((each, i) => each.gap + (i === at ? word : each.word)).join('') + tail;
    put(parts, shareArrows(el('div', { class: 'tokens', id: 'parts' }, words.map(({ word }, i) => (word.includes(MASK)
      ? el('span', { class: 'token mask' }, word)
      : el('button', { type: 'button', class: 'token', title: 'hide this word', on: { click: () => become(whole(i, word.replace(/[\p{L}\p{N}][\p{L}\p{N}’'-]*/u, MASK))) } }, word))))));
  }

  function take() {
    drawParts();
    if (!filling.text.includes(MASK)) { result.show(el('p', { class: 'faint' }, filling.text.trim() ? 'Nothing is hidden yet: click on a word.' : 'Write a sentence.')); return; }
    result.run(async (how) => {
      const own = filling.text, { results: [found] } = await ask('v1/fill', { model: filling.model, texts: [own], top: FILL_TOP }, how);
      return el('div', { class: 'masks' }, found.candidates.map((each, i) => el('section', { id: `mask-${i + 1}`, 'aria-label': `Mask ${i + 1}` },
        el('h3', {}, `Mask ${i + 1}`), shareTable(each.map(({ token, probability, text: next }) => ({ name: putIn(own, i, next) ?? token, share: probability, next })), (row) => become(row.next)))));
    });
  }

  const model = modelChoice('pretrain', filling, take);
  whenTyped(text.field, take);
  put(root, el('form', { on: { submit: (event) => event.preventDefault() } }, text.label, model), parts, result.root);
  take();
}

/** What a text has in the place of a mask of another; null where the rest is not the same. */
function putIn(text, mask, next) {
  const parts = text.split(MASK), before = parts.slice(0, mask + 1).join(MASK), after = parts.slice(mask + 1).join(MASK);
  return next.startsWith(before) && next.endsWith(after) ? next.slice(before.length, next.length - after.length).trim() || null : null;
}
