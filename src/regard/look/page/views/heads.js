// Heads: all of them small, one of them large, as lines between tokens or as a matrix.

view({
  name: 'heads',
  title: 'Heads',
  help: 'What each attention head looks at. Choose one among the small pictures (arrow keys move), or slide through the layers. Rows look, columns are looked at.',
  fits: (own) => Object.keys(own.places).length > 0,
  draw: (root) => withText(root, drawHeads),
});

async function drawHeads(root, found) {
  const places = found.places;
  clampHead(places);
  const grid = el('div', { class: 'thumbs' });
  const controls = el('div', {});
  const stage = el('div', { class: 'stage', tabindex: 0, role: 'group', 'aria-label': 'The head, large. Up and down choose a token.' });
  const canvas = el('canvas', { id: 'large' });
  const readout = el('div', { id: 'readout', 'aria-live': 'polite' });
  stage.append(canvas);
  let shown = null; // what is drawn: units, weights, and how the canvas is laid out

  function drawControls() {
    put(controls, headControls(places, (whole) => { if (whole) { drawGrid(); drawControls(); } change(); }),
      el('div', { class: 'row' },
        choice('as', [['lines', 'lines'], ['matrix', 'a matrix']], state.mode, (mode) => { state.mode = mode; change(); }, { id: 'mode' }),
        tick('whole words', state.words, (on) => { state.words = on; state.query = 0; change(); }, { id: 'words' }),
        tick('special tokens', state.specials, (on) => { state.specials = on; state.query = 0; change(); }, { id: 'specials' })));
  }

  function drawGrid() {
    const place = places[state.place];
    const [rows, columns] = place.size;
    const every = numbers(place.thumbs);
    const most = Math.max(...place.heads);
    grid.style.gridTemplateColumns = `auto repeat(${most}, minmax(0, 56px))`;
    const cells = [el('span', {})];
    for (let head = 0; head < most; head++) cells.push(el('span', { class: 'name top' }, String(head + 1)));
    let at = 0;
    place.heads.forEach((heads, layer) => {
      cells.push(el('span', { class: 'name' }, String(layer + 1)));
      for (let head = 0; head < most; head++) {
        if (head >= heads) { cells.push(el('span', {})); continue; }
        const part = every.subarray(at * rows * columns, (at + 1) * rows * columns);
        at += 1;
        cells.push(el('button', {
          type: 'button', 'data-head': `${layer} ${head}`, 'aria-label': `layer ${layer + 1}, head ${head + 1}`,
          on: { click: () => { state.layer = layer; state.head = head; drawControls(); change(); } },
        }, image(part, rows, columns)));
      }
    });
    put(grid, cells);
  }

  grid.addEventListener('keydown', (event) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [0, 0];
    const next = grid.querySelector(`[data-head="${state.layer + down} ${state.head + right}"]`);
    if (!(down || right) || !next) return;
    event.preventDefault();
    next.focus();
    next.click();
  });

  function mark() {
    for (const button of grid.querySelectorAll('button')) {
      const chosen = button.dataset.head === `${state.layer} ${state.head}`;
      button.setAttribute('aria-pressed', String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    }
  }

  const asked = (layer) => ({ ...given(), place: state.place, layer, head: state.head });

  async function change() {
    clampHead(places);
    mark();
    remember();
    const key = JSON.stringify([asked(state.layer), state.words, state.specials]);
    change.latest = key;
    await trying(async () => {
      const answer = await ask('head', asked(state.layer));
      if (change.latest !== key || !root.isConnected) return; // the slider has moved on
      shown = headShown(found, answer);
      paint();
      // The neighbours are on their way before the slider gets there.
      for (const near of [state.layer + 1, state.layer - 1]) {
        const heads = places[state.place].heads;
        if (near in heads && state.head < heads[near]) ask('head', asked(near)).catch(() => {});
      }
    });
  }

  function paint() {
    if (!shown) return;
    state.query = Math.max(0, Math.min(state.query, shown.rows.length - 1));
    (state.mode === 'matrix' ? paintMatrix : paintLines)(stage, canvas, shown);
    put(readout, headReadout(shown, found));
    stage.dataset.drawn = `${state.place} ${state.layer} ${state.head}`;
  }

  stage.addEventListener('scroll', () => { if (shown && state.mode === 'lines') paintLines(stage, canvas, shown); });
  const pick = (event) => {
    const row = shown && shown.rowAt && shown.rowAt(event);
    if (row === null || row === undefined || row === state.query) return;
    state.query = row;
    paint();
  };
  stage.addEventListener('pointermove', pick);
  stage.addEventListener('pointerdown', pick);
  stage.addEventListener('keydown', (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -20, PageDown: 20 }[event.key];
    if (!step || !shown) return;
    event.preventDefault();
    state.query += step;
    paint();
    shown.reveal();
  });

  put(root, el('div', { class: 'split' },
    el('section', { 'aria-label': 'All heads' }, el('p', { class: 'faint' }, 'Layers go down, heads go across.'), grid),
    el('section', { 'aria-label': 'One head' }, controls, stage, readout)));
  drawControls();
  drawGrid();
  await change();
}

/** One head as asked for: tokens or words, with special tokens or without. */
function headShown(found, answer) {
  const place = found.places[state.place];
  const weights = numbers(answer.weights);
  const options = { words: state.words, specials: state.specials };
  const [rows, columns] = [place.queries, place.keys].map((side) => {
    const own = units(found.tokens[side], options);
    return own.length ? own : units(found.tokens[side], { words: false, specials: true });
  });
  const [queries, keys] = answer.shape;
  const plain = rows.length === queries && columns.length === keys;
  return { rows, columns, values: plain ? weights : merged(weights, keys, rows, columns) };
}

/** The heaviest columns of a row: [[column, weight], ...]. */
function heaviest(shown, row, count) {
  const width = shown.columns.length, own = shown.values.subarray(row * width, (row + 1) * width);
  const found = [];
  for (let j = 0; j < width; j++) {
    if (found.length < count || own[j] > found[found.length - 1][1]) {
      let at = found.length;
      while (at > 0 && found[at - 1][1] < own[j]) at -= 1;
      found.splice(at, 0, [j, own[j]]);
      if (found.length > count) found.pop();
    }
  }
  return found;
}

function headReadout(shown, found) {
  const row = shown.rows[state.query], width = shown.columns.length;
  let sum = 0;
  for (let j = 0; j < width; j++) sum += shown.values[state.query * width + j];
  const left = 1 - sum > 0.005 ? el('p', { class: 'faint' }, `${percent(1 - sum)} of its attention goes to special tokens, which are hidden.`) : null;
  return [
    el('h3', {}, `“${shown_(row)}” looks at`),
    el('table', {}, el('tbody', {}, heaviest(shown, state.query, 8).filter(([, weight]) => weight > 0).map(([j, weight]) =>
      el('tr', { 'data-column': j }, el('td', {}, shown_(shown.columns[j])), el('td', { class: 'number' }, fixed(weight)), el('td', { class: 'bars' }, bar(weight)))))),
    left,
  ];
}

const shown_ = (unit) => shown(unit.name);

const LINE = 24, FEW = 6, FONT = '15px system-ui, sans-serif';

/** Two columns of tokens, and a line for each of the heaviest weights of the rows in view. */
function paintLines(stage, canvas, shown) {
  const most = Math.max(shown.rows.length, shown.columns.length);
  const whole = most * LINE + 8;
  const height = Math.min(whole, Math.max(240, Math.round(0.75 * innerHeight) - 2));
  const width = stage.clientWidth;
  canvas.style.marginBottom = `${whole - height}px`; // a sheet as tall as the tokens; the canvas stays in view
  const top = Math.min(stage.scrollTop, whole - height);
  const side = Math.min(width * 0.36, 220), [left, right] = [side, width - side];
  const y = (i) => 4 + LINE * (i + 0.5) - top;
  const visible = (i) => y(i) > -LINE && y(i) < height + LINE;
  sized(canvas, width, height, (context) => {
    context.font = FONT;
    context.textBaseline = 'middle';
    const own = scale(), strong = css(own.steps[1]), chosen = colourOf('--other');
    for (let i = 0; i < shown.rows.length; i++) {
      if (i === state.query || !(visible(i) || shown.rows.length <= 80)) continue;
      for (const [j, weight] of heaviest(shown, i, FEW)) {
        if (weight < 0.02 || !(visible(i) || visible(j))) continue;
        context.globalAlpha = 0.06 + 0.5 * weight;
        drawLine(context, left, y(i), right, y(j), 0.5 + 3 * weight, strong);
      }
    }
    context.globalAlpha = 1;
    const looked = new Map(heaviest(shown, state.query, Math.min(40, shown.columns.length)));
    for (const [j, weight] of looked) {
      if (weight < 0.005) continue;
      context.globalAlpha = 0.25 + 0.75 * weight;
      drawLine(context, left, y(state.query), right, y(j), 1 + 4 * weight, chosen);
    }
    context.globalAlpha = 1;
    shown.columns.forEach((unit, j) => {
      if (!visible(j)) return;
      const weight = looked.get(j) || 0;
      if (weight >= 0.005) {
        context.globalAlpha = Math.min(0.85, 0.15 + weight);
        context.fillStyle = colourOf('--glow');
        context.fillRect(right, y(j) - LINE / 2 + 2, width - right, LINE - 4);
        context.globalAlpha = 1;
      }
      write(context, unit, right + 6, y(j), width - right - (weight >= 0.005 ? 58 : 10), 'left');
      if (weight >= 0.005) {
        context.textAlign = 'right';
        context.fillStyle = colourOf('--ink');
        context.fillText(percent(weight), width - 6, y(j));
      }
    });
    shown.rows.forEach((unit, i) => {
      if (!visible(i)) return;
      if (i === state.query) {
        context.fillStyle = colourOf('--glow');
        context.fillRect(0, y(i) - LINE / 2 + 2, left, LINE - 4);
      }
      write(context, unit, left - 6, y(i), left - 12, 'right');
    });
  });
  shown.rowAt = (event) => {
    const box = canvas.getBoundingClientRect();
    if (event.clientX - box.left > width / 2) return null;
    const row = Math.floor((event.clientY - box.top + top - 4) / LINE);
    return row >= 0 && row < shown.rows.length ? row : null;
  };
  shown.reveal = () => {
    if (y(state.query) < LINE || y(state.query) > height - LINE) stage.scrollTop = LINE * state.query - height / 2;
  };
}

function drawLine(context, x1, y1, x2, y2, width, colour) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(x1, y1);
  context.bezierCurveTo(x1 + (x2 - x1) / 2, y1, x1 + (x2 - x1) / 2, y2, x2, y2);
  context.stroke();
}

/** A token, shortened to the room it has. */
function write(context, unit, x, y, room, align) {
  let text = shown_(unit);
  context.fillStyle = colourOf(unit.special ? '--faint' : '--ink');
  context.textAlign = align;
  if (context.measureText(text).width > room) {
    while (text.length > 1 && context.measureText(`${text}…`).width > room) text = text.slice(0, -1);
    text += '…';
  }
  context.fillText(text, x, y);
}

/** The whole matrix; tokens are written beside it where they have room. */
function paintMatrix(stage, canvas, shown) {
  canvas.style.marginBottom = '0';
  const rows = shown.rows.length, columns = shown.columns.length, width = stage.clientWidth;
  const labelled = Math.max(rows, columns) <= 64;
  const label = labelled ? Math.min(110, width * 0.3) : 0;
  const cell = Math.min(28, (width - label) / columns);
  const height = label + cell * rows;
  stage.scrollTop = 0;
  sized(canvas, width, height, (context) => {
    const ratio = window.devicePixelRatio || 1;
    const few = pooled(shown.values, rows, columns, Math.floor(cell * rows * ratio), Math.floor(cell * columns * ratio));
    context.imageSmoothingEnabled = false;
    context.drawImage(image(few.values, few.rows, few.columns), label, label, cell * columns, cell * rows);
    context.font = `${Math.min(14, Math.max(9, cell - 3))}px system-ui, sans-serif`;
    context.textBaseline = 'middle';
    if (labelled && cell >= 9) {
      shown.rows.forEach((unit, i) => write(context, unit, label - 5, label + cell * (i + 0.5), label - 8, 'right'));
      shown.columns.forEach((unit, j) => {
        context.save();
        context.translate(label + cell * (j + 0.5), label - 5);
        context.rotate(-Math.PI / 2);
        write(context, unit, 0, 0, label - 8, 'left');
        context.restore();
      });
    }
    context.strokeStyle = colourOf('--other');
    context.lineWidth = 2;
    context.strokeRect(label, label + cell * state.query, cell * columns, Math.max(2, cell));
  });
  shown.rowAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top - label) / cell);
    return row >= 0 && row < rows ? row : null;
  };
  shown.reveal = () => {};
}
