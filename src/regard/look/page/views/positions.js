// Positions: how a model tells where a token stands. Two formulas to play with, and the model's own numbers.

view({
  name: 'positions',
  title: 'Positions',
  help: 'How a token’s place becomes numbers, and how alike two places are. Point at a field, or move with the arrow keys, to read its number. Orange is below zero, blue above.',
  fits: () => true,
  draw: (root) => drawPositions(root),
});

const POSITIONS = {
  show: 'sinusoidal', measure: 'cosine', as: 'cosine', d: 128, N: 50, n: 10000, length: null,
  field: { row: 5, column: 3 }, pair: { row: 5, column: 10 }, bias: null,
};
const MOST_D = 512, MOST_N = 256, TURN = 2 * Math.PI;

function drawPositions(root) {
  const below = el('div', {});
  const { sides } = about;
  const kind = about.positions === 'alibi' ? 'ALiBi' : about.positions;
  const shows = [['sinusoidal', 'Sinusoidal formula'], ['rotary', 'Rotary formula'],
    ...sides.map((side) => [side, `${sides.length > 1 ? `This model’s ${side}` : 'This model'}: ${kind}`])];
  const draw = () => {
    for (const button of root.querySelectorAll('[data-show]')) button.setAttribute('aria-pressed', String(button.dataset.show === POSITIONS.show));
    say('');
    if (POSITIONS.show === 'sinusoidal') drawSinusoidal(below);
    else if (POSITIONS.show === 'rotary') drawRotaryFormula(below);
    else drawOwnPositions(below, POSITIONS.show);
  };
  put(root,
    el('div', { class: 'row positions-shows', role: 'group', 'aria-label': 'Which positions' }, shows.map(([show, name]) => el('button', {
      type: 'button', class: 'quiet', 'data-show': show, on: { click: () => { POSITIONS.show = show; draw(); } },
    }, name))),
    below);
  draw();
}

// The formulas

/** theta_i = n^(-2i/d): how far pair i turns from one position to the next. */
const turnsOf = (d, n) => Float64Array.from({ length: d / 2 }, (_, i) => n ** ((-2 * i) / d));

/** [N, N]: the sum over pairs of cos(distance theta_i), times `factor`. In both formulas two positions are as alike as
    this: sin a sin b + cos a cos b = cos(a - b). */
function likenessOfTurns(turns, N, factor) {
  const near = Float64Array.from({ length: N }, (_, distance) => factor * turns.reduce((sum, theta) => sum + Math.cos(distance * theta), 0));
  return Float64Array.from({ length: N * N }, (_, at) => near[Math.abs(Math.floor(at / N) - (at % N))]);
}

function formulaSliders(paint) {
  const base = slider('n', 1, 6, Math.log10(POSITIONS.n), (power) => {
    POSITIONS.n = Number((10 ** power).toPrecision(2));
    tell();
    paint();
  }, { id: 'positions-n', step: 0.05 });
  const tell = () => {
    base.querySelector('output').textContent = POSITIONS.n.toLocaleString('en');
    base.querySelector('input').setAttribute('aria-valuetext', String(POSITIONS.n));
  };
  tell();
  return [
    slider('d', 2, MOST_D, POSITIONS.d, (d) => { POSITIONS.d = d; paint(); }, { id: 'positions-d', step: 2 }),
    slider('N', 2, MOST_N, POSITIONS.N, (N) => { POSITIONS.N = N; paint(); }, { id: 'positions-N' }),
    base];
}

function drawSinusoidal(root) {
  const frame = positionsFrame('dimension');
  function paint() {
    const { d, N, n } = POSITIONS, turns = turnsOf(d, n), values = new Float64Array(N * d);
    for (let m = 0; m < N; m++) {
      turns.forEach((theta, i) => { values[m * d + 2 * i] = Math.sin(m * theta); values[m * d + 2 * i + 1] = Math.cos(m * theta); });
    }
    frame.paint({
      values, rows: N, columns: d, most: 1,
      likeness: (dot) => likenessOfTurns(turns, N, dot ? 1 : 2 / d),
      equation: (row, column) => {
        const even = column - (column % 2), name = column % 2 ? 'cos' : 'sin';
        return `PE(pos, 2i) = sin(pos / n^(2i/d)),   PE(pos, 2i+1) = cos(pos / n^(2i/d))\nd = ${d}, N = ${N}, n = ${n}:\n`
          + `PE(${row}, ${column}) = ${name}(${row} / ${n}^(${even}/${d})) = ${name}(${row} / ${(n ** (even / d)).toPrecision(5)}) = ${fixed(values[row * d + column], 4)}`;
      },
    });
  }
  put(root, el('div', { class: 'row' }, formulaSliders(paint), frame.measure), frame.root);
  paint();
}

function drawRotaryFormula(root) {
  drawAngles(root, formulaSliders, () => ({ turns: turnsOf(POSITIONS.d, POSITIONS.n), N: POSITIONS.N, stretch: 1 }),
    (i, theta) => `θ_${i} = n^(-2i/d) = ${POSITIONS.n}^(-${2 * i}/${POSITIONS.d}) = ${theta}`);
}

/** Rotary positions: of the formula, or a model's own. `now` gives them as they are at the moment. */
function drawAngles(root, controls, now, spell) {
  const frame = positionsFrame('pair');
  function paint() {
    const { turns, N, stretch } = now(), pairs = turns.length;
    const of = { cosine: Math.cos, sine: Math.sin, angle: (angle) => (angle - TURN * Math.round(angle / TURN)) / Math.PI }[POSITIONS.as];
    const values = new Float64Array(N * pairs);
    for (let m = 0; m < N; m++) for (let i = 0; i < pairs; i++) values[m * pairs + i] = of(m * turns[i]);
    frame.paint({
      values, rows: N, columns: pairs, most: 1, legend: POSITIONS.as === 'angle' ? ['-π', 'π'] : ['-1', '1'],
      likeness: (dot) => likenessOfTurns(turns, N, dot ? 2 * stretch ** 2 : 1 / pairs),
      equation: (row, column) => {
        const angle = row * turns[column];
        return `Pair i of queries and keys at position m is turned by m θ_i${stretch === 1 ? '' : `, and multiplied by ${fixed(stretch, 4)}`}.\n`
          + `${spell(column, turns[column].toPrecision(5))}\n`
          + `${row} θ_${column} = ${fixed(angle, 4)} = ${fixed(angle / TURN, 3)} turns:   cos ${fixed(Math.cos(angle), 4)},   sin ${fixed(Math.sin(angle), 4)}`;
      },
    });
  }
  put(root, el('div', { class: 'row' }, controls(paint),
    choice('Colours show', [['cosine', 'the cosine'], ['sine', 'the sine'], ['angle', 'the angle']], POSITIONS.as, (as) => { POSITIONS.as = as; paint(); }, { id: 'positions-as' }),
    frame.measure), frame.root,
  el('p', { class: 'faint' }, 'How alike: of a vector of ones, turned to both positions. Moving both on by the same step changes nothing; only their distance counts.'));
  paint();
}

// What the model has

async function drawOwnPositions(root, side) {
  const still = () => root.isConnected && POSITIONS.show === side;
  put(root);
  await trying(async () => {
    const first = await ask('positions', { side });
    if (!still()) return;
    if (first.has === 'nothing') { put(root, el('p', { id: 'positions-none' }, first.why)); return; }
    const held = { own: first, length: first.length };
    let paint = () => {}, asking = false;
    const reset = () => { range.querySelector('input').value = held.length; range.querySelector('output').textContent = held.length; };
    /** Fewer are cut from what is here; for more there is a question, one at a time. */
    async function change(length) {
      POSITIONS.length = held.length = length;
      if (asking) return;
      asking = true;
      while (first.has !== 'angles' && held.length > held.own.length) {
        const found = await trying(async () => { held.own = await ask('positions', { side, length: held.length }); }, 'Asking …');
        if (!found) { held.length = held.own.length; POSITIONS.length = null; reset(); }
      }
      asking = false;
      if (still()) paint();
    }
    const most = first.most, range = slider('N', Math.min(2, most), most, Math.min(POSITIONS.length || first.length, most), change, { id: 'positions-length' });
    const body = el('div', {});
    const [name, detail] = first.title.split(': ');
    put(root, el('h2', {}, name), first.has === 'rows' ? null : el('p', { class: 'faint' }, `${detail[0].toUpperCase()}${detail.slice(1)}.`), body);
    paint = { angles: drawOwnAngles, biases: drawBiases, rows: drawOwnRows }[first.has](body, range, held);
    if (POSITIONS.length) change(Math.min(POSITIONS.length, most));
  });
}

function drawOwnAngles(root, length, held) {
  const turns = Float64Array.from(held.own.frequencies);
  let paint;
  drawAngles(root, (own) => { paint = own; return length; }, () => ({ turns, N: held.length, stretch: held.own.stretch }), (i, theta) => `θ_${i} = ${theta}`);
  return paint;
}

function drawOwnRows(root, length, held) {
  const frame = positionsFrame('dimension');
  const note = el('p', { class: 'faint' });
  function paint() {
    const { own } = held, N = Math.min(held.length, own.length), width = own.width;
    const values = numbers(own.rows).subarray(0, N * width), top = largest(values);
    const ordered = Float32Array.from(values, Math.abs).sort();
    const most = Math.min(top, 1.5 * ordered[Math.floor(0.99 * (ordered.length - 1))]) || top;
    note.textContent = `${N} positions of ${width} numbers${most < top ? `; a few are larger than the deepest colour, up to ${fixed(top, 3)}` : ''}.`;
    frame.paint({
      values, rows: N, columns: width, most, mean: own.kind !== 'sinusoidal',
      likeness: (dot) => likenessOfRows(values, N, width, dot),
      equation: (row, column) => `position ${row}, dimension ${column}: ${fixed(values[row * width + column], 4)}`,
    });
  }
  put(root, el('div', { class: 'row' }, length, frame.measure), note, frame.root);
  paint();
  return paint;
}

function likenessOfRows(values, N, width, dot) {
  const found = new Float64Array(N * N);
  for (let m = 0; m < N; m++) {
    for (let n = 0; n <= m; n++) {
      let sum = 0;
      for (let i = 0, a = m * width, b = n * width; i < width; i++) sum += values[a + i] * values[b + i];
      found[m * N + n] = found[n * N + m] = sum;
    }
  }
  if (dot) return found;
  const sizes = Float64Array.from({ length: N }, (_, m) => Math.sqrt(found[m * N + m]) || 1);
  return found.map((sum, at) => sum / (sizes[Math.floor(at / N)] * sizes[at % N]));
}

function drawBiases(root, length, held) {
  const map = heatMap('positions-biases', 'What heads add to their scores. Arrow keys move.', 'head', 'distance of the key from the query', (at) => { POSITIONS.bias = at; point(); });
  const legend = el('div', { class: 'positions-legend' }), lines = el('canvas', { role: 'img', 'aria-label': 'What each head adds, by distance' });
  const readout = el('p', { class: 'equation', id: 'positions-readout', 'aria-live': 'polite' });
  let shown;
  function paint() {
    const { own } = held, N = Math.min(held.length, own.length), every = numbers(own.values);
    const whole = own.last - own.first + 1, first = 1 - N, columns = own.last > 0 ? 2 * N - 1 : N;
    const values = new Float64Array(own.heads.length * columns);
    own.heads.forEach((_, head) => values.set(every.subarray(head * whole + first - own.first, head * whole + first - own.first + columns), head * columns));
    const kept = POSITIONS.bias || { row: 0, column: N - 1 };
    POSITIONS.bias = { row: kept.row, column: POSITIONS.bias && shown ? kept.column + first - shown.first : kept.column };
    shown = { values, rows: own.heads.length, columns, most: largest(values), first, names: own.heads };
    put(legend, positionsLegend(fixed(-shown.most, 2), fixed(shown.most, 2)));
    point();
  }
  function point() {
    const { row, column } = POSITIONS.bias = withinMap(POSITIONS.bias, shown);
    map.paint(shown, POSITIONS.bias);
    const { values, columns, first, names } = shown;
    const line = (head) => values.subarray(head * columns, (head + 1) * columns);
    readout.textContent = `${names[row]}: a key ${distanceInWords(first + column)} gets ${fixed(values[row * columns + column], 4)}`;
    plotLines(lines, {
      count: columns, first, xName: 'distance of the key from the query', yName: 'added to the score', at: column,
      lines: [...names.map((_, head) => ({ values: line(head), colour: '--faint', alpha: 0.45, width: 1 })), { values: line(row), colour: '--mark', width: 2.5 }],
    });
  }
  put(root, el('div', { class: 'row' }, length), readout, el('div', { class: 'positions-pair' },
    el('section', {}, el('h3', {}, 'Each head is a row'), map.root, legend),
    el('section', {}, el('h3', {}, 'The same as lines; the chosen head is the thick one'), lines)));
  paint();
  return paint;
}

function distanceInWords(distance) {
  if (distance === 0) return 'at the query itself';
  return `${Math.abs(distance)} ${distance < 0 ? 'before' : 'after'} the query`;
}

// Parts

const withinMap = ({ row, column }, { rows, columns }) => ({ row: Math.max(0, Math.min(row, rows - 1)), column: Math.max(0, Math.min(column, columns - 1)) });

function positionsLegend(low, high) {
  const fields = Float32Array.from({ length: 61 }, (_, i) => (i - 30) / 30);
  return [el('span', { class: 'number' }, low), strip(fields, 1, `colours from ${low} to ${high}`), el('span', { class: 'number' }, high)];
}

/** Vectors of positions beside how alike they are. `paint` takes what is new; pointing repaints cursors and numbers. */
function positionsFrame(columnName) {
  const equation = el('p', { class: 'equation', id: 'positions-equation', 'aria-live': 'polite' });
  const readout = el('p', { id: 'positions-likeness', class: 'number', 'aria-live': 'polite' });
  const fields = heatMap('positions-fields', `A row for each position. Arrow keys move.`, 'position', columnName, (at) => { POSITIONS.field = at; point(); });
  const pairs = heatMap('positions-pairs', 'How alike two positions are. Arrow keys move.', 'position', 'position', (at) => { POSITIONS.pair = at; point(); });
  const legends = [el('div', { class: 'positions-legend' }), el('div', { class: 'positions-legend' })];
  const curve = el('canvas', { role: 'img', 'aria-label': 'How alike two positions are, by their distance' });
  const names = [el('h3', {}), el('h3', {})];
  const note = el('p', { class: 'faint' });
  let shown = null, likeness = null, means = null;
  const word = () => (POSITIONS.measure === 'dot' ? 'dot product' : 'cosine');

  function compare() {
    const N = shown.rows, dot = POSITIONS.measure === 'dot', values = shown.likeness(dot);
    likeness = { values, rows: N, columns: N, most: dot ? largest(values) : 1 };
    means = new Float64Array(N);
    for (let m = 0; m < N; m++) for (let n = 0; n <= m; n++) means[m - n] += values[m * N + n] / (N - m + n);
    names[0].textContent = `How alike two positions are: ${word()}`;
    names[1].textContent = `How alike, by distance${shown.mean ? ', on average' : ''}`;
    put(legends[0], positionsLegend(...(shown.legend || [fixed(-shown.most, shown.most === 1 ? 0 : 3), fixed(shown.most, shown.most === 1 ? 0 : 3)])));
    put(legends[1], positionsLegend(...[-1, 1].map((sign) => fixed(sign * likeness.most, dot ? 2 : 0))));
    point();
  }

  function point() {
    const field = POSITIONS.field = withinMap(POSITIONS.field, shown), pair = POSITIONS.pair = withinMap(POSITIONS.pair, likeness);
    const shared = fields.paint(shown, field);
    pairs.paint(likeness, pair);
    note.textContent = shared ? 'More numbers than there is room for: a field shows the largest of several.' : '';
    equation.textContent = shown.equation(field.row, field.column);
    const distance = Math.abs(pair.row - pair.column);
    readout.textContent = `Positions ${pair.row} and ${pair.column}, ${distance} apart: ${word()} ${fixed(likeness.values[pair.row * shown.rows + pair.column], 3)}`;
    plotLines(curve, {
      count: means.length, xName: 'distance', yName: word(), at: distance, height: 170, lines: [{ values: means, colour: '--mark', width: 2 }],
    });
  }

  const root = el('div', {}, equation, el('div', { class: 'positions-pair' },
    el('section', {}, el('h3', {}, `Each position is a row, each ${columnName} a column`), fields.root, legends[0], note, names[1], curve),
    el('section', {}, names[0], pairs.root, legends[1], readout)));
  return {
    root,
    measure: choice('Alike by', [['cosine', 'cosine'], ['dot', 'dot product']], POSITIONS.measure, (measure) => { POSITIONS.measure = measure; compare(); }, { id: 'positions-measure' }),
    paint: (own) => { shown = own; compare(); },
  };
}
