// Neuron: one query token; how each key compares with it, number by number.

view({
  name: 'neuron',
  title: 'Neuron',
  help: 'How a score comes about. Choose a token: its query is compared with the key of each token it may see. Orange is below zero, blue above.',
  fits: (own) => Object.keys(own.places).length > 0,
  draw: (root) => withText(root, drawNeuron),
});

const MOST_KEYS = 64;

async function drawNeuron(root, found) {
  const below = el('div', {});
  const controls = el('div', {});
  const show = async (whole) => {
    clampHead(found.places);
    if (whole) put(controls, headControls(found.places, show));
    remember();
    await trying(async () => {
      const asked = { ...given(), place: state.place, layer: state.layer, head: state.head };
      const answer = await ask('neuron', asked);
      const late = ['place', 'layer', 'head'].some((name) => asked[name] !== state[name]);
      if (root.isConnected && !late) drawComparison(below, found, answer);
    });
  };
  put(root, controls, below);
  await show(true);
}

/** Scores and weights of one query, from the numbers that the pass used. */
function compare(answer, query) {
  const size = answer.size, q = numbers(answer.queries), k = numbers(answer.keys);
  const queries = q.length / size, keys = k.length / size;
  const direction = answer.direction && numbers(answer.direction), bias = answer.bias && numbers(answer.bias);
  const own = q.subarray(query * size, (query + 1) * size);
  const place = query + keys - queries; // where queries are fewer, they are the last ones
  const reach = queries === keys || answer.before !== null || answer.after !== null;
  const found = [];
  for (let j = 0; j < keys; j++) {
    const key = k.subarray(j * size, (j + 1) * size);
    const products = Float32Array.from(own, (each, i) => (direction ? direction[i] * Math.tanh(each + key[i]) : each * key[i]));
    const sum = products.reduce((total, each) => total + each, 0);
    const added = bias ? bias[query * keys + j] : 0;
    const hidden = reach && ((answer.before !== null && j < place - answer.before) || (answer.after !== null && j > place + answer.after));
    found.push({ key, products, sum, bias: added, score: (direction ? sum : sum * answer.scale) + added, hidden, weight: 0, at: j });
  }
  const seen = found.filter((each) => !each.hidden);
  const top = Math.max(...seen.map((each) => each.score));
  const total = seen.reduce((sum, each) => sum + Math.exp(each.score - top), 0);
  for (const each of seen) each.weight = Math.exp(each.score - top) / total;
  return { q: own, keys: found };
}

function drawComparison(root, found, answer) {
  const place = found.places[state.place];
  const rows = found.tokens[place.queries], columns = found.tokens[place.keys];
  state.query = Math.max(0, Math.min(state.query, rows.tokens.length - 1));
  const { q, keys } = compare(answer, state.query);
  const seen = keys.filter((each) => !each.hidden);
  const listed = seen.length <= MOST_KEYS ? seen : [...seen].sort((a, b) => b.weight - a.weight).slice(0, MOST_KEYS);
  const mostKey = largest(listed.flatMap((each) => [largest(each.key)])), mostProduct = largest(listed.flatMap((each) => [largest(each.products)]));
  const additive = answer.direction !== null;
  const head = (text, name) => el('th', { class: name }, text);
  put(root,
    el('h3', {}, 'Query token'),
    shareArrows(el('div', { class: 'tokens', id: 'queries' }, rows.tokens.map((token, i) => el('button', {
      type: 'button', class: rows.owners[i] < 0 ? 'token special' : 'token', 'aria-pressed': String(i === state.query),
      on: { click: () => { state.query = i; drawComparison(root, found, answer); root.querySelectorAll('#queries button')[i].focus(); } },
    }, shown(token)))), state.query),
    el('p', { class: 'equation' }, additive
      ? 'score = v · tanh(q + k)      weight = softmax(score)'
      : `score = q · k × ${fixed(answer.scale, 4)}${answer.bias ? ' + bias' : ''}      weight = softmax(score)`),
    el('p', { class: 'row' }, el('b', {}, `q of “${shown(rows.tokens[state.query])}”`), el('span', { class: 'faint' }, `${answer.size} numbers, length ${fixed(Math.hypot(...q), 2)}`)),
    strip(q, largest(q), 'the query'),
    el('div', { class: 'scroll' }, el('table', { id: 'comparison' },
      el('thead', {}, el('tr', {}, head('token'), head('key'), head(additive ? 'v tanh(q + k), each' : 'q × k, each'), head('sum', 'number sum'), answer.bias ? head('bias', 'number') : null, head('score', 'number'), head('weight', 'number'), head(''))),
      el('tbody', {}, listed.map((each) => el('tr', { 'data-key': each.at },
        el('td', { class: columns.owners[each.at] < 0 ? 'faint' : '' }, shown(columns.tokens[each.at])),
        el('td', { style: { width: '22%' } }, strip(each.key, mostKey, 'key')),
        el('td', { style: { width: '22%' } }, strip(each.products, mostProduct, 'products')),
        el('td', { class: 'number sum' }, fixed(each.sum, 2)),
        answer.bias ? el('td', { class: 'number' }, fixed(each.bias, 2)) : null,
        el('td', { class: 'number' }, fixed(each.score, 3)),
        el('td', { class: 'number' }, fixed(each.weight, 4)),
        el('td', { class: 'bars' }, bar(each.weight))))))),
    el('p', { class: 'faint' }, [
      listed.length < seen.length ? `The ${listed.length} heaviest of ${seen.length.toLocaleString('en')} keys.` : '',
      seen.length < keys.length ? ` ${keys.length - seen.length} keys are hidden from this token.` : ''].join('')));
}
