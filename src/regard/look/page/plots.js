// Pictures of numbers: fields in colours with a cursor, and lines with their names at their ends.

const PLOT_FONT = '12px system-ui, sans-serif';

/** Places among so many numbers, of which `first` is the first: round ones, with `least` pixels for each. */
function ticksOf(count, room, least, first = 0) {
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((step) => (room / count) * step >= least) || count;
  return Array.from({ length: count }, (_, i) => i).filter((i) => (first + i) % every === 0);
}

/** Fields in colours, with a cursor that pointer and keys move. `paint` says whether fields had to be put together. */
function heatMap(id, label, rowName, columnName, moved) {
  const canvas = el('canvas', { id }), root = el('div', { class: 'positions-map', tabindex: 0, role: 'group', 'aria-label': label }, canvas);
  let last = null;

  function paint(shown, cursor) {
    const { rows, columns } = shown, width = root.clientWidth, top = 20, bottom = 36;
    const left = shown.names ? 112 : 38, across = width - left - 14;
    const down = rowName === columnName ? Math.min(across, 400) : Math.min(400, Math.max(240, rows * 7));
    const wide = rowName === columnName ? down : across;
    const [w, h] = [wide / columns, down / rows], ratio = window.devicePixelRatio || 1;
    const few = pooled(shown.values.map((each) => each / shown.most), rows, columns, Math.floor(down * ratio), Math.floor(wide * ratio));
    sized(canvas, width, top + down + bottom, (context) => {
      context.imageSmoothingEnabled = false;
      context.drawImage(image(few.values, few.rows, few.columns), left, top, wide, down);
      context.strokeStyle = colourOf('--line');
      context.strokeRect(left - 0.5, top - 0.5, wide + 1, down + 1);
      context.font = PLOT_FONT;
      context.fillStyle = colourOf('--faint');
      context.textBaseline = 'alphabetic';
      context.textAlign = 'left';
      context.fillText(`${rowName} ↓`, 0, 12);
      context.textAlign = 'right';
      context.fillText(`${columnName} →`, left + wide, top + down + 31);
      context.textBaseline = 'middle';
      for (const i of ticksOf(rows, down, 18)) context.fillText(shown.names ? shown.names[i] : String(i), left - 5, top + (i + 0.5) * h);
      context.textAlign = 'center';
      const first = shown.first || 0;
      for (const j of ticksOf(columns, wide, 34, first)) context.fillText(String(first + j), left + (j + 0.5) * w, top + down + 10);
      const [cw, ch] = [Math.max(6, w), Math.max(6, h)];
      context.lineWidth = 2;
      context.strokeStyle = colourOf('--paper');
      const [x, y] = [left + (cursor.column + 0.5) * w - cw / 2, top + (cursor.row + 0.5) * h - ch / 2];
      context.strokeRect(x - 2, y - 2, cw + 4, ch + 4);
      context.strokeStyle = colourOf('--ink');
      context.strokeRect(x - 0.5, y - 0.5, cw + 1, ch + 1);
    });
    last = { rows, columns, cursor, left, top, w, h };
    return few.rows < rows || few.columns < columns;
  }

  function point(event) {
    if (!last) return;
    const box = canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top - last.top) / last.h), column = Math.floor((event.clientX - box.left - last.left) / last.w);
    if (row < 0 || column < 0 || row >= last.rows || column >= last.columns) return;
    if (row !== last.cursor.row || column !== last.cursor.column) moved({ row, column });
  }
  root.addEventListener('pointermove', point);
  root.addEventListener('pointerdown', point);
  root.addEventListener('keydown', (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-10, 0], PageDown: [10, 0], Home: [0, -1e6], End: [0, 1e6] }[event.key];
    if (!step || !last) return;
    event.preventDefault();
    moved(withinMap({ row: last.cursor.row + step[0], column: last.cursor.column + step[1] }, last));
  });
  return { root, paint };
}

/** Round numbers between two. */
function levelsOf(low, high) {
  const span = high - low || 1, ten = 10 ** Math.floor(Math.log10(span / 3)), step = [1, 2, 5, 10].map((each) => each * ten).find((each) => span / each <= 5);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k++) found.push([k * step, fixed(k * step, digits)]);
  return found;
}

/** Lines over so many numbers from `first` on, with names at their ends, where they have one. `at` is a place to point out. */
function plotLines(canvas, { count, first = 0, xLabel = String, xName, yName, lines, at, height = 300 }) {
  const width = canvas.parentElement.clientWidth, named = lines.some((line) => line.name);
  const [left, right, top, bottom] = [46, named ? 52 : 12, 24, 36], wide = width - left - right, down = height - top - bottom;
  let [low, high] = [0, 0];
  for (const line of lines) for (const each of line.values) { low = Math.min(low, each); high = Math.max(high, each); }
  if (low === high) high = low + 1;
  const x = (i) => left + (count > 1 ? (i / (count - 1)) * wide : wide / 2), y = (value) => top + ((high - value) / (high - low)) * down;
  sized(canvas, width, height, (context) => {
    context.font = PLOT_FONT;
    context.fillStyle = colourOf('--faint');
    context.textBaseline = 'alphabetic';
    context.textAlign = 'left';
    context.fillText(yName, 0, 12);
    context.textAlign = 'right';
    context.fillText(`${xName} →`, width - right, height - 6);
    context.textBaseline = 'middle';
    for (const [level, text] of levelsOf(low, high)) {
      context.fillText(text, left - 6, y(level));
      context.strokeStyle = colourOf('--line');
      context.lineWidth = Math.abs(level) < 1e-9 ? 1.5 : 0.5;
      context.beginPath(); context.moveTo(left, y(level)); context.lineTo(width - right, y(level)); context.stroke();
    }
    context.textAlign = 'center';
    for (const i of ticksOf(count, wide, 34, first)) context.fillText(xLabel(first + i), x(i), top + down + 12);
    if (at !== undefined) {
      context.strokeStyle = colourOf('--ink');
      context.lineWidth = 1;
      context.beginPath(); context.moveTo(x(at), top); context.lineTo(x(at), top + down); context.stroke();
    }
    for (const line of lines) {
      context.strokeStyle = colourOf(line.colour);
      context.globalAlpha = line.alpha || 1;
      context.lineWidth = line.width;
      context.setLineDash(line.dash || []);
      context.beginPath();
      line.values.forEach((value, i) => (i ? context.lineTo(x(i), y(value)) : context.moveTo(x(i), y(value))));
      context.stroke();
    }
    context.globalAlpha = 1;
    context.setLineDash([]);
    nameLines(context, lines.filter((line) => line.name).map((line) => ({ line, end: y(line.values[count - 1]) })), x(count - 1), top, top + down);
  });
}

/** Names at the ends of lines, moved apart where they would lie on one another. */
function nameLines(context, ends, x, top, bottom) {
  const gap = Math.min(15, (bottom - top) / Math.max(1, ends.length - 1));
  ends.sort((a, b) => a.end - b.end);
  let free = -Infinity;
  for (const each of ends) { each.y = Math.max(each.end, free); free = each.y + gap; }
  free = bottom + 4;
  for (const each of [...ends].reverse()) { each.y = Math.min(each.y, free); free = each.y - gap; }
  context.textAlign = 'left';
  for (const { line, end, y } of ends) {
    context.strokeStyle = context.fillStyle = colourOf(line.colour);
    context.lineWidth = 1;
    context.beginPath(); context.moveTo(x + 1, end); context.lineTo(x + 12, y); context.stroke();
    context.fillText(line.name, x + 15, y);
  }
}
