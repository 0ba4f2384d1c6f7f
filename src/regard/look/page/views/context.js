// Words in context: one word in several sentences, and how its vectors part, layer by layer.

view({
  name: 'context',
  title: 'Words in context',
  help: 'One word in several sentences. Below the first layer it is nearly the same vector everywhere; each layer mixes in more of its sentence. The distance of two vectors is 1 - cosine: 0 for the same direction.',
  fits: (own) => own.views.includes('context'),
  draw: (root) => drawContext(root),
});

const CONTEXT = { word: null, sentences: '', layer: null, pair: 0 };
const CONTEXT_COLOURS = ['--mark', '--other', '--ink'], CONTEXT_DASHES = [[], [8, 4], [2, 3], [9, 3, 2, 3]], LABELLED = 10;

async function drawContext(root) {
  await trying(async () => {
    const { examples, most } = await ask('context_examples');
    if (!root.isConnected) return;
    const below = el('div', {});
    const word = el('input', { type: 'text', id: 'context-word', size: 16, spellcheck: 'false', autocomplete: 'off' });
    const sentences = el('textarea', { id: 'context-sentences', dir: 'auto', rows: 4, spellcheck: 'false', maxlength: about.characters });
    const choose = (example) => {
      Object.assign(CONTEXT, { word: example.word, sentences: example.sentences.join('\n') });
      word.value = CONTEXT.word;
      sentences.value = CONTEXT.sentences;
      go();
    };
    word.addEventListener('input', () => { CONTEXT.word = word.value; });
    sentences.addEventListener('input', () => { CONTEXT.sentences = sentences.value; });

    let latest = null;
    async function go() {
      const given = latest = { word: word.value.trim(), sentences: sentences.value.split('\n').map((line) => line.trim()).filter((line) => line) };
      const wanted = () => root.isConnected && given === latest;
      const worked = await trying(async () => {
        const answer = await ask('context', given);
        if (wanted()) drawMoves(below, given, answer);
      }, 'Reading …', wanted);
      if (!worked && wanted()) put(below);
    }

    put(root, el('form', { on: { submit: (event) => { event.preventDefault(); go(); } } },
      el('div', { class: 'row' },
        el('label', {}, 'Word', word), el('button', { class: 'act', id: 'context-go' }, 'Compare'),
        el('span', { class: 'row' }, 'Examples:', examples.map((each) => el('button', { type: 'button', class: 'quiet', 'data-example': each.word, on: { click: () => choose(each) } }, each.word)))),
      el('label', { class: 'wide' }, `Sentences with it, one a line, ${most} at most`, sentences)),
    below);
    if (CONTEXT.word === null) choose(examples[0]);
    else { word.value = CONTEXT.word; sentences.value = CONTEXT.sentences; await go(); }
  });
}

function drawMoves(root, given, answer) {
  const { pairs, cosines, spans } = answer, count = given.sentences.length, layers = cosines.length;
  CONTEXT.layer = Math.max(0, Math.min(CONTEXT.layer ?? layers - 1, layers - 1));
  CONTEXT.pair = Math.min(CONTEXT.pair, pairs.length - 1);
  const last = cosines[layers - 1];
  const furthest = last.indexOf(Math.min(...last)), nearest = last.indexOf(Math.max(...last));
  const chart = el('canvas', { id: 'context-lines', role: 'img', 'aria-label': 'The distance of each pair of sentences, layer by layer; the table has the numbers' });
  const map = el('canvas', { id: 'context-map', role: 'img', 'aria-label': 'The word in each sentence as a point' });
  const table = el('div', { class: 'scroll' }), caption = el('p', { id: 'context-pair', 'aria-live': 'polite' }), mapped = el('p', { class: 'faint' });
  const heading = el('h3', {});
  const range = slider('Layer', 0, layers - 1, CONTEXT.layer, (layer) => { CONTEXT.layer = layer; paint(); }, { id: 'context-layer' });

  function pairLine(at) {
    const [one, other] = pairs[at], values = cosines.map((layer) => 1 - layer[at]), chosen = at === CONTEXT.pair;
    const labelled = pairs.length <= LABELLED || chosen || at === furthest || at === nearest;
    if (!labelled) return { values, colour: '--faint', alpha: 0.35, width: 1 };
    const style = pairs.length <= LABELLED ? at : chosen ? 0 : at === furthest ? 1 : 2;
    return {
      values, name: `${one + 1}–${other + 1}`, width: chosen ? 3.5 : 1.7,
      colour: CONTEXT_COLOURS[style % CONTEXT_COLOURS.length], dash: CONTEXT_DASHES[style % CONTEXT_DASHES.length],
    };
  }

  function paint() {
    const layer = CONTEXT.layer, [one, other] = pairs[CONTEXT.pair], cosine = cosines[layer][CONTEXT.pair];
    range.querySelector('output').textContent = layerName(layer);
    range.querySelector('input').setAttribute('aria-valuetext', layerName(layer));
    heading.textContent = `Cosines: ${layerName(layer)}`;
    caption.textContent = `“${answer.word}” in ${one + 1} and ${other + 1}, ${layerName(layer)}: cosine ${fixed(cosine)}, distance ${fixed(1 - cosine)}. `
      + `It was ${fixed(1 - cosines[0][CONTEXT.pair])} at the embedding and is ${fixed(1 - last[CONTEXT.pair])} at the end.`;
    plotLines(chart, {
      count: layers, xLabel: (i) => (i === 0 ? 'emb.' : String(i)), xName: 'layer', yName: 'distance, 1 - cosine', at: layer, height: innerWidth < 600 ? 300 : 420,
      lines: pairs.map((_, at) => pairLine(at)).sort((a, b) => a.width - b.width),
    });
    put(table, cosineTable(answer, count, layer, (at, name) => { CONTEXT.pair = at; paint(); table.querySelector(`[data-pair="${name}"]`).focus(); }));
    paintWordMap(map, answer.points, layer);
    mapped.textContent = `The plane in which this layer’s vectors, brought to length 1, differ most (PCA): ${percent(answer.shares[layer])} of their variance. `
      + 'Each layer is turned to lie as near as can be to the one above; the scale is the same in all. Grey lines show the way through the layers below.';
  }

  put(root,
    el('ol', { id: 'context-list' }, given.sentences.map((sentence, number) => {
      const characters = [...sentence], [start, end] = spans[number]; // characters are counted whole, as Python does
      const part = (from, to) => characters.slice(from, to).join('');
      return el('li', {}, part(0, start), el('mark', {}, part(start, end)), part(end));
    })),
    el('div', { class: 'row' }, range),
    caption,
    el('div', { class: 'split context-split' },
      el('section', {}, el('h3', {}, 'How far apart two sentences are'), chart,
        pairs.length > LABELLED ? el('p', { class: 'faint' }, 'Named: the chosen pair, and the furthest and the nearest at the end.') : null),
      el('section', {}, heading, table, el('h3', {}, 'Map'), map, mapped)));
  paint();
}

/** Numbers in fields; one of them chooses its pair. */
function cosineTable(answer, count, layer, pick) {
  const at = new Map(answer.pairs.map(([one, other], place) => [`${one} ${other}`, place]));
  const cell = (row, column) => {
    if (row === column) return el('td', { class: 'number faint' }, '1');
    const place = at.get(`${Math.min(row, column)} ${Math.max(row, column)}`), cosine = answer.cosines[layer][place];
    const shade = colour(cosine), [r, g, b] = shade.map((each) => (each / 255) ** 2.2), bright = 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18;
    return el('td', {}, el('button', {
      type: 'button', class: bright ? 'bright' : 'deep', 'data-pair': `${row + 1} ${column + 1}`, 'aria-label': `sentences ${row + 1} and ${column + 1}: cosine ${fixed(cosine)}`,
      'aria-pressed': String(place === CONTEXT.pair), style: { background: css(shade) }, on: { click: () => pick(place, `${row + 1} ${column + 1}`) },
    }, fixed(cosine)));
  };
  const every = Array.from({ length: count }, (_, i) => i);
  return el('table', { id: 'context-cosines' },
    el('thead', {}, el('tr', {}, el('th', {}), every.map((column) => el('th', { class: 'number', scope: 'col' }, String(column + 1))))),
    el('tbody', {}, every.map((row) => el('tr', {}, el('th', { scope: 'row' }, String(row + 1)), every.map((column) => cell(row, column))))));
}

/** The points of one layer, and the way that they came; points on one another share a name. */
function paintWordMap(canvas, points, layer) {
  const width = canvas.parentElement.clientWidth, height = Math.min(320, width), edge = 26;
  const most = largest(points.flat(2)), unit = (Math.min(width, height) / 2 - edge) / most;
  const place = ([x, y]) => [width / 2 + unit * x, height / 2 - unit * y];
  sized(canvas, width, height, (context) => {
    context.strokeStyle = colourOf('--line');
    context.strokeRect(0.5, 0.5, width - 1, height - 1);
    context.beginPath();
    context.moveTo(0, height / 2); context.lineTo(width, height / 2); context.moveTo(width / 2, 0); context.lineTo(width / 2, height);
    context.stroke();
    context.strokeStyle = colourOf('--faint');
    context.globalAlpha = 0.5;
    points[0].forEach((_, sentence) => {
      context.beginPath();
      for (let below = 0; below <= layer; below++) context[below ? 'lineTo' : 'moveTo'](...place(points[below][sentence]));
      context.stroke();
    });
    context.globalAlpha = 1;
    const groups = [];
    points[layer].forEach((own, sentence) => {
      const [x, y] = place(own), near = groups.find((each) => Math.hypot(each.x - x, each.y - y) < 14);
      context.fillStyle = colourOf('--mark');
      context.beginPath(); context.arc(x, y, 5, 0, TURN); context.fill();
      if (near) near.names.push(sentence + 1);
      else groups.push({ x, y, names: [sentence + 1] });
    });
    context.font = '600 15px system-ui, sans-serif';
    context.fillStyle = colourOf('--ink');
    context.textBaseline = 'middle';
    for (const { x, y, names } of groups) {
      const text = names.join(', '), right = x + 9 + context.measureText(text).width < width - 4;
      context.textAlign = right ? 'left' : 'right';
      context.fillText(text, right ? x + 9 : x - 9, y);
    }
  });
}
