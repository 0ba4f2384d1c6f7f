// Canvases: many numbers as coloured fields.

/** 511 colours of -1 .. 1, to draw many fields quickly. */
function palette() {
  const own = scale(), table = new Uint8ClampedArray(511 * 4);
  for (let i = 0; i < 511; i++) table.set([...colour((i - 255) / 255, own), 255], 4 * i);
  return table;
}

/** Values [rows, columns], each from -1 to 1, as an image of a pixel for each. */
function image(values, rows, columns) {
  const table = palette(), made = new ImageData(columns, rows), data = new Uint32Array(made.data.buffer);
  const colours = new Uint32Array(table.buffer);
  for (let i = 0; i < data.length; i++) {
    const value = values[i];
    data[i] = colours[value >= 1 ? 510 : value <= -1 ? 0 : Math.round(255 + 255 * (value || 0))];
  }
  const canvas = document.createElement('canvas');
  canvas.width = columns; canvas.height = rows;
  canvas.getContext('2d').putImageData(made, 0, 0);
  return canvas;
}

/** Fewer rows and columns, where there are more than there is room for: the largest of each field stays. */
function pooled(values, rows, columns, mostRows, mostColumns) {
  const r = Math.min(rows, Math.max(1, mostRows)), c = Math.min(columns, Math.max(1, mostColumns));
  if (r === rows && c === columns) return { values, rows, columns };
  const found = new Float32Array(r * c);
  const column = Uint16Array.from({ length: columns }, (_, j) => Math.floor((j * c) / columns));
  for (let i = 0; i < rows; i++) {
    const to = Math.floor((i * r) / rows) * c, from = i * columns;
    for (let j = 0; j < columns; j++) {
      const value = values[from + j], at = to + column[j];
      if (Math.abs(value) > Math.abs(found[at])) found[at] = value;
    }
  }
  return { values: found, rows: r, columns: c };
}

/** A canvas of so many CSS pixels, sharp on any screen; draws by `paint(context, width, height)`. */
function sized(canvas, width, height, paint) {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * ratio)), h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  paint(context, width, height);
}

/** A strip of coloured fields: a vector at a glance. `most` is the size of the deepest colour. */
function strip(values, most, name) {
  const canvas = image(Float32Array.from(values, (each) => each / most), 1, values.length);
  canvas.className = 'strip';
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', name);
  return canvas;
}

function largest(values) {
  let most = 0;
  for (const each of values) most = Math.max(most, Math.abs(each));
  return most || 1;
}
