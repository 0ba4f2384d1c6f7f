// Search: lines ranked by how near their meaning is to a query. Vectors come from the service, cosines are taken here.

view({
  name: 'search',
  title: 'Search',
  help: 'Paste lines or open a text file, and ask in your own words: what means most nearly the same comes first.',
  task: 'embed',
  carries: () => ({ text: searching.query }),
  draw: drawSearch,
});

const searching = { model: null, lines: '', query: '' };
const vectors = new Map(); // by model, prompt and text
const MOST_LINES = 20000, SHOWN_LINES = 20;

/** What the model has before a text of this side, query or passage; it may have nothing of the kind. */
const promptOf = (side) => modelsFor('embed').find((each) => each.name === searching.model).prompts?.[side];

const vectorKey = (text, side) => `${searching.model}\n${promptOf(side) ?? ''}\n${text}`;

/** Of texts that have none yet, in requests as large as the service takes. */
async function fetchVectors(texts, side, how) {
  const wanted = [...new Set(texts)].filter((text) => !vectors.has(vectorKey(text, side)));
  for (let first = 0; first < wanted.length;) {
    let last = first, size = 0;
    while (last < wanted.length && last - first < about.limits.texts) {
      size += characters(wanted[last]).length;
      if (last > first && size > about.limits.characters) break;
      last += 1;
    }
    if (wanted.length > about.limits.texts) how.waiting(`${first.toLocaleString('en')} of ${wanted.length.toLocaleString('en')} lines are read …`);
    const { results: found } = await ask('v1/embed', { model: searching.model, texts: wanted.slice(first, last), prompt: promptOf(side) }, how);
    found.forEach((each, i) => vectors.set(vectorKey(wanted[first + i], side), Float32Array.from(each.vector)));
    first = last;
  }
}

function cosine(one, other) {
  let product = 0, a = 0, b = 0;
  for (let i = 0; i < one.length; i++) { product += one[i] * other[i]; a += one[i] ** 2; b += other[i] ** 2; }
  return product / (Math.sqrt(a * b) || 1);
}

function drawSearch(root) {
  const lines = textField('Lines', searching, 'lines', { rows: 12, hint: 'One text a line.' });
  const query = el('input', { type: 'text', id: 'query', dir: 'auto', value: searching.query, placeholder: 'What are you looking for?', on: { input: () => { searching.query = query.value; } } });
  const result = results('Lines found', 'found'), count = el('span', { class: 'faint number' });
  const model = modelChoice('embed', searching, () => take());

  function take() {
    const all = searching.lines.split('\n').map((text, i) => ({ text: text.trim(), number: i + 1 })).filter((each) => each.text);
    count.textContent = all.length ? `${all.length.toLocaleString('en')} lines` : '';
    const text = searching.query.trim();
    if (!all.length || !text) { result.show(el('p', { class: 'faint' }, all.length ? 'Ask something.' : 'The lines that fit best will appear here.')); return; }
    result.run(async (how) => {
      if (all.length > MOST_LINES) throw refused(`${all.length.toLocaleString('en')} lines: at most ${MOST_LINES.toLocaleString('en')} are searched here. For more: regard search`);
      await fetchVectors([text], 'query', how);
      await fetchVectors(all.map((each) => each.text), 'passage', how);
      const asked = vectors.get(vectorKey(text, 'query'));
      const ranked = all.map((each) => ({ ...each, cosine: cosine(asked, vectors.get(vectorKey(each.text, 'passage'))) })).sort((a, b) => b.cosine - a.cosine);
      return el('ol', { class: 'hits' }, ranked.slice(0, SHOWN_LINES).map((each) => el('li', {},
        el('span', { class: 'number score', title: 'cosine' }, fixed(each.cosine, 2)), el('span', { class: 'bars' }, bar(Math.max(0, each.cosine))),
        el('span', { class: 'hit', dir: 'auto' }, each.text), el('span', { class: 'faint number' }, `line ${each.number.toLocaleString('en')}`))));
    });
  }

  whenTyped(lines.field, take);
  whenTyped(query, take);
  put(root, el('div', { class: 'split' },
    el('form', { on: { submit: (event) => event.preventDefault() } }, lines.label,
      el('div', { class: 'row' }, fileButton('Open a text file', 'open-lines', async (file) => {
        searching.lines = lines.field.value = await file.text();
        take();
      }, 'text/*,.txt,.csv,.tsv,.md'), count, model)),
    el('div', {}, el('label', { class: 'wide' }, 'Query', query), result.root)));
  take();
}
