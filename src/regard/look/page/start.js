// The frame: tabs, colours, and what the address remembers.

const REMEMBERED = ['view', 'text', 'second', 'to', 'place', 'layer', 'head', 'words', 'specials', 'mode'];

function remember() {
  const kept = Object.fromEntries(REMEMBERED.map((name) => [name, state[name]]).filter(([, value]) => value !== null));
  history.replaceState(null, '', `#${encodeURIComponent(JSON.stringify(kept))}`);
}

function recall() {
  try {
    const kept = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    for (const name of REMEMBERED) {
      const kind = state[name] === null ? 'string' : typeof state[name]; // null may be any text
      if (typeof kept[name] === kind) state[name] = kept[name];
    }
  } catch { /* an address without a memory */ }
}

function open(name) {
  state.view = name;
  for (const tab of document.querySelectorAll('#tabs button')) {
    const chosen = tab.id === `tab-${name}`;
    tab.setAttribute('aria-selected', String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  document.getElementById('view').setAttribute('aria-labelledby', `tab-${name}`);
  say('');
  remember();
  drawView();
}

function dark(on) {
  document.documentElement.classList.toggle('dark', on);
  document.getElementById('theme').textContent = on ? 'light' : 'dark';
}

const EXAMPLE = 'The animal didn\'t cross the street because it was too tired.';

async function start() {
  const data = document.getElementById('data').textContent.trim();
  if (data) {
    const raw = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream('gzip'));
    recorded = JSON.parse(await new Response(stream).text());
    Object.assign(state, recorded.texts.texts[0]);
  }
  about = await ask('about');
  if (!state.text) state.text = about.example || EXAMPLE;
  if (about.languages.length && !data) state.to = about.languages[0];
  if (!data) recall();
  const own = views.filter((each) => each.fits(about));
  const size = about.parameters.toLocaleString('en');
  document.getElementById('about').textContent = `${about.name}: ${about.kind}, ${size} parameters`;
  document.title = `${about.name} · regard`;

  const preferred = matchMedia('(prefers-color-scheme: dark)');
  dark(preferred.matches);
  preferred.addEventListener('change', () => { dark(preferred.matches); redraw(); });
  document.getElementById('theme').addEventListener('click', () => { dark(!isDark()); redraw(); });

  const tabs = document.getElementById('tabs');
  put(tabs, own.map((each) => el('button', {
    type: 'button', role: 'tab', id: `tab-${each.name}`, 'aria-controls': 'view', on: { click: () => open(each.name) },
  }, each.title)));
  tabs.addEventListener('keydown', (event) => {
    const at = own.findIndex((each) => each.name === state.view);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: own.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = own[(to + own.length) % own.length].name;
    open(next);
    document.getElementById(`tab-${next}`).focus();
  });
  let width = innerWidth;
  addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
  const openView = () => open(own.some((each) => each.name === state.view) ? state.view : own[0].name);
  if (!data) addEventListener('hashchange', () => { Object.assign(state, { second: null, draft: null }); recall(); openView(); });
  openView();
}

trying(start);
