// Layers: what the model would predict if it stopped after each layer, at each position.

view({
  name: 'layers',
  title: 'Layers',
  help: 'What each layer would predict: its states, taken as if they were the last. Choose a field (arrow keys move) for its likeliest candidates, and for how the right one came up through the layers.',
  fits: () => true,
  draw: (root) => withText(root, drawLayers),
});

const layering = { text: null, side: null, start: 0, at: 0, layer: -1, numbers: false };

const LAYER_HOWS = {
  next: 'The token that comes next, by the output head. Outlined where that is what does come.',
  masked: 'The token that stands there, by the output head. Outlined where it is another than was read.',
  nearest: 'No head of this model scores tokens. Shown instead: the tokens whose input embeddings are nearest to the state, by cosine. Outlined where it is another than the token itself.',
  tags: 'The tag of each token, by the tag head.',
  label: 'The label, by the head, from the states of each layer.',
  several: 'The labels, by the head, from the states of each layer.',
  number: 'The number, by the head, from the states of each layer.',
};

async function drawLayers(root) {
  const text = JSON.stringify(given());
  if (layering.text !== text) Object.assign(layering, { text, start: 0, at: 0, layer: -1 });
  const show = async (focus) => trying(async () => {
    const { text, side, start } = layering, answer = await ask('layers', { ...given(), side: side || layerSide(), start });
    if (!root.isConnected || text !== layering.text || side !== layering.side || start !== layering.start) return; // others are on their way
    answer.layers = answer.best.length;
    drawLayerTable(root, answer, show);
    const reached = focus && root.querySelector(focus);
    if (reached) reached.focus();
  }, 'Reading …');
  await show();
}

/** What the model predicts with: a decoder where there is one. */
const layerSide = () => (about.sides.includes('decoder') ? 'decoder' : 'encoder');

function drawLayerTable(root, answer, show) {
  const every = { shares: numbers(answer.shares), rights: numbers(answer.right_shares) };
  const listed = answer.best[0][0].length, places = answer.tokens.length;
  const cell = (layer, at) => ({
    names: answer.best[layer][at].map((number) => answer.names[number]),
    shares: every.shares.subarray((layer * places + at) * listed, (layer * places + at + 1) * listed),
  });
  const one = ['label', 'several', 'number'].includes(answer.how);
  layering.at = Math.max(0, Math.min(layering.at, places - 1));
  if (layering.layer < 0 || layering.layer >= answer.layers) layering.layer = answer.layers - 1;
  const readout = el('section', { id: 'readout', 'aria-live': 'polite' });
  const figure = (share) => (answer.how === 'number' || answer.how === 'nearest' ? fixed(share, 3) : sharePercent(share));

  const field = (layer, at) => {
    const { names, shares } = cell(layer, at);
    const rank = answer.ranks[layer][at], hit = rank === 1;
    const marked = answer.how === 'next' ? hit : rank > 1; // whichever is rarer
    const name = answer.how === 'number' ? figure(shares[0]) : shown(names[0]);
    const said = `${one ? '' : `“${shown(answer.tokens[at])}”, `}${layerName(layer)}: ${name}${answer.how === 'number' ? '' : `, ${figure(shares[0])}`}${hit ? ', the right one' : ''}`;
    return el('td', {
      class: marked ? 'field marked' : 'field', role: 'gridcell', tabindex: -1, title: said, 'aria-label': said, 'data-field': `${layer} ${at}`,
      style: { background: answer.how === 'number' ? '' : shareShade(shares[0]) },
    }, el('span', {}, name), layering.numbers && answer.how !== 'number' ? el('small', { class: 'number' }, figure(shares[0])) : null);
  };

  const layers = [...Array(answer.layers).keys()];
  const table = one
    ? el('table', { class: 'lens one', role: 'grid', 'aria-label': 'Predictions by layer' }, el('tbody', {}, layers.map((layer) => el('tr', {}, el('th', { scope: 'row' }, layerName(layer)), field(layer, 0)))))
    : el('table', { class: 'lens', role: 'grid', 'aria-label': 'Predictions: positions go down, layers across' },
      el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'token'), layers.map((layer) => el('th', { scope: 'col' }, layerName(layer))))),
      el('tbody', {}, answer.tokens.map((token, at) => el('tr', {},
        el('th', { scope: 'row', class: answer.special[at] ? 'special' : '', title: `${answer.start + at + 1}: ${shown(token)}` }, shown(token)),
        layers.map((layer) => field(layer, at))))));

  function choose(layer, at, focus) {
    const before = table.querySelector('[aria-selected="true"]'), next = table.querySelector(`[data-field="${layer} ${at}"]`);
    if (!next) return;
    if (before) { before.removeAttribute('aria-selected'); before.tabIndex = -1; }
    Object.assign(layering, { layer, at });
    next.setAttribute('aria-selected', 'true');
    next.tabIndex = 0;
    if (focus) next.focus();
    put(readout, layerReadout(answer, cell(layer, at), every.rights, figure));
  }

  table.addEventListener('click', (event) => {
    const own = event.target.closest('[data-field]');
    if (own) choose(...own.dataset.field.split(' ').map(Number), true);
  });
  table.addEventListener('keydown', (event) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [0, 0];
    if (!(down || right)) return;
    event.preventDefault();
    if (one) choose(layering.layer + down, 0, true);
    else choose(layering.layer + right, layering.at + down, true);
  });

  put(root,
    el('p', { id: 'how' }, LAYER_HOWS[answer.how]),
    el('div', { class: 'row after' },
      answer.sides.length > 1 ? choice('of the', answer.sides.map((side) => [side, side]), answer.side, (side) => { Object.assign(layering, { side, start: 0, at: 0, layer: -1 }); show('#side'); }, { id: 'side' }) : null,
      answer.how === 'number' ? null : tick('numbers', layering.numbers, (on) => { layering.numbers = on; drawLayerTable(root, answer, show); root.querySelector('#numbers').focus(); }, { id: 'numbers' }),
      answer.count > answer.page ? layerPages(answer, show) : null),
    el('div', { class: 'beside' }, el('div', { class: 'scroll lens' }, table), readout));
  choose(layering.layer, layering.at);
}

function layerPages(answer, show) {
  const turn = (start, id, name) => el('button', {
    type: 'button', class: 'quiet', id, disabled: start < 0 || start >= answer.count,
    on: { click: () => { Object.assign(layering, { start, at: 0 }); show(`#${id}:enabled`); } },
  }, name);
  return el('span', { class: 'row' },
    turn(answer.start - answer.page, 'earlier', 'Earlier'),
    el('span', { id: 'span', class: 'number' }, `positions ${answer.start + 1} to ${Math.min(answer.start + answer.page, answer.count)} of ${answer.count.toLocaleString('en')}`),
    turn(answer.start + answer.page, 'later', 'Later'));
}

function layerReadout(answer, own, rights, figure) {
  const { layer, at } = layering, places = answer.tokens.length;
  const place = answer.tokens[at] === '' ? '' : `, at “${shown(answer.tokens[at])}”`;
  const line = (name, share, data) => el('tr', data,
    el('td', {}, name), el('td', { class: 'number' }, figure(share)), el('td', { class: 'bars' }, answer.how === 'number' ? null : bar(Math.max(0, share))));
  const right = answer.rights[at];
  const knows = right === null ? null : [
    el('h3', {}, answer.how === 'next' ? `What follows is “${shown(right)}”` : `The token itself, “${shown(right)}”`),
    el('table', { id: 'right', class: 'shares' },
      el('thead', {}, el('tr', {}, el('th', {}, ''), el('th', { class: 'number' }, 'rank'), el('th', { class: 'number' }, answer.how === 'nearest' ? 'cosine' : 'share'), el('th', {}, ''))),
      el('tbody', {}, answer.ranks.map((ranks, i) => el('tr', { 'data-layer': i, class: i === layer ? 'chosen' : null },
        el('td', {}, layerName(i)), el('td', { class: 'number' }, ranks[at].toLocaleString('en')),
        el('td', { class: 'number' }, figure(rights[i * places + at])), el('td', { class: 'bars' }, bar(Math.max(0, rights[i * places + at]))))))),
  ];
  return [
    el('h3', {}, `${layer === 0 ? 'The embedding' : `After layer ${layer}`}${place}`),
    el('table', { id: 'candidates', class: 'shares' }, el('tbody', {}, own.names.map((name, i) => line(answer.how === 'number' ? 'number' : shown(name), own.shares[i], { 'data-rank': i + 1 })))),
    knows,
  ];
}
