// Colours and canvases. Magnitudes go from the paper to ink by brightness alone, signs from orange to blue:
// both can be told apart without red and green, and in print.

const SCALES = {
  light: { low: [255, 255, 255], steps: [[198, 219, 239], [66, 146, 198], [8, 48, 107]], minus: [[253, 208, 162], [217, 95, 2], [127, 39, 4]] },
  dark: { low: [20, 23, 26], steps: [[24, 66, 106], [66, 150, 210], [214, 236, 255]], minus: [[92, 52, 12], [217, 120, 30], [255, 220, 170]] },
};

const isDark = () => document.documentElement.classList.contains('dark');
const scale = () => (isDark() ? SCALES.dark : SCALES.light);
const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The colour of a number from -1 to 1, as [red, green, blue]. */
function colour(value, own = scale()) {
  const stops = [own.low, ...(value < 0 ? own.minus : own.steps)];
  const at = Math.min(1, Math.abs(value)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at)), part = at - low;
  return stops[low].map((from, i) => Math.round(from + (stops[low + 1][i] - from) * part));
}

const css = ([r, g, b]) => `rgb(${r},${g},${b})`;

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
