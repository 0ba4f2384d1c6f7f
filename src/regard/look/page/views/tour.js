// Tour: one sentence on its way through the model, step by step.

view({
  name: 'tour',
  title: 'Tour',
  help: 'How this sentence goes through this model: each step with its equation and with the numbers that this model has there.',
  fits: () => true,
  draw: (root) => withText(root, drawTour),
});

const tourState = { text: null, step: 0, token: null };

async function drawTour(root) {
  const text = JSON.stringify(given());
  if (tourState.text !== text) Object.assign(tourState, { text, step: 0, token: null });
  const { token } = tourState, answer = await ask('tour', { ...given(), token });
  if (!root.isConnected || token !== tourState.token) return; // another token is on its way
  const steps = answer.steps;
  const body = el('section', { id: 'step', 'aria-live': 'polite' });
  const list = el('ol', { class: 'stations' }, steps.map((step, i) => el('li', {},
    el('button', { type: 'button', class: 'quiet', on: { click: () => go(i) } }, step.title))));
  const back = el('button', { type: 'button', class: 'quiet', on: { click: () => go(tourState.step - 1) } }, '← Back');
  const next = el('button', { type: 'button', class: 'act', id: 'next', on: { click: () => go(tourState.step + 1) } }, 'Next →');

  function go(i) {
    tourState.step = Math.max(0, Math.min(i, steps.length - 1));
    const step = steps[tourState.step];
    list.querySelectorAll('button').forEach((button, j) => {
      button.setAttribute('aria-pressed', String(j === tourState.step));
      if (j === tourState.step) button.setAttribute('aria-current', 'step');
      else button.removeAttribute('aria-current');
    });
    back.disabled = tourState.step === 0;
    next.disabled = tourState.step === steps.length - 1;
    put(body,
      el('h2', {}, `${tourState.step + 1}. ${step.title}`),
      el('p', {}, step.says),
      el('p', { class: 'equation' }, step.equation),
      step.shows.map((each) => TOUR_SHOWS[each.kind](each, pick)));
  }

  async function pick(token) {
    tourState.token = token;
    await trying(() => drawTour(root), 'Reading …');
  }

  root.onkeydown = (event) => {
    if (event.target.closest('textarea, input, select')) return;
    if (event.key === 'ArrowRight') go(tourState.step + 1);
    if (event.key === 'ArrowLeft') go(tourState.step - 1);
  };
  go(tourState.step);
  put(root, el('div', { class: 'tour' }, el('nav', { 'aria-label': 'Steps' }, list), el('div', {}, body, el('div', { class: 'row steps' }, back, next))));
}

const TOUR_SHOWS = {
  tokens: (each, pick) => el('div', { class: 'tokens' }, each.tokens.map((token, i) => el('button', {
    type: 'button', class: each.owners[i] < 0 ? 'token special' : 'token', 'aria-pressed': String(i === each.chosen),
    id: `tour-token-${i}`, disabled: recorded !== null, on: { click: () => pick(i) },
  }, shown(token), el('small', { class: 'faint' }, ` ${each.ids[i]}`)))),

  vector: (each) => {
    const values = numbers(each.values);
    const first = [...values.slice(0, 6)].map((value) => fixed(value, 3)).join(', ');
    return el('figure', { class: 'vector', 'data-name': each.name },
      el('figcaption', {}, el('b', {}, each.name), el('span', { class: 'faint' }, `${values.length.toLocaleString('en')} numbers, length ${fixed(Math.hypot(...values), 2)}`)),
      strip(values, largest(values), each.name),
      el('p', { class: 'number' }, `${first}${values.length > 6 ? ', …' : ''}`));
  },

  bars: (each) => {
    const most = Math.max(1e-9, ...each.rows.map((row) => Math.abs(row.value)));
    return el('table', { class: 'chart' }, el('caption', { class: 'faint' }, each.name), el('tbody', {}, each.rows.map((row) => el('tr', {},
      el('td', {}, shown(row.name)),
      el('td', { class: 'number' }, fixed(row.value, 3)),
      el('td', { class: 'bars' }, bar(row.value, Math.max(1, most))),
      row.remark ? el('td', { class: 'faint number' }, row.remark) : null))));
  },
};
