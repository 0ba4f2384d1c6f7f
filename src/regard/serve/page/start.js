// How the page begins: what is served is asked for, with a key if the service wants one.

/** Asks for a key; with one, the page begins anew. */
function wantKey() {
  if (document.getElementById('key')) return;
  const field = el('input', { type: 'password', id: 'key', autocomplete: 'off', required: true });
  const form = el('form', { class: 'key', on: { submit: (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, field.value.trim());
    form.remove();
    begin();
  } } },
  el('p', {}, sessionStorage.getItem(KEY) ? 'This key is not valid here. Try another.' : 'This service wants a key.'),
  el('div', { class: 'row' }, el('label', {}, 'Key', field), el('button', { class: 'act' }, 'Use it')),
  el('p', { class: 'faint' }, 'It is kept until this tab is closed.'));
  document.getElementById('view').prepend(form);
  field.focus();
}

/** To the explorer of a model, which begins with the text of its view here. */
function lookLink({ name, task }) {
  const link = el('a', { href: `look/${encodeURIComponent(name)}/`, title: `look inside ${name}`, on: { click: () => {
    const carried = views.find((each) => each.task === task)?.carries() ?? {};
    link.hash = carried.text?.trim() ? encodeURIComponent(JSON.stringify(carried)) : '';
  } } }, name);
  return link;
}

/** The models' names, with a way into each where the explorer is served too. */
function drawAbout() {
  const parts = about.models.map((each, i) => [i ? ', ' : null,
    has.look ? lookLink(each) : el('b', {}, each.name), ` ${each.noun}`]);
  const forget = sessionStorage.getItem(KEY) ? el('button', { type: 'button', id: 'forget', class: 'quiet', on: { click: () => {
    sessionStorage.removeItem(KEY);
    location.reload();
  } } }, 'forget the key') : null;
  put(document.getElementById('about'), has.look ? 'Look inside: ' : null, parts, ' ', forget);
}

/** Pairs of languages; a model that is told what it reads has one of each language that it can be told. */
function toldPairs({ models, pairs }) {
  return pairs.flatMap((pair) => {
    const { reads = [] } = models.find((each) => each.name === pair.model);
    const others = reads.filter((source) => source !== pair.target);
    return others.length ? others.map((source) => ({ ...pair, source })) : [pair];
  });
}

async function begin() {
  const frame = document.getElementById('view');
  try {
    about = await (await send('v1/about')).json();
    about.pairs = toldPairs(about);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401) { put(frame); wantKey(); return; }
    put(frame, el('div', { class: 'problem', role: 'alert' }, el('p', {}, error.message),
      el('button', { type: 'button', class: 'quiet', on: { click: begin } }, 'Try again')));
    return;
  }
  drawAbout();
  const own = views.filter((each) => modelsFor(each.task).length);
  if (!own.length) { put(frame, el('p', {}, 'No model with a view of its own is served here.')); return; }
  recall();
  drawTabs(own);
  open(own.some((each) => each.name === state.view) ? state.view : own[0].name);
}

has = JSON.parse(document.getElementById('data').textContent);
followColours();
begin();
