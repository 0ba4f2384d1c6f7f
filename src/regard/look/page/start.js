// How the explorer begins, and what its address remembers.

const REMEMBERED = ['view', 'text', 'second', 'to', 'place', 'layer', 'head', 'words', 'specials', 'mode'];

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

  followColours();
  drawTabs(own);
  let width = innerWidth;
  addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
  const openView = () => open(own.some((each) => each.name === state.view) ? state.view : own[0].name);
  if (!data) addEventListener('hashchange', () => { Object.assign(state, { second: null, draft: null }); recall(); openView(); });
  openView();
}

trying(start);
