// Shares from 0 to 1: chips, tables with bars, and lines of buttons.

/** The colour behind a share from 0 to 1: pale enough for the ink on it, light and dark. */
function shareShade(share) { return css(colour(0.45 * Math.max(0, Math.min(1, share)))); }

/** A share as one reads it: never 0 where it is only small. */
function sharePercent(share) { return share > 0 && share < 0.0005 ? '<0.1 %' : percent(share); }

/** A probability, also one that is nearly none. */
const probable = (share) => (share >= 0.001 ? percent(share) : share >= 1e-5 ? `${(100 * share).toPrecision(1)} %` : 'below 0.001 %');

/** A token or a word, shaded by a share, with a note under it; a button where it can be chosen. */
function shareChip({ name, note, share, special, pressed, label, data, click }) {
  return el(click ? 'button' : 'span', {
    type: click ? 'button' : null, class: special ? 'token chip special' : 'token chip', title: label, ...data,
    'aria-pressed': pressed === undefined ? null : String(pressed), style: { background: shareShade(share) },
    on: click ? { click } : {},
  }, el('span', {}, shown(name)), note ? el('small', { class: 'number' }, note) : null);
}

/** Rows of { name, share, data, closed }, with bars; a name is a button where it can be picked. */
function shareTable(rows, pick, id) {
  return el('table', { id, class: 'shares' }, el('tbody', {}, rows.map((row) => el('tr', row.data || {},
    el('td', {}, pick && !row.closed
      ? el('button', { type: 'button', class: 'quiet pick', on: { click: () => pick(row) } }, shown(row.name))
      : el('span', { class: row.closed ? 'faint' : '' }, shown(row.name))),
    el('td', { class: 'number' }, sharePercent(row.share)),
    el('td', { class: 'bars' }, bar(row.share))))));
}

/** One stop for the tab key in a line of buttons; arrows move between them. */
function shareArrows(box, chosen = 0) {
  const all = () => [...box.querySelectorAll('button')];
  all().forEach((button, i) => { button.tabIndex = i === Math.max(0, chosen) ? 0 : -1; });
  box.addEventListener('keydown', (event) => {
    const buttons = all(), at = buttons.indexOf(document.activeElement);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (at < 0 || to === undefined || !buttons[to]) return;
    event.preventDefault();
    buttons[at].tabIndex = -1;
    buttons[to].tabIndex = 0;
    buttons[to].focus();
  });
  return box;
}
