// Tag: words in the colours of their tags.

view({
  name: 'tag',
  title: 'Tag',
  help: 'Write a sentence: its words get their tags, each kind a colour. Point at one for how sure the model is.',
  task: 'tag',
  carries: () => ({ text: tagging.text }),
  draw: drawTag,
});

const tagging = { model: null, text: '' };
const TAG_COLOURS = 8; // in the style

function drawTag(root) {
  const text = textField('Text', tagging, 'text', { rows: 3 });
  const result = results('Tags', 'tagged');

  function take() {
    if (!tagging.text.trim()) { result.show(el('p', { class: 'faint' }, 'The words will appear here with their tags.')); return; }
    result.run(async (how) => {
      const own = tagging.text;
      return drawTagged((await ask('v1/tag', { model: tagging.model, texts: [own] }, how)).results[0], own);
    });
  }

  const model = modelChoice('tag', tagging, take);
  whenTyped(text.field, take);
  put(root, el('form', { on: { submit: (event) => event.preventDefault() } }, text.label, model), result.root);
  take();
}

/** Spans where the tags mean some, else every word with its tag; between words, what stands there in the text. */
function drawTagged(found, text) {
  const spans = found.spans.length ? found.spans.map((each) => ({ ...each }))
    : found.tags.map((label, i) => ({ label, start: i, end: i + 1 })).filter((each) => each.label !== 'O' && !found.values);
  const kinds = [...new Set(spans.map((each) => each.label))].sort();
  const colourClass = (label) => `kind-${kinds.indexOf(label) % TAG_COLOURS}`;
  const sure = (i) => (found.values ? fixed(found.values[i] ?? 0, 3) : found.probabilities[i] === null ? '' : percent(found.probabilities[i]));
  const word = (i) => el('span', { 'data-word': i, title: `${found.tags[i] ?? ''} ${sure(i)}`.trim() }, found.words[i], found.values ? el('small', { class: 'number' }, sure(i)) : null);
  const parts = [], gaps = [];
  let at = 0, place = 0;
  for (const each of found.words) {
    const start = text.indexOf(each, place);
    gaps.push(start < 0 ? ' ' : text.slice(place, start));
    place = start < 0 ? place : start + each.length;
  }
  for (const { label, start, end } of [...spans, { label: null, start: found.words.length, end: 0 }]) {
    for (; at < start; at++) parts.push(gaps[at], word(at));
    if (label === null) break;
    const inside = [];
    parts.push(gaps[at]);
    for (; at < end; at++) inside.push(inside.length ? gaps[at] : null, word(at));
    parts.push(el('span', { class: `tagged-span ${colourClass(label)}`, 'data-span': label }, inside, el('b', {}, shown(label))));
  }
  const counts = kinds.map((label) => el('span', { class: `tagged-span ${colourClass(label)}` }, `${spans.filter((each) => each.label === label).length} × `, el('b', {}, shown(label))));
  return [el('p', { class: 'tagged-text', dir: 'auto' }, parts), counts.length ? el('p', { class: 'row legend' }, counts) : el('p', { class: 'faint' }, 'No word has a tag.')];
}
