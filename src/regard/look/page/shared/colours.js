// Colours. Magnitudes go from the paper to ink by brightness alone, signs from orange to blue:
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
