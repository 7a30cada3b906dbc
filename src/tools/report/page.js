// page.js - draws the page from the JSON embedded in it, without libraries and without requests. Texts from files are
// inserted as text, never as markup. page.h describes the data.
(function () {
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const page = document.getElementById('page');

// --- helpers -------------------------------------------------------------------------------------

const known = v => typeof v === 'number' && isFinite(v);
const list = v => Array.isArray(v) ? v : [];
const last = v => v[v.length - 1];
const sum = v => v.reduce((a, b) => a + b, 0);
const clamp = (v, low, high) => Math.min(Math.max(v, low), high);
const unique = v => [...new Set(v)];

// el('td', { class: 'x', onclick: f }, child, 'text', [more]) makes an element. Attributes and children that are null,
// undefined or false are left out.
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  for (const child of children.flat(3)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}
const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);

const DASH = '–', THIN = '\u202f', TIMES = '×';
// Groups the thousands of the digits before the decimal point.
const group = text => text.replace(/^-?\d+/, whole => whole.replace(/\B(?=(\d{3})+(?!\d))/g, THIN));
const count = v => known(v) ? group(v.toFixed(0)) : DASH;
const percent = (v, digits = 2) => known(v) ? `${(100 * v).toFixed(digits)}${THIN}%` : DASH;
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;
function number(v, digits = 4) {
  if (!known(v)) return DASH;
  const size = Math.abs(v);
  if (size >= 1e7 || (size > 0 && size < 1e-4)) return v.toExponential(digits - 1).replace(/\.?0+e/, 'e').replace('e+', 'e');
  if (Number.isInteger(v) || size >= 1e5) return group(v.toFixed(0));
  return String(+v.toPrecision(digits));
}
function duration(s) {
  if (!known(s)) return DASH;
  if (s < 0.001) return `${(1e6 * s).toFixed(0)}${THIN}µs`;
  if (s < 1) return `${(1e3 * s).toPrecision(3)}${THIN}ms`;
  if (s < 90) return `${s.toPrecision(3)}${THIN}s`;
  const minutes = Math.floor(s / 60);
  if (s < 5400) return `${minutes}${THIN}min ${Math.floor(s % 60)}${THIN}s`;
  if (s < 172800) return `${Math.floor(minutes / 60)}${THIN}h ${minutes % 60}${THIN}min`;
  return `${Math.floor(minutes / 1440)}${THIN}d ${Math.floor(minutes / 60) % 24}${THIN}h`;
}
function bytes(v) {
  if (!known(v)) return DASH;
  const unit = clamp(Math.floor(Math.log2(Math.max(v, 1)) / 10), 0, 4);
  return `${(v / 1024 ** unit).toFixed(unit ? 1 : 0)}${THIN}${['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]}`;
}
const date = unix => known(unix) && Math.abs(unix) < 8e12 ? new Date(1000 * unix).toISOString().slice(0, 16).replace('T', ' ') + ' UTC' : DASH;

// Lines also differ in their dashes, for readers who cannot tell the colours apart. Blue, vermilion, green and purple
// follow Okabe and Ito.
const COLORS = ['--blue', '--red', '--green', '--purple', '--amber', '--sky', '--olive', '--grey'].map(name => `var(${name})`);
const DASHES = ['', '7 3', '2 3', '9 3 2 3'];
const color_of = i => COLORS[i % COLORS.length];
const dash_of = i => DASHES[Math.floor(i / COLORS.length + i) % DASHES.length];

function mean_of(values) {
  const mean = sum(values) / values.length;
  const sd = values.length > 1 ? Math.sqrt(sum(values.map(v => (v - mean) ** 2)) / (values.length - 1)) : NaN;
  return { n: values.length, mean, sd };
}
// Half the width of the 95 % interval of a mean, by Student's t.
const T_95 = [NaN, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
  2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042];
const half_interval = m => (T_95[m.n - 1] || 1.96 + 2.5 / (m.n - 1)) * m.sd / Math.sqrt(m.n);

// rows: arrays of cells; head: an array of cells. A cell is a text, a node, an array of these, or
// { text, class, title, key, value }.
function table(caption, head, rows, more) {
  const cell = (name, c, scope) => {
    const is = c !== null && typeof c === 'object' && !(c instanceof Node) && !Array.isArray(c) ? c : { text: c };
    return el(name, { class: is.class, title: is.title, scope, 'data-key': is.key, 'data-value': is.value }, is.text ?? DASH);
  };
  return el('div', { class: 'wide', tabindex: 0, role: 'region', 'aria-label': caption || 'Table', ...(more || {}) }, el('table', {},
    caption ? el('caption', {}, caption) : null,
    head ? el('thead', {}, el('tr', {}, head.map(h => cell('th', h, 'col')))) : null,
    el('tbody', {}, rows.map(row => el('tr', {}, row.map((c, i) => cell(i ? 'td' : 'th', c, i ? null : 'row')))))));
}
const details = (title, open, ...children) => el('details', { open: open ? '' : null }, el('summary', {}, title), children);
function section(id, title, ...children) {
  document.getElementById('nav').append(el('a', { href: `#${id}` }, title));
  const node = el('section', { id, 'aria-labelledby': `${id}-title` }, el('h2', { id: `${id}-title` }, title), children);
  page.append(node);
  return node;
}
// Lets the user choose one of several values by mouse or arrow keys. choices: [value, text, title]. Calls change(value)
// for the initial value as well.
function choose(node, label, choices, value, change) {
  const buttons = choices.map(([of, text, title]) => el('button', { type: 'button', role: 'radio', title, onclick: () => take(of) }, text));
  function take(now, focus) {
    choices.forEach(([of], i) => {
      buttons[i].setAttribute('aria-checked', of === now);
      buttons[i].tabIndex = of === now ? 0 : -1;
      if (of === now && focus) buttons[i].focus();
    });
    value = now;
    change(now);
  }
  node.addEventListener('keydown', event => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = choices.findIndex(([of]) => of === value);
    take(choices[(at + step + choices.length) % choices.length][0], true);
  });
  node.setAttribute('role', 'radiogroup');
  node.setAttribute('aria-label', label);
  node.append(...buttons);
  take(value);
  return node;
}

// --- scales --------------------------------------------------------------------------------------

function ticks_linear(low, high, most) {
  const raw = (high - low) / most, ten = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find(s => s * ten >= raw * 0.999) * ten, ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  return { ticks, step };
}
function ticks_log(low, high, most) {
  const ticks = [], decades = Math.log10(high / low);
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
    for (const digit of decades > most ? [1] : decades > most / 3 ? [1, 3] : [1, 2, 5]) {
      const value = digit * 10 ** e;
      if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
    }
  const every = Math.ceil(ticks.length / (most + 2));
  return { ticks: ticks.filter((_, i) => i % every === 0), step: 0 };
}
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000];
function ticks_time(low, high, most) {
  const step = TIME_STEPS.find(s => s >= (high - low) / most) || 864000 * Math.ceil((high - low) / most / 864000), ticks = [];
  if ((high - low) / most < 0.5) return ticks_linear(low, high, most);
  for (let i = Math.ceil(low / step); i * step <= high; i++) ticks.push(i * step);
  return { ticks, step };
}
function clock(s, step) {
  if (step < 1) return `${+s.toPrecision(6)} s`;
  if (step < 60 && s < 3600) return s < 60 || step < 60 ? (s < 600 && step < 60 ? `${s} s` : `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`) : `${s / 60} min`;
  if (step < 3600 && s < 7200) return `${s / 60} min`;
  if (step < 86400) return `${Math.floor(s / 3600)}:${String(Math.round(s % 3600 / 60)).padStart(2, '0')} h`;
  return `${s / 86400} d`;
}
const decimals = step => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
const FORMATS = {
  number: (v, step) => step && Math.abs(v) < 1e5 && step >= 1e-4 ? group(v.toFixed(decimals(step))) : number(v, 4),
  percent: (v, step) => step ? `${(100 * v).toFixed(decimals(100 * step))} %` : percent(v, 1),
  time: clock,
  count: v => v >= 1e4 ? `${+(v / (v >= 1e6 ? 1e6 : 1e3)).toPrecision(4)} ${v >= 1e6 ? 'M' : 'k'}` : number(v, 6),
};

// --- a chart -------------------------------------------------------------------------------------

// spec: title, lines, marks, note, height, logs (the reader may switch to a logarithmic axis), cohort (charts with a
// common cross), and x and y: { label, format (of FORMATS), log, min, max, most, ticks, show (value -> text) }.
// A line: name, color, dash, points [[x, y, sd, n]], thin, dots, quiet (absent from the key and the tip).
const charts = [];
function chart(spec) {
  const state = { log: !!spec.y.log || spans_decades(spec), x: null };
  const head = el('div', { class: 'head' }, el('h3', {}, spec.title));
  const figure = el('figure', {}, head);
  const holder = el('div', { style: 'position:relative' });
  const tip = el('div', { class: 'tip', hidden: '', role: 'status', 'aria-live': 'polite' });
  const all = spec.lines.flatMap(l => l.points).filter(p => known(p[0]) && known(p[1]));
  if (spec.logs && all.length && all.every(p => p[1] > 0))
    head.append(el('button', { class: 'tool', type: 'button', 'aria-pressed': state.log, onclick: e => {
      state.log = !state.log;
      e.currentTarget.setAttribute('aria-pressed', state.log);
      draw();
    } }, 'log'));
  const save = (kind, make) => el('button', { class: 'tool', type: 'button', title: `save as ${kind}`, 'aria-label': `save ${spec.title} as ${kind}`, disabled: all.length ? null : '',
    onclick: () => save_file(`${file_name(`${document.title} ${spec.title}`)}.${kind.toLowerCase()}`, kind === 'SVG' ? 'image/svg+xml' : 'text/csv', make()) }, kind);
  head.append(el('span', { class: 'save' }, save('SVG', () => svg_of(drawing, spec)), save('CSV', () => csv_of(spec))));
  const shown = spec.lines.filter(l => !l.quiet && l.name);
  if (shown.length > 1 && spec.key !== false) figure.append(key_of(shown));
  figure.append(holder);
  holder.append(tip);
  if (spec.note) figure.append(el('figcaption', {}, spec.note));
  let drawing = null, place = null;

  function say(line) {
    const values = line.points.map(p => p[1]).filter(known);
    if (!values.length) return '';
    const show = v => spec.y.show(v);
    return `${line.name || spec.title}: first ${show(values[0])}, last ${show(last(values))}, lowest ${show(Math.min(...values))}, highest ${show(Math.max(...values))}.`;
  }
  function ranges() {
    const xs = all.map(p => p[0]).concat(list(spec.marks).map(m => m.x).filter(known));
    const ys = all.flatMap(p => known(p[2]) ? [p[1] - p[2], p[1] + p[2]] : [p[1]]).filter(v => !state.log || v > 0);
    let [x0, x1] = [spec.x.min ?? xs.reduce((a, b) => Math.min(a, b), Infinity), spec.x.max ?? xs.reduce((a, b) => Math.max(a, b), -Infinity)];
    let [y0, y1] = [ys.reduce((a, b) => Math.min(a, b), Infinity), ys.reduce((a, b) => Math.max(a, b), -Infinity)];
    if (!(x0 <= x1)) [x0, x1] = [0, 1];
    if (!(y0 <= y1)) [y0, y1] = [0.1, 1];
    if (x0 === x1) [x0, x1] = spec.x.log ? [x0 / 2, x1 * 2] : [x0 - 1, x1 + 1];
    if (state.log) [y0, y1] = y0 === y1 ? [y0 / 2, y1 * 2] : [y0 / (y1 / y0) ** 0.06, y1 * (y1 / y0) ** 0.06];
    else {
      const room = (y1 - y0) * 0.07 || Math.abs(y1) * 0.1 || 1;
      [y0, y1] = [y0 >= 0 ? Math.max(0, y0 - room) : y0 - room, y1 + room];
      if (known(spec.y.most) && all.every(p => p[1] <= spec.y.most)) y1 = Math.min(y1, spec.y.most);
    }
    return { x0, x1, y0: spec.y.min ?? y0, y1: spec.y.max ?? y1 };
  }
  function draw() {
    const width = Math.max(240, holder.clientWidth || 480), height = spec.height || 220, r = ranges();
    const yt = (state.log ? ticks_log : ticks_linear)(r.y0, r.y1, 6), yf = FORMATS[spec.y.format];
    const labels = yt.ticks.map(v => yf(v, yt.step));
    const left = 10 + 6.4 * Math.max(2, ...labels.map(t => t.length)), right = width - 8, top = 12, bottom = height - 32;
    const lx = v => spec.x.log ? Math.log(v) : v, ly = v => state.log ? Math.log(Math.max(v, 1e-300)) : v;
    const X = v => left + (right - left) * (lx(v) - lx(r.x0)) / (lx(r.x1) - lx(r.x0));
    const Y = v => clamp(bottom - (bottom - top) * (ly(v) - ly(r.y0)) / (ly(r.y1) - ly(r.y0)), top - 40, bottom + 40);
    const xt = spec.x.ticks ? { ticks: spec.x.ticks.filter(v => v >= r.x0 && v <= r.x1), step: 1 }
      : (spec.x.format === 'time' ? ticks_time : ticks_linear)(r.x0, r.x1, Math.max(2, Math.floor((right - left) / 75)));
    const xf = FORMATS[spec.x.format];
    place = { X, left, right, top, bottom, width, r, back: px => {
      const t = (clamp(px, left, right) - left) / (right - left);
      return spec.x.log ? r.x0 * (r.x1 / r.x0) ** t : r.x0 + t * (r.x1 - r.x0);
    } };
    const id = `clip-${charts.indexOf(self)}`;
    const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', tabindex: 0,
      'aria-label': `${spec.title} over ${spec.x.label}. ${shown.slice(0, 8).map(say).join(' ')} Arrow keys step through the values.` },
    svg('clipPath', { id }, svg('rect', { x: left - 3, y: top - 4, width: right - left + 7, height: bottom - top + 8 })),
    yt.ticks.map((v, i) => [svg('line', { class: 'grid', x1: left, x2: right, y1: Y(v), y2: Y(v) }),
      svg('text', { x: left - 6, y: Y(v) + 4, 'text-anchor': 'end' }, labels[i])]),
    svg('line', { class: 'axis', x1: left, x2: right, y1: bottom, y2: bottom }),
    xt.ticks.map(v => [svg('line', { class: 'axis', x1: X(v), x2: X(v), y1: bottom, y2: bottom + 4 }),
      svg('text', { x: X(v), y: bottom + 16, 'text-anchor': X(v) > right - 14 ? 'end' : 'middle' }, xf(v, xt.step))]),
    svg('text', { x: right, y: height - 2, 'text-anchor': 'end' }, spec.x.label),
    list(spec.marks).filter(m => known(m.x)).map(m => [
      m.quiet ? null : svg('line', { class: 'event', x1: X(m.x), x2: X(m.x), y1: top, y2: bottom }),
      m.kind ? symbol(m.kind, X(m.x), top - 5, m.text) : null]),
    svg('g', { 'clip-path': `url(#${id})` }, spec.lines.map(l => curve(l, X, Y))),
    svg('line', { class: 'cross', y1: top, y2: bottom, visibility: 'hidden' }));
    root.addEventListener('pointermove', e => point(place.back((e.clientX - root.getBoundingClientRect().left) * width / root.getBoundingClientRect().width)));
    root.addEventListener('pointerleave', () => point(null));
    root.addEventListener('blur', () => point(null));
    root.addEventListener('keydown', keys);
    if (drawing) drawing.replaceWith(root);
    else holder.prepend(root);
    drawing = root;
  }
  function curve(l, X, Y) {
    const points = l.points.filter(p => known(p[0]) && known(p[1]) && (!state.log || p[1] > 0)), parts = [];
    if (points.some(p => p[2] > 0)) {
      const up = points.map(p => `${X(p[0]).toFixed(1)} ${Y(p[1] + (p[2] || 0)).toFixed(1)}`);
      const down = points.map(p => `${X(p[0]).toFixed(1)} ${Y(p[1] - (p[2] || 0)).toFixed(1)}`).reverse();
      parts.push(svg('path', { class: 'band', fill: l.color, d: `M${up.concat(down).join('L')}Z` }));
    }
    if (points.length > 1)
      parts.push(svg('path', { class: l.thin ? 'thin' : 'curve', stroke: l.color, 'stroke-dasharray': l.dash,
        d: 'M' + points.map(p => `${X(p[0]).toFixed(1)} ${Y(p[1]).toFixed(1)}`).join('L') }));
    const dots = l.dots || (points.length === 1 && !l.thin);
    if (dots && points.length <= 60) parts.push(points.map(p => dot(l, X(p[0]), Y(p[1]))));
    return parts;
  }
  // Returns the point of a line that is nearest to x.
  function nearest(l, x) {
    let low = 0, high = l.points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (l.points[middle][0] <= x) low = middle;
      else high = middle;
    }
    const two = [l.points[low], l.points[high]].filter(p => p && known(p[0]) && known(p[1]));
    return two.sort((a, b) => Math.abs(a[0] - x) - Math.abs(b[0] - x))[0];
  }
  function cross(x) {
    if (!drawing) return;
    const line = last([...drawing.querySelectorAll('.cross')]);
    line.setAttribute('visibility', x === null || x < place.r.x0 || x > place.r.x1 ? 'hidden' : 'visible');
    if (x !== null) line.setAttribute('x1', place.X(x)), line.setAttribute('x2', place.X(x));
  }
  function point(x) {
    state.x = x;
    charts.filter(c => c === self || (spec.cohort && c.cohort === spec.cohort)).forEach(c => c.cross(x));
    tip.hidden = x === null;
    if (x === null) return;
    const away = p => Math.abs(place.X(p[0]) - place.X(x)), found = shown.map(l => [l, nearest(l, x)]).filter(([, p]) => p && away(p) < 30);
    if (!found.length) { tip.hidden = true; return; }
    const closest = found.reduce((a, b) => away(b[1]) < away(a[1]) ? b : a)[1];
    const scale = drawing.getBoundingClientRect().width / place.width, px = place.X(x) * scale;
    const near = list(spec.marks).filter(m => m.text && known(m.x) && Math.abs(place.X(m.x) - place.X(x)) < 7).slice(0, 3);
    tip.replaceChildren(el('div', { class: 'where' }, `${spec.x.label} ${spec.x.show(closest[0])}`),
      el('table', {}, el('tbody', {}, found.slice(0, 14).map(([l, p]) => el('tr', {}, el('td', {}, swatch(l)), el('td', { class: 'left' }, l.name || spec.title),
        el('td', {}, spec.y.show(p[1]) + (known(p[2]) ? ` ± ${spec.y.show(p[2])} (${p[3]})` : '') + (p.more ? `, ${p.more}` : '')))))),
      ...near.map(m => el('div', { class: 'message' }, m.text)));
    put_tip(tip, holder, px);
  }
  function keys(event) {
    const xs = unique(shown.flatMap(l => l.points.map(p => p[0])).filter(known)).sort((a, b) => a - b);
    if (!xs.length) return;
    let at = state.x === null ? -1 : xs.reduce((best, x, i) => Math.abs(x - state.x) < Math.abs(xs[best] - state.x) ? i : best, 0);
    const step = Math.max(1, Math.round(xs.length / 100)) * (event.shiftKey ? 10 : 1);
    if (event.key === 'ArrowRight') at = Math.min(at + step, xs.length - 1);
    else if (event.key === 'ArrowLeft') at = at < 0 ? xs.length - 1 : Math.max(at - step, 0);
    else if (event.key === 'Home') at = 0;
    else if (event.key === 'End') at = xs.length - 1;
    else if (event.key === 'Escape') return point(null);
    else return;
    event.preventDefault();
    point(xs[at]);
  }
  const self = { figure, draw, cross, cohort: spec.cohort };
  charts.push(self);
  if (all.length) on_width(holder, draw);
  else holder.append(el('p', { class: 'soft small' }, 'no values'));
  return figure;
}
// --- saving a chart ------------------------------------------------------------------------------

const file_name = text => text.replace(/[^A-Za-z0-9.-]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 80);
function save_file(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  el('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
// Returns all points of a chart as CSV, one row each. An apostrophe is put before a text that a spreadsheet would take
// for a formula.
function csv_of(spec) {
  const cell = v => {
    const text = known(v) ? String(v) : String(v ?? '').replace(/^[=+@-]/, "'$&");
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const rows = spec.lines.flatMap(l => l.points.filter(p => known(p[0]) && known(p[1])).map(p => [l.name || spec.title, p[0], p[1], known(p[2]) ? p[2] : '', known(p[3]) ? p[3] : '']));
  return [['line', spec.x.label, spec.title, 'standard deviation', 'runs'], ...rows].map(row => row.map(cell).join(',')).join('\r\n') + '\r\n';
}
const KEPT = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linejoin', 'stroke-linecap', 'opacity', 'font-size', 'font-family', 'font-weight', 'visibility'];
// Returns the drawing as an SVG file with its title and key. The styles that the page gives to its elements are copied.
function svg_of(drawing, spec) {
  const copy = drawing.cloneNode(true), from = [drawing, ...drawing.querySelectorAll('*')], style = getComputedStyle(drawing.closest('figure'));
  [copy, ...copy.querySelectorAll('*')].forEach((node, i) => {
    const of = getComputedStyle(from[i]);
    for (const name of KEPT) if (of.getPropertyValue(name)) node.setAttribute(name, of.getPropertyValue(name));
    for (const name of ['class', 'tabindex', 'style']) node.removeAttribute(name);
  });
  const [, , width, height] = drawing.getAttribute('viewBox').split(' ').map(Number), text = getComputedStyle(drawing.querySelector('text') || drawing);
  const named = spec.lines.filter(l => !l.quiet && l.name), keys = named.length > 1 ? named.slice(0, 24) : [], top = 28 + 16 * keys.length;
  const write = (x, y, words, more) => svg('text', { x, y, fill: style.color, 'font-size': '12px', 'font-family': text.fontFamily, ...more }, words);
  const color = l => getComputedStyle(drawing).getPropertyValue((/var\((.*)\)/.exec(l.color) || [])[1] || '') || l.color;
  copy.setAttribute('y', top);
  copy.setAttribute('width', width);
  const root = svg('svg', { width, height: height + top, viewBox: `0 0 ${width} ${height + top}` }, svg('rect', { width, height: height + top, fill: style.backgroundColor }),
    write(8, 18, spec.title, { 'font-weight': 600 }), keys.map((l, i) => [svg('line', { x1: 8, x2: 30, y1: 32 + 16 * i, y2: 32 + 16 * i, stroke: color(l), 'stroke-width': 2, 'stroke-dasharray': l.dash }), write(36, 36 + 16 * i, l.name)]), copy);
  return new XMLSerializer().serializeToString(root);
}

// Whether a logarithmic axis is better, because most of a linear axis would be empty.
function spans_decades(spec) {
  const values = spec.logs ? spec.lines.filter(l => !l.thin).flatMap(l => l.points.map(p => p[1])).filter(known) : [];
  if (!values.length || values.some(v => v <= 0)) return false;
  const high = values.reduce((a, b) => Math.max(a, b)), middle = values.sort((a, b) => a - b)[values.length >> 1];
  return high > 12 * middle;
}
// Draws the content of node to fit its width: first when node is in the page (settle), then whenever its width changes.
// The redrawing waits for the next frame, because drawing changes sizes itself.
let unsettled = [];
function on_width(node, draw) {
  let width = -Infinity;
  const look = () => {
    if (Math.abs(node.clientWidth - width) < 2) return;
    width = node.clientWidth;
    draw();
  };
  unsettled.push(look);
  new ResizeObserver(() => requestAnimationFrame(look)).observe(node);
}
function settle() {
  const of = unsettled;
  unsettled = [];
  of.forEach(look => look());
}
// Puts the tip beside position x of the holder. The tip stays inside the holder if there is room.
function put_tip(tip, holder, x) {
  const width = tip.offsetWidth, free = holder.clientWidth - width;
  tip.style.left = `${clamp(x > holder.clientWidth / 2 ? x - 12 - width : x + 12, Math.min(0, free), Math.max(0, free))}px`;
  tip.style.top = '14px';
}
function forget(cohort) {
  for (let i = charts.length - 1; i >= 0; i--) if (charts[i].cohort === cohort) charts.splice(i, 1);
}
const dot = (l, x, y) => svg('circle', { cx: x, cy: y, r: 2.75, fill: l.color });
const swatch = l => svg('svg', { width: 22, height: 10, viewBox: '0 0 22 10', 'aria-hidden': true },
  svg('line', { x1: 1, x2: 21, y1: 5, y2: 5, stroke: l.color, 'stroke-width': l.thin ? 1 : 2, 'stroke-dasharray': l.dash }),
  l.dots ? dot(l, 11, 5) : null);
const key_of = lines => el('div', { class: 'key' }, lines.slice(0, 24).map(l => el('span', {}, swatch(l), l.name)));

// The symbols of events: shape, colour and name.
const KINDS = {
  resume: { color: 'var(--blue)', d: 'M-4 -4.5L5 0L-4 4.5Z', name: 'went on' },
  warning: { color: 'var(--amber)', d: 'M0 -5L5 4L-5 4Z', name: 'warning' },
  failed: { color: 'var(--bad)', d: 'M-4 -4L4 4M4 -4L-4 4', name: 'failed', open: true },
  stopped: { color: 'var(--grey)', d: 'M-4 -4H4V4H-4Z', name: 'stopped' },
  checkpoint: { color: 'var(--soft)', d: 'M0 -3V3', name: 'checkpoint', open: true },
};
function symbol(kind, x, y, text) {
  const of = KINDS[kind];
  return svg('path', { d: of.d, transform: `translate(${x} ${y})`, fill: of.open ? 'none' : of.color, stroke: of.open ? of.color : 'none', 'stroke-width': 2 },
    text ? svg('title', {}, text) : null);
}

// --- runs and their groups -----------------------------------------------------------------------

// Options that do not affect training, or that differ between the seeds of one experiment.
const OF_THE_RUN = ['run.name', 'run.seed', 'run.resume', 'run.adopt', 'run.max_minutes', 'run.max_restarts', 'run.cross_check', 'run.cross_check_action', 'model.file', 'data.workers',
  'log.progress'];

function rows_of(series) {
  const names = Object.keys(series || {}), length = names.length ? list(series[names[0]]).length : 0;
  return Array.from({ length }, (_, i) => Object.fromEntries(names.map(name => [name, series[name][i]])));
}
function status_of(run) {
  const ends = run.events.filter(e => e.event === 'end'), starts = run.events.filter(e => e.event === 'start');
  const end = last(ends), ended = end && (!starts.length || end.part === last(starts).part);
  if (run.summary.status) return [run.summary.status, 'good'];
  if (ended && end.status === 'completed') return ['completed', 'good'];
  if (ended && end.status === 'stopped') return ['stopped', 'warn', end];
  if (ended) return ['failed', 'bad', end];
  if (starts.length || run.train.length) return ['under way, or cut off', 'warn'];
  return ['not started', 'warn'];
}
// Returns a run in the form that the sections need. Missing members become empty.
function view(raw, index) {
  const run = { index, name: String(raw.name), path: raw.path, options: raw.options || {}, network: raw.network || '', summary: raw.summary || {},
    evaluation: raw.evaluation, notes: list(raw.notes).slice(), events: list(raw.events), train: rows_of(raw.train), epochs: rows_of(raw.epochs),
    eval: rows_of(raw.eval), checkpoints: rows_of(raw.checkpoints), time_spent: raw.time_spent };
  run.info = { ...(raw.start || {}), ...run.summary };
  run.ranks = list((raw.start || {}).ranks);
  if (raw.lines_unreadable) run.notes.push(`metrics.jsonl: ${plural(raw.lines_unreadable, 'line')} could not be read`);
  if (raw.events_left_out) run.notes.push(`metrics.jsonl: ${plural(raw.events_left_out, 'further event')} left out here`);
  run.status = status_of(run);
  run.seed = run.options['run.seed'] ?? run.info.seed;
  run.per_epoch = Math.ceil(run.info.train_samples / run.info.global_batch) || NaN;
  if (run.options['data.drop_last'] === 'true') run.per_epoch = Math.floor(run.info.train_samples / run.info.global_batch) || NaN;
  const done = run.epochs.find(r => r.epoch > 0);
  if (!known(run.per_epoch) && done) run.per_epoch = done.update / done.epoch;
  const of_eval = name => last(run.eval.map(r => r[name]).filter(known)), record = last(run.train) || {};
  run.value = name => known(run.summary[name]) ? run.summary[name]
    : { test_accuracy: of_eval(name), test_loss: of_eval(name), val_accuracy: of_eval(name), val_loss: of_eval(name), train_loss: record.train_loss,
      wall_seconds: record.seconds, updates: record.update, epochs: record.epoch, samples_seen: record.samples_seen,
      train_images_per_second: record.seconds > 0 ? record.samples_seen / record.seconds : undefined }[name];
  const sorted = Object.keys(run.options).sort().filter(name => !OF_THE_RUN.includes(name));
  run.place = [plural(run.info.world_size, 'rank'), run.info.device, run.info.device_name];
  run.kind = sorted.length ? JSON.stringify([sorted.map(name => [name, run.options[name]]), run.network, run.place]) : `alone ${index}`;
  return run;
}
const runs = list(data.runs).map(view);
const option_names = unique(runs.flatMap(r => Object.keys(r.options)));
const differs = (of, get) => unique(of.map(r => String(get(r) ?? ''))).length > 1;

// The word for the runs of a group: "seed" if their seeds differ, or "run" if a seed occurs twice.
const repeats = of => of.every(g => unique(g.runs.map(r => String(r.seed))).length === g.runs.length) ? 'seed' : 'run';
function make_groups() {
  const groups = unique(runs.map(r => r.kind)).map(kind => ({ runs: runs.filter(r => r.kind === kind) }));
  const names = option_names.filter(name => !OF_THE_RUN.includes(name) && differs(runs, r => r.options[name])), places = [0, 1, 2].filter(i => differs(runs, r => r.place[i]));
  groups.forEach((g, i) => {
    const first = g.runs[0], short = name => names.filter(n => n.split('.')[1] === name.split('.')[1]).length > 1 ? name : name.split('.')[1];
    g.label = names.map(name => `${short(name)} ${first.options[name] || '(empty)'}`).concat(places.map(i => first.place[i] || '')).filter(Boolean).join(', ');
    if (groups.length === 1 || !g.label || g.label.length > 60) g.label = first.name + (g.runs.length > 1 && groups.length > 1 ? ' and others' : '');
    if (groups.length === 1 && g.runs.length > 1) g.label = plural(g.runs.length, repeats([g]));
    g.color = color_of(i);
    g.dash = dash_of(i);
    g.shown = true;
  });
  groups.filter(g => groups.some(o => o !== g && o.label === g.label)).forEach(g => { g.label += ` (${g.runs[0].name})`; });
  return groups;
}
const groups = make_groups();
const group_of = run => groups.find(g => g.runs.includes(run));

// --- result --------------------------------------------------------------------------------------

const chip = run => el('span', { class: `chip ${run.status[1]}` }, run.status[0]);
function tile(name, value, more, key, raw) {
  return el('div', { class: 'tile' }, el('dt', {}, name), el('dd', { 'data-key': key, 'data-value': known(raw) ? String(raw) : null }, value),
    more ? el('div', { class: 'more' }, more) : null);
}
function energy_text(energy) {
  if (!energy || !known(energy.joules)) return null;
  const wh = energy.joules / 3600;
  return [energy.joules < 10000 ? `${number(energy.joules, 3)}${THIN}J` : `${number(wh, 3)}${THIN}Wh`,
    `${known(energy.joules_per_image) ? `${number(energy.joules_per_image, 3)} J an image; ` : ''}${list(energy.sources).map(s => typeof s === 'string' ? s : s.name || JSON.stringify(s)).join(', ')}`];
}
function tiles(run) {
  const v = run.value, s = run.summary, memory = s.peak_memory_bytes || {}, so_far = s.status ? '' : 'so far';
  const tested = known(s.test_samples) && known(s.test_accuracy) ? `${count(s.test_accuracy * s.test_samples)} of ${count(s.test_samples)}` : so_far;
  const energy = energy_text(s.energy);
  const best = s.best_checkpoint || {}, best_accuracy = best.val_accuracy ?? best.test_accuracy;
  return el('dl', { class: 'tiles' },
    s.status || known(v('test_accuracy')) ? tile('test accuracy', percent(v('test_accuracy')), tested, 'test_accuracy', v('test_accuracy')) : null,
    known(s.tta_accuracy) ? tile('with test-time augmentation', percent(s.tta_accuracy), '', 'tta_accuracy', s.tta_accuracy) : null,
    known(v('val_accuracy')) ? tile('validation accuracy', percent(v('val_accuracy')), '', 'val_accuracy', v('val_accuracy')) : null,
    run.evaluation && known(run.evaluation.top5) ? tile('top-5 accuracy', percent(run.evaluation.top5), `of the ${run.evaluation.set || 'test'} set`) : null,
    s.status || known(v('test_loss')) ? tile('test loss', number(v('test_loss')), so_far, 'test_loss', v('test_loss')) : null,
    tile('training loss', number(v('train_loss')), s.status ? 'of the last epoch' : so_far, 'train_loss', v('train_loss')),
    tile('images/s', number(v('train_images_per_second'), 4), 'in training', 'train_images_per_second', v('train_images_per_second')),
    tile('time', duration(v('wall_seconds')), known(s.time_to_first_update_seconds) ? `first update after ${duration(s.time_to_first_update_seconds)}` : so_far, 'wall_seconds', v('wall_seconds')),
    tile('updates', count(v('updates')), `${known(v('epochs')) ? plural(v('epochs'), 'epoch') : ''}${s.skipped_updates ? `; ${count(s.skipped_updates)} skipped` : ''}`, 'updates', v('updates')),
    known(memory.host) ? tile('peak memory', bytes(memory.host), `of a rank${memory.device && memory.device !== memory.host ? `; ${bytes(memory.device)} on its device` : ''}`) : null,
    energy ? tile('energy', energy[0], energy[1], 'joules', s.energy.joules) : null,
    known(best_accuracy) ? tile('best checkpoint', percent(best_accuracy), `after update ${count(best.update)}`) : null);
}
function verdict(run) {
  const of = run.summary.verdict;
  if (!of || !of.text) return null;
  return el('div', { class: 'say' }, el('p', {}, el('b', {}, 'Verdict: '), String(of.text)));
}
function messages(run) {
  const end = run.status[2], lines = [];
  if (end && end.message) lines.push(el('div', { class: `say ${run.status[1]}` }, el('p', {}, `${run.status[0]} (exit ${end.exit_code}): ${end.message}`)));
  if (run.summary.stopped_early) lines.push(el('div', { class: 'say' }, el('p', {}, `Stopped early: no higher validation accuracy in ${plural(run.summary.stopped_early.without_improvement, 'evaluation')}.`)));
  if (run.summary.stragglers) lines.push(el('div', { class: 'say warn' }, el('p', {}, run.summary.stragglers.message)));
  for (const text of run.notes) lines.push(el('div', { class: 'say warn' }, el('p', {}, text)));
  return lines;
}
const short_path = path => String(path || '').split('/').slice(-2).join('/');
function subtitle(run) {
  const i = run.info;
  return [i.dataset, i.model ? short_path(i.model) : null, known(i.parameters) ? `${count(i.parameters)} parameters` : null,
    i.device ? `${i.world_size > 1 ? `${i.world_size} ranks on ` : ''}${i.device}${i.device_name ? ` (${i.device_name})` : ''}` : null, i.precision]
    .filter(Boolean).join(' · ');
}
function show_title() {
  const benches = list(data.benches).filter(b => b.bench);
  const one = runs.length === 1 && runs[0];
  const title = one ? one.name : runs.length ? `${runs.length} runs` : benches.length === 1 ? 'Training throughput' : `${benches.length} benchmarks`;
  document.title = `${title} · Lockstep`;
  page.append(el('h1', { id: 'top' }, title, one ? [' ', chip(one)] : null),
    el('p', { class: 'soft' }, one ? subtitle(one) : runs.length ? [plural(groups.length, 'configuration') + (groups.length < runs.length ? `, several ${repeats(groups)}s` : ''), ...(differs(runs, subtitle) ? [] : [subtitle(runs[0])])].join(' · ') : benches.map(b => short_path(b.bench.config)).join(', ')),
    el('p', { class: 'soft small' }, `Made ${date(data.made)} by lockstep ${data.version}`));
}
function show_one_result(run) {
  page.append(tiles(run), ...[verdict(run)].filter(Boolean), ...messages(run));
}
const RESULTS = [['test_accuracy', 'test accuracy', v => percent(v)], ['test_loss', 'test loss', v => number(v)], ['train_loss', 'training loss', v => number(v)],
  ['train_images_per_second', 'images/s', v => number(v, 4)], ['wall_seconds', 'time', duration]];
function show_results() {
  const cells = run => RESULTS.map(([name, , show]) => ({ text: show(run.value(name)), key: name, value: known(run.value(name)) ? String(run.value(name)) : null }));
  // Incomplete runs would shift a mean, so it is over the complete runs. If no run is complete, it is over all runs.
  const counted = g => g.runs.some(r => r.summary.status) ? g.runs.filter(r => r.summary.status) : g.runs;
  const spread = (g, name, show) => {
    const values = counted(g).map(r => r.value(name)).filter(known), m = mean_of(values);
    return values.length ? { text: values.length > 1 ? `${show(m.mean)} ± ${show(m.sd)}` : show(m.mean), title: values.length > 1 ? `95 % interval of the mean: ± ${show(half_interval(m))}` : null } : DASH;
  };
  const node = section('result', 'Result');
  if (groups.some(g => g.runs.length > 1))
    node.append(table(`Mean ± standard deviation over ${repeats(groups)}s`, ['configuration', 'runs', ...RESULTS.slice(0, 4).map(r => r[1]), '95 % interval of test accuracy'],
      groups.map(g => {
        const of = counted(g), m = mean_of(of.map(r => r.value('test_accuracy')).filter(known)), complete = of.length === g.runs.length;
        return [[swatch({ color: g.color, dash: g.dash }), ` ${g.label}`], complete ? `${count(of.length)}${of[0].summary.status ? '' : ', so far'}` : `${count(of.length)} of ${count(g.runs.length)}, complete`, ...RESULTS.slice(0, 4).map(([name, , show]) => spread(g, name, show)),
          m.n > 1 ? `${percent(m.mean - half_interval(m))} to ${percent(m.mean + half_interval(m))}` : DASH];
      })));
  const rows = runs.map(run => [run.name, ...(groups.length > 1 ? [{ text: group_of(run).label, class: 'left' }] : []), String(run.seed ?? DASH), cells(run)[0], el('span', { class: run.status[1] }, run.status[0]), ...cells(run).slice(1),
    known((run.summary.energy || {}).joules) ? energy_text(run.summary.energy)[0] : DASH, run.summary.verdict ? run.summary.verdict.binds : DASH]);
  const each = table('Each run', ['run', ...(groups.length > 1 ? [{ text: 'configuration', class: 'left' }] : []), 'seed', RESULTS[0][1], 'status', ...RESULTS.slice(1).map(r => r[1]), 'energy', 'binds'], rows);
  node.append(runs.length > 12 ? details(`All ${runs.length} runs`, false, each) : each);
  for (const run of runs) if (run.notes.length || run.status[2]) node.append(details(`${run.name}: notes`, false, messages(run)));
}

// --- curves --------------------------------------------------------------------------------------

const AXES = {
  update: { label: 'update', format: 'count', show: v => count(v), of: (run, r) => r.update },
  epoch: { label: 'epoch', format: 'number', show: v => v.toFixed(2), of: (run, r) => r.update / run.per_epoch },
  time: { label: 'time of training', format: 'time', show: duration, of: (run, r) => r.seconds },
};
const QUANTITIES = [
  { id: 'loss', title: 'Loss', y: { format: 'number', show: v => number(v) }, logs: true,
    of: [['train', 'train_loss', 'training'], ['eval', 'val_loss', 'validation'], ['eval', 'test_loss', 'test']] },
  { id: 'accuracy', title: 'Accuracy', y: { format: 'percent', show: v => percent(v), most: 1 },
    of: [['train', 'train_accuracy', 'training'], ['eval', 'val_accuracy', 'validation'], ['eval', 'test_accuracy', 'test']] },
  { id: 'lr', title: 'Learning rate', y: { format: 'number', show: v => number(v) }, logs: true, of: [['train', 'learning_rate', 'learning rate']] },
  { id: 'speed', title: 'Images/s', y: { format: 'number', show: v => number(v, 4), min: 0 }, of: [['train', 'images_per_second', 'images/s']] },
  { id: 'norm', title: 'Gradient norm', y: { format: 'number', show: v => number(v) }, logs: true, of: [['train', 'grad_norm', 'gradient norm']] },
  { id: 'scale', title: 'Loss scale', y: { format: 'count', show: v => count(v), log: true }, of: [['train', 'loss_scale', 'loss scale']], varies: true },
];
const SPLITS = { training: ['var(--blue)', ''], validation: ['var(--green)', '7 3'], test: ['var(--red)', ''] };

function points_of(run, from, name, axis) {
  const points = run[from].map(r => [axis.of(run, r), r[name]]).filter(p => known(p[0]) && known(p[1]));
  return points.sort((a, b) => a[0] - b[0]);
}
// Returns the mean and standard deviation of several lines, at the positions of the line with the most points. A
// position that only one of several lines covers is left out.
function mean_line(lines) {
  const some = lines.filter(l => l.length), finest = some.reduce((a, b) => b.length > a.length ? b : a, []);
  const at = some.map(() => 0), mean = [];
  for (const [x] of finest) {
    const values = [];
    some.forEach((l, k) => {
      while (at[k] < l.length - 2 && l[at[k] + 1][0] < x) at[k]++;
      const [a, b] = [l[at[k]], l[at[k] + 1]];
      if (x < l[0][0] || x > last(l)[0]) return;
      values.push(!b || b[0] === a[0] ? a[1] : a[1] + (b[1] - a[1]) * clamp((x - a[0]) / (b[0] - a[0]), 0, 1));
    });
    if (values.length < some.length && values.length < 2) continue;
    const m = mean_of(values);
    mean.push([x, m.mean, m.sd, m.n]);
  }
  return mean;
}
function lines_of_run(run, quantity, axis) {
  return quantity.of.map(([from, name, label]) => ({ name: label, color: (SPLITS[label] || ['var(--blue)'])[0], dash: (SPLITS[label] || ['', ''])[1],
    dots: from === 'eval', points: points_of(run, from, name, axis) })).filter(l => l.points.length);
}
function lines_of_groups([from, name], axis) {
  return groups.filter(g => g.shown).flatMap(g => {
    const each = g.runs.map(run => points_of(run, from, name, axis));
    const style = { color: g.color, dash: g.dash, dots: from === 'eval' };
    if (g.runs.length === 1) return [{ name: g.label, points: each[0], ...style }];
    const thin = g.runs.length <= 30 ? each.map(points => ({ points, color: g.color, thin: true, quiet: true })) : [];
    return [...thin, { name: g.label, points: mean_line(each), ...style }];
  }).filter(l => l.points.length);
}
// Returns the symbol (KINDS) of an event; null: the event has no symbol.
function event_kind(e) {
  if (e.event === 'start') return e.part > 1 || known(e.resumed_at_update) ? 'resume' : null;
  if (e.event === 'end') return e.status === 'completed' ? null : e.status === 'stopped' ? 'stopped' : 'failed';
  return e.event === 'nonfinite' ? 'failed' : 'warning';
}
function event_text(e) {
  if (e.event === 'start') {
    const lost = e.reached > e.resumed_at_update ? `; updates up to ${count(e.reached)} were done again` : '';
    const changed = list(e.changed).map(c => `; ${c.option} ${c.before}, now ${c.now}`).join('');
    return `part ${e.part}: ${e.resumed_at_update ? `went on after update ${count(e.resumed_at_update)}` : 'started'}${lost}${changed}`;
  }
  if (e.event === 'end') return `${e.status} (exit ${e.exit_code})${e.message ? `: ${e.message}` : ''}`;
  if (e.event === 'nonfinite') return `not finite: ${[e.cause, e.layer, e.operator, e.folder].filter(Boolean).join(', ')}`;
  return e.message || e.event;
}
const marks_of = (run, axis) => run.events.filter(event_kind).map(e => ({ x: axis.of(run, e), kind: event_kind(e), text: event_text(e), quiet: e.event === 'warning' }));

function draw_curves(node, axis) {
  forget('curves');
  const x = { label: axis.label, format: axis.format, show: axis.show, min: 0 }, one = runs.length === 1 && runs[0], figures = [];
  if (runs.some(r => r.events.length)) figures.push(timeline(axis));
  const add = (title, quantity, lines, more) => {
    const values = lines.flatMap(l => l.points.map(p => p[1]));
    if (!values.length || (quantity.varies && !differs(values, v => v))) return;
    if (!one && lines.every(l => l.points.length < 2)) return; // the table has these values already
    figures.push(chart({ title, lines, x, y: quantity.y, logs: quantity.logs, cohort: 'curves', ...more }));
  };
  for (const quantity of QUANTITIES) {
    if (one) add(quantity.title, quantity, lines_of_run(one, quantity, axis), { marks: marks_of(one, axis) });
    else for (const source of quantity.of)
      add(quantity.of.length > 1 ? `${quantity.title}, ${source[2]}` : quantity.title, quantity, lines_of_groups(source, axis), { key: false });
  }
  node.replaceChildren(...figures);
  settle();
}
function show_curves() {
  if (!runs.some(r => r.train.length || r.eval.length || r.events.length)) return;
  const figures = el('div', { class: 'charts' }), controls = el('div', { class: 'controls' });
  let axis = AXES.update;
  const axes = [['update', 'updates'], ['epoch', 'epochs'], ['time', 'time']].filter(([id]) => id !== 'epoch' || runs.every(r => known(r.per_epoch)));
  const node = section('curves', 'Curves', controls);
  choose(controls.appendChild(el('div', { class: 'choice' })), 'Horizontal axis', axes, 'update', id => { axis = AXES[id]; draw_curves(figures, axis); });
  if (groups.length > 1)
    node.append(el('div', { class: 'key', role: 'group', 'aria-label': 'Configurations shown' }, groups.map(g => el('button', { type: 'button', 'aria-pressed': true, onclick: e => {
      g.shown = !g.shown;
      e.currentTarget.setAttribute('aria-pressed', g.shown);
      draw_curves(figures, axis);
    } }, swatch({ color: g.color, dash: g.dash }), g.label))));
  if (groups.some(g => g.runs.length > 1)) node.append(el('p', { class: 'soft small' }, `Thick: mean over ${repeats(groups)}s; band: ± one standard deviation; thin: each ${repeats(groups)}.`));
  node.append(figures);
  const events = runs.flatMap(run => run.events.filter(e => event_kind(e) || e.event === 'end').map(e => ({ run, e })));
  const shown = events.slice(0, 300);
  if (events.length)
    node.append(details(`Events: ${events.length}`, events.some(({ e }) => event_kind(e)) && events.length <= 12, table(null, [...(runs.length > 1 ? ['run'] : []), 'update', 'time', { text: 'what', class: 'text' }],
      shown.map(({ run, e }) => [...(runs.length > 1 ? [run.name] : []), count(e.update), duration(e.seconds), { text: event_text(e), class: 'text' }])),
    events.length > shown.length ? el('p', { class: 'soft small' }, `and ${events.length - shown.length} more`) : null));
}

// Draws the parts and events of the runs on the axis of the curves.
function timeline(axis) {
  const of = runs.filter(r => r.events.length || r.train.length).slice(0, 40), ROW = 30;
  const figure = el('figure', { style: 'grid-column: 1 / -1' }, el('div', { class: 'head' }, el('h3', {}, 'What happened')),
    key_of_kinds(of)), holder = el('div', {});
  figure.append(holder);
  const reach = run => Math.max(0, ...[...run.train.slice(-1), ...run.eval.slice(-1), ...run.events].map(r => axis.of(run, r)).filter(known));
  const most = Math.max(...of.map(reach), 1e-9);
  function row(run, i, width) {
    const left = 4, right = width - 10, y = i * ROW + 21, X = v => left + (right - left) * v / most;
    const starts = run.events.filter(e => e.event === 'start'), begins = starts.map(e => axis.of(run, e));
    const parts = (begins.length ? begins : [0]).map((from, k) => ({ from, to: k + 1 < begins.length ? begins[k + 1] : reach(run), k }));
    const color = group_of(run).color;
    return [svg('text', { x: left, y: y - 9 }, of.length > 1 ? run.name : `${parts.length > 1 ? `${parts.length} parts` : '1 part'}, ${plural(run.checkpoints.length, 'checkpoint')}`),
      parts.map(p => svg('rect', { x: X(p.from) + (p.k ? 1 : 0), y: y - 3, width: Math.max(1, X(p.to) - X(p.from) - (p.k ? 1 : 0)), height: 6, rx: 1.5, fill: color, opacity: p.k % 2 ? 0.45 : 0.75 },
        svg('title', {}, `${run.name}, part ${p.k + 1}: ${axis.show(p.from)} to ${axis.show(p.to)}`))),
      starts.filter(e => e.reached > e.resumed_at_update && axis !== AXES.time).map(e => svg('line', { x1: X(axis.of(run, e)), x2: X(axis.of(run, { ...e, update: e.reached })), y1: y + 6, y2: y + 6, stroke: 'var(--bad)', 'stroke-width': 2, 'stroke-dasharray': '2 2' }, svg('title', {}, event_text(e)))),
      run.checkpoints.map(c => axis.of(run, c)).filter(known).map(x => symbol('checkpoint', X(x), y + 6.5, null)),
      marks_of(run, axis).filter(m => known(m.x)).map(m => symbol(m.kind, X(m.x), y, m.text))];
  }
  function draw() {
    const width = Math.max(240, holder.clientWidth || 480);
    const total = runs.flatMap(r => r.events.map(event_kind)).filter(Boolean).length;
    holder.replaceChildren(svg('svg', { viewBox: `0 0 ${width} ${of.length * ROW + 4}`, height: of.length * ROW + 4, role: 'img', 'aria-label': `Parts and events of ${plural(of.length, 'run')}: ${plural(total, 'event')}, listed below the curves.` },
      of.map((run, i) => row(run, i, width))));
  }
  on_width(holder, draw);
  return figure;
}
function key_of_kinds(of) {
  const kinds = unique(of.flatMap(r => r.events.map(event_kind))).filter(Boolean);
  if (of.some(r => r.checkpoints.length)) kinds.push('checkpoint');
  return el('div', { class: 'key' }, kinds.map(kind => el('span', {}, svg('svg', { width: 14, height: 12, viewBox: '-7 -6 14 12', 'aria-hidden': true, style: 'width:14px' }, symbol(kind, 0, 0)), KINDS[kind].name)),
    of.some(r => r.events.some(e => e.reached > e.resumed_at_update)) ? el('span', {}, svg('svg', { width: 22, height: 10, viewBox: '0 0 22 10', 'aria-hidden': true }, svg('line', { x1: 1, x2: 21, y1: 5, y2: 5, stroke: 'var(--bad)', 'stroke-width': 2, 'stroke-dasharray': '2 2' })), 'done again') : null);
}

// --- where the time went -------------------------------------------------------------------------

const SHARES = [['start', 'start, first update', 'var(--sky)'], ['compute', 'computation', 'var(--blue)'], ['loader', 'waiting for the loader', 'var(--amber)'],
  ['communication', 'exposed communication', 'var(--red)'], ['evaluation', 'evaluation', 'var(--green)'], ['checkpoint', 'checkpoints', 'var(--purple)'], ['other', 'other', 'var(--grey)']];
// Returns how the time between two records of a part was spent, without evaluation. before: null at the part's start.
function time_between(run, before, r) {
  const of = name => (r[name] - (before ? before[name] : 0)) || 0;
  if (known(r['time_spent.seconds']))
    return { start: before ? 0 : r.part_seconds - r['time_spent.seconds'], compute: of('time_spent.compute'), loader: of('time_spent.loader_wait'), communication: of('time_spent.communication_exposed'),
      checkpoint: of('time_spent.checkpoint'), other: of('time_spent.other') };
  const from = before ? before.seconds : r.seconds - r.part_seconds, within = events => events.filter(e => e.part === r.part && e.seconds > from && e.seconds <= r.seconds);
  const time = { start: 0, loader: of('loader_wait_seconds'), communication: of('comm_seconds_exposed'), checkpoint: sum(within(run.checkpoints).map(c => c.held_seconds || 0)), other: 0 };
  return { ...time, compute: of('part_seconds') - time.loader - time.communication - time.checkpoint - sum(within(run.eval).map(e => e.took || 0)) };
}
// Returns how the time of each epoch of a run was spent. metrics.jsonl counts the times from the start of a part. The
// evaluation after an epoch counts for that epoch, although it runs at the beginning of the next one.
function times_of_epochs(run) {
  const rows = run.epochs.map((r, i) => {
    const one_before = run.epochs[i - 1], before = one_before && one_before.part === r.part ? one_before : null;
    return { epoch: r.epoch, update: r.update, part: r.part, whole: r.epoch > (one_before ? one_before.epoch : 0), ...time_between(run, before, r), evaluation: 0 };
  });
  for (const e of run.eval) {
    const row = rows.filter(r => r.part === e.part).find(r => r.epoch >= e.epoch) || last(rows);
    if (row) row.evaluation += e.took || 0;
  }
  rows.forEach(r => SHARES.forEach(([name]) => { r[name] = Math.max(0, r[name] || 0); }));
  return rows;
}
// Returns how the time of a whole run was spent. The run's own count covers only its last part. A run of several parts,
// or without such a count, gets the sum of its epochs.
function time_of(run) {
  const of = run.summary.time || run.time_spent, parts = run.events.filter(e => e.event === 'start').length;
  if (of && known(of.seconds) && parts < 2) {
    const start = run.summary.time_to_first_update_seconds || 0;
    return { start, seconds: of.seconds + start, compute: of.compute, loader: of.loader_wait, communication: of.communication_exposed, evaluation: of.evaluation, checkpoint: of.checkpoint, other: of.other };
  }
  const rows = times_of_epochs(run), total = Object.fromEntries(SHARES.map(([name]) => [name, sum(rows.map(r => r[name]))]));
  return { ...total, seconds: sum(Object.values(total)) };
}
const square = color => el('span', { class: 'sw', style: `background:${color}` });

// Draws stacked bars, one for each epoch.
function bars(title, rows) {
  const figure = el('figure', {}, el('div', { class: 'head' }, el('h3', {}, title)), el('div', { class: 'key' }, SHARES.filter(([name]) => rows.some(r => r[name] > 0)).map(([, text, color]) => el('span', {}, square(color), text))));
  const holder = el('div', { style: 'position:relative' }), tip = el('div', { class: 'tip', hidden: '', role: 'status' });
  const total = r => sum(SHARES.map(([name]) => r[name]));
  function draw() {
    const width = Math.max(240, holder.clientWidth || 480), height = 220, most = Math.max(...rows.map(total), 1e-9);
    const y = ticks_time(0, most, 5), labels = y.ticks.map(v => clock(v, y.step)), left = 10 + 6.4 * Math.max(...labels.map(t => t.length)), right = width - 8, bottom = height - 32, top = 8;
    const Y = v => bottom - (bottom - top) * v / most, step = (right - left) / rows.length, gap = step > 6 ? Math.min(step * 0.2, 10) : 0;
    const every = Math.ceil(rows.length / Math.max(2, (right - left) / 34));
    let at = -1;
    const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', tabindex: 0, 'aria-label': `${title}, ${plural(rows.length, 'epoch')}. Arrow keys step through them.` },
      y.ticks.map((v, i) => [svg('line', { class: 'grid', x1: left, x2: right, y1: Y(v), y2: Y(v) }), svg('text', { x: left - 6, y: Y(v) + 4, 'text-anchor': 'end' }, labels[i])]),
      rows.map((r, i) => {
        let y0 = 0;
        return svg('g', { opacity: r.whole ? 1 : 0.6 }, SHARES.filter(([name]) => r[name] > 0).map(([name, , color]) => svg('rect', { x: left + i * step + gap / 2, width: Math.max(0.5, step - gap), y: Y(y0 += r[name]), height: Math.max(0, (bottom - top) * r[name] / most), fill: color })));
      }),
      rows.map((r, i) => i % every === 0 ? svg('text', { x: left + (i + 0.5) * step, y: bottom + 16, 'text-anchor': 'middle' }, r.whole ? count(r.epoch) : `${count(r.epoch + 1)}…`) : null),
      svg('line', { class: 'axis', x1: left, x2: right, y1: bottom, y2: bottom }), svg('text', { x: right, y: height - 2, 'text-anchor': 'end' }, 'epoch'));
    function point(i) {
      at = i;
      tip.hidden = i < 0;
      if (i < 0) return;
      const r = rows[i], px = left + (i + 0.5) * step;
      tip.replaceChildren(el('div', { class: 'where' }, `${r.whole ? `epoch ${count(r.epoch)}` : `part ${r.part}, up to update ${count(r.update)}`}: ${duration(total(r))}`),
        el('table', {}, el('tbody', {}, SHARES.filter(([name]) => r[name] > 0).map(([name, text, color]) => el('tr', {}, el('td', {}, square(color)), el('td', { class: 'left' }, text), el('td', {}, duration(r[name])), el('td', {}, percent(r[name] / total(r), 1)))))));
      put_tip(tip, holder, px);
    }
    root.addEventListener('pointermove', e => point(clamp(Math.floor(((e.clientX - root.getBoundingClientRect().left) * width / root.getBoundingClientRect().width - left) / step), 0, rows.length - 1)));
    root.addEventListener('pointerleave', () => point(-1));
    root.addEventListener('blur', () => point(-1));
    root.addEventListener('keydown', e => {
      if (e.key !== 'ArrowRight' && e.key !== 'ArrowLeft') return;
      e.preventDefault();
      point(clamp(at + (e.key === 'ArrowRight' ? 1 : -1), 0, rows.length - 1));
    });
    holder.replaceChildren(root, tip);
  }
  figure.append(holder);
  on_width(holder, draw);
  return figure;
}
// Draws one bar for the whole time. parts: [name, text, color, seconds].
function whole_bar(title, parts, seconds) {
  const shown = parts.filter(p => p[3] > 0);
  let x = 0;
  return el('figure', {}, el('div', { class: 'head' }, el('h3', {}, title), el('span', { class: 'soft small' }, duration(seconds))),
    svg('svg', { viewBox: '0 0 100 5', preserveAspectRatio: 'none', height: 18, style: 'height:18px', role: 'img', 'aria-label': shown.map(p => `${p[1]} ${percent(p[3] / seconds, 1)}`).join(', ') },
      shown.map(p => {
        const width = 100 * p[3] / seconds, at = x;
        x += width;
        return svg('rect', { x: at, y: 0, width: Math.max(0, width - 0.15), height: 5, fill: p[2] }, svg('title', {}, `${p[1]}: ${duration(p[3])}`));
      })),
    el('table', {}, el('tbody', {}, shown.map(p => el('tr', {}, el('th', { scope: 'row' }, p[2] ? square(p[2]) : null, p[1]), el('td', {}, duration(p[3])), el('td', {}, percent(p[3] / seconds, 1)))))));
}
function show_times() {
  const timed = runs.filter(r => time_of(r).seconds > 0);
  if (!timed.length) return;
  const node = section('time', 'Where the time went');
  if (runs.length > 1) {
    node.append(table('Of each run, on its rank 0', ['run', 'in all', ...SHARES.map(([, text, color]) => ({ text: [square(color), text] }))], timed.map(run => {
      const t = time_of(run);
      return [run.name, duration(t.seconds), ...SHARES.map(([name]) => known(t[name]) ? { text: percent(t[name] / t.seconds, 1), title: duration(t[name]) } : DASH)];
    })));
    return;
  }
  const run = timed[0], t = time_of(run), rows = times_of_epochs(run), charts_node = el('div', { class: 'charts' });
  charts_node.append(whole_bar('The whole run', SHARES.map(([name, text, color]) => [name, text, color, t[name]]), t.seconds));
  const counted = run.summary.time || run.time_spent || {}, kinds = Object.entries(counted.compute_by_kind || {}).filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]);
  if (kinds.length) charts_node.append(whole_bar(`Computation by kind${run.events.filter(e => e.event === 'start').length > 1 ? ', last part' : ''}`, kinds.map(([name, v], i) => [name, name.replace(/_/g, ' '), color_of(i), v]), sum(kinds.map(k => k[1]))));
  if (rows.length > 1) charts_node.append(bars('Each epoch', rows));
  node.append(charts_node, el('p', { class: 'soft small' }, 'Of rank 0. Exposed: what computation waited for. ', known(counted.seconds) ? '' : 'Computation is what the other counts leave; the first epoch’s holds the start.'));
}

// --- evaluation ----------------------------------------------------------------------------------

const MATRIX_MAX = 24;
function confusion_table(e, names) {
  const totals = e.confusion.map(sum), tall = names.some(name => name.length > 4);
  return el('div', { class: 'wide confusion', tabindex: 0, role: 'region', 'aria-label': 'Confusion matrix' }, el('table', {},
    el('caption', {}, 'Confusion matrix: rows are the true classes, columns the predictions'),
    el('thead', {}, el('tr', {}, el('td', {}), names.map(name => el('th', { scope: 'col' }, el('span', { class: tall ? 'tall' : null }, name))))),
    el('tbody', {}, e.confusion.map((row, i) => el('tr', {}, el('th', { scope: 'row' }, names[i]), row.map((n, j) => {
      const share = totals[i] ? n / totals[i] : 0, strength = i === j ? 0.08 + 0.42 * share : Math.min(0.6, 1.6 * Math.sqrt(share) * (n > 0) * 0.6);
      const cell = el('td', { title: `${names[i]} as ${names[j]}: ${n} of ${totals[i]}` }, n ? count(n) : el('span', { class: 'soft' }, '·'));
      if (n) cell.style.background = `color-mix(in srgb, var(${i === j ? '--blue' : '--red'}) ${(100 * strength).toFixed(0)}%, transparent)`;
      return cell;
    }))))));
}
// Returns the entries of the confusion matrix that are not 0, as [true class, prediction, count].
function pairs_of(e) {
  if (!e.confusion) return list(e.confusions);
  return e.confusion.flatMap((row, i) => list(row).map((n, j) => [i, j, n])).filter(pair => pair[2] > 0);
}
function totals_of(pairs) {
  const totals = {};
  for (const [i, , n] of pairs) totals[i] = (totals[i] || 0) + n;
  return totals;
}
// Draws the confusion matrix of many classes: one point for each pair, in eight strengths.
function confusion_map(e, names) {
  const pairs = pairs_of(e), totals = totals_of(pairs), levels = Array.from({ length: 8 }, () => []), n = names.length;
  for (const [i, j, v] of pairs) levels[Math.min(7, Math.floor(8 * Math.sqrt(v / totals[i])))].push(`M${+j} ${+i}h1v1h-1z`);
  return el('figure', {}, el('div', { class: 'head' }, el('h3', {}, 'Confusion matrix')), svg('svg', { viewBox: `0 0 ${n} ${n}`, role: 'img', 'aria-label': `Confusion matrix of ${n} classes`, 'shape-rendering': 'crispEdges', style: 'max-width:560px;background:var(--grid)' },
    levels.map((d, k) => d.length ? svg('path', { d: d.join(''), fill: 'var(--blue)', opacity: (k + 1.5) / 9.5 }) : null)),
  el('figcaption', {}, 'Rows: true classes; columns: predictions; the darker, the larger the share of the row.'));
}
function confused_pairs(e, names) {
  const pairs = pairs_of(e), totals = totals_of(pairs), wrong = pairs.filter(([i, j]) => i !== j).sort((a, b) => b[2] - a[2] || a[0] - b[0]);
  return wrong.length ? table('Confused most often', ['true class', { text: 'predicted', class: 'left' }, 'pictures', 'of the class'],
    wrong.slice(0, 10).map(([i, j, n]) => [name_of(names, i), { text: name_of(names, j), class: 'left' }, count(n), percent(n / totals[i], 1)])) : null;
}
function class_table(e) {
  const meter = v => known(v) ? [el('span', { class: 'meter', 'aria-hidden': true }, el('i', { style: `width:${100 * clamp(v, 0, 1)}%` })), percent(v, 1)] : DASH;
  const rows = list(e.per_class).slice().sort((a, b) => (a.recall ?? 2) - (b.recall ?? 2)).map(c => [String(c.name), count(c.samples), { text: meter(c.recall) }, { text: percent(c.precision, 1) }]);
  const all = table('Each class, the weakest first', ['class', 'samples', 'recall (its accuracy)', 'precision'], rows);
  return rows.length > 30 ? el('div', {}, table('The ten weakest classes', ['class', 'samples', 'recall (its accuracy)', 'precision'], rows.slice(0, 10).map(r => r.slice())), details(`All ${rows.length} classes`, false, all)) : all;
}
function calibration(e) {
  const bins = list(e.bins).filter(b => b.count > 0), all = sum(bins.map(b => b.count));
  if (!bins.length) return null;
  return chart({ title: 'Calibration', height: 260, key: true, cohort: 'evaluation', x: { label: 'probability of the prediction', format: 'percent', show: v => percent(v, 1), min: 0, max: 1 }, y: { format: 'percent', show: v => percent(v, 1), min: 0, max: 1 },
    lines: [{ name: 'as calibrated', color: 'var(--grey)', dash: '2 3', points: [[0, 0], [1, 1]], quiet: true },
      { name: 'accuracy', color: 'var(--blue)', dots: true, points: bins.map(b => Object.assign([b.confidence, b.accuracy], { more: `${count(b.count)} pictures (${percent(b.count / all, 1)})` })) }],
    note: `Accuracy of the pictures by the probability of their prediction. Expected calibration error ${percent(e.calibration_error)}: ${e.calibration_error > 0 ? 'the mean distance from the dotted line' : 'none'}.` });
}
const name_of = (names, c) => typeof c === 'number' ? String(names[c] ?? c) : String(c ?? DASH);
function mistakes(e, names) {
  const of = list(e.mistakes);
  if (!of.length) return null;
  return el('div', {}, el('h3', { style: 'margin-top:1.2rem' }, 'The most confident mistakes'), el('ul', { class: 'mistakes' }, of.map(m => {
    const safe = typeof m.picture === 'string' && /^[A-Za-z0-9+/=]+$/.test(m.picture), where = m.path || `sample ${m.index}`;
    return el('li', { title: where }, safe ? el('img', { src: `data:image/png;base64,${m.picture}`, alt: `${where}: ${name_of(names, m.label)}, taken for ${name_of(names, m.prediction)}`, loading: 'lazy' }) : el('span', { class: 'none' }),
      el('b', {}, name_of(names, m.label)), el('div', { class: 'bad' }, `as ${name_of(names, m.prediction)}`), el('div', { class: 'soft' }, `${percent(m.probability, 1)} · ${m.path ? short_path(m.path) : `#${m.index}`}`));
  })));
}
function draw_evaluation(node, run) {
  forget('evaluation');
  const e = run.evaluation, names = list(e.classes).map(String), small = names.length <= MATRIX_MAX && list(e.confusion).length === names.length && e.confusion.every(row => list(row).length === names.length);
  node.replaceChildren(el('dl', { class: 'tiles' }, tile(known(e.exact_match) ? 'all labels right' : 'accuracy', percent(e.exact_match ?? e.top1), `${known(e.samples) ? `of ${count(e.samples)} ` : ''}(${e.set || 'test'}${e.of === 'tta' ? ', with test-time augmentation' : ''})`, 'top1', e.exact_match ?? e.top1),
    known(e.macro_f1) ? tile('macro F1', number(e.macro_f1), 'mean over the labels', 'macro_f1', e.macro_f1) : null,
    known(e.top5) ? tile('top-5 accuracy', percent(e.top5), 'right class among the five likeliest', 'top5', e.top5) : null,
    tile('loss', number(e.loss), '', 'loss', e.loss), known(e.exact_match) ? null : tile('calibration error', percent(e.calibration_error), 'expected, 15 bins', 'calibration_error', e.calibration_error)),
  ...(small ? [confusion_table(e, names)] : []),
  el('div', { class: 'columns', style: 'margin-top:1rem' }, el('div', { class: 'stack' }, small || !pairs_of(e).length ? null : confusion_map(e, names), class_table(e)), known(e.exact_match) ? null : el('div', { class: 'stack' }, calibration(e), confused_pairs(e, names))),
  ...[mistakes(e, names)].filter(Boolean));
  settle();
}
function show_evaluation() {
  const some = runs.filter(r => r.evaluation);
  if (!some.length) return;
  const node = section('evaluation', 'Evaluation'), body = el('div', {});
  if (some.length > 1)
    node.append(el('div', { class: 'controls' }, el('label', {}, 'Run ', el('select', { onchange: e => draw_evaluation(body, some[e.target.value]) }, some.map((r, i) => el('option', { value: i }, r.name))))));
  node.append(body);
  draw_evaluation(body, some[0]);
}

// --- configuration and environment ---------------------------------------------------------------

const plain = v => v === '' || v === undefined ? '(empty)' : String(v);
const code = text => el('code', {}, text);
const FACTS = [['version', 'lockstep'], ['device', 'device'], ['device_name', 'name of the device'], ['libraries', 'libraries'], ['communicator', 'communication'], ['gradient_sums', 'sums of gradients'],
  ['world_size', 'ranks'], ['threads_per_rank', 'threads of a rank'], ['precision', 'precision'], ['deterministic', 'ordered mode'], ['dataset', 'data set'], ['train_samples', 'training samples'], ['val_samples', 'validation samples'],
  ['test_samples', 'test samples'], ['model', 'network'], ['parameters', 'parameters'], ['seed', 'seed'], ['global_batch', 'global batch'], ['micro_batch', 'micro-batch'], ['accumulation_steps', 'accumulation steps'], ['weights_hash', 'hash of the weights'], ['run', 'identity']];
const fact = v => v === undefined || v === null ? DASH : typeof v === 'number' ? count(v) : typeof v === 'object' ? JSON.stringify(v) : String(v);

function options_of_one(options, defaults) {
  const names = Object.keys(options), other = names.filter(n => (defaults[n] ?? '') !== options[n]), same = names.filter(n => !other.includes(n));
  const row = n => [code(n), { text: plain(options[n]), class: 'text' }, { text: n in defaults ? plain(defaults[n]) : 'not known to this version', class: 'text soft' }];
  const head = ['option', { text: 'value', class: 'text' }, { text: 'default', class: 'text' }];
  return [other.length ? table(`${plural(other.length, 'option')} that ${other.length === 1 ? 'differs' : 'differ'} from the default`, head, other.map(row)) : el('p', {}, 'All options have their defaults.'),
    same.length ? details(`${same.length} at their defaults`, false, table(null, head.slice(0, 2), same.map(n => row(n).slice(0, 2)))) : null];
}
function options_of_many(defaults) {
  const names = option_names.filter(n => !['run.name'].includes(n)), other = names.filter(n => differs(runs, r => r.options[n]));
  const by_group = runs.length > 8, columns = by_group ? groups.map(g => [g.label, g.runs[0]]) : runs.map(r => [r.name, r]);
  const of = by_group ? other.filter(n => n !== 'run.seed') : other;
  const alike = Object.fromEntries(names.filter(n => !other.includes(n)).map(n => [n, runs[0].options[n]]));
  return [of.length ? table(`What differs between the ${by_group ? 'configurations' : 'runs'}`, ['option', ...columns.map(([name]) => ({ text: name, class: 'text' })), { text: 'default', class: 'text' }],
    of.map(n => [code(n), ...columns.map(([, r]) => ({ text: plain(r.options[n]), class: r.options[n] === defaults[n] ? 'text same' : 'text other' })), { text: plain(defaults[n]), class: 'text soft' }]))
    : el('p', {}, runs.some(r => Object.keys(r.options).length) ? 'The configurations differ in nothing but the seed.' : 'No config.ini is there.'),
  Object.keys(alike).length ? [el('h3', { style: 'margin-top:1rem' }, 'Alike in all'), options_of_one(alike, defaults)] : null];
}
function networks() {
  const texts = unique(runs.map(r => r.network).filter(Boolean));
  return texts.slice(0, 12).map(text => details(`Network${texts.length > 1 ? ` of ${runs.filter(r => r.network === text).map(r => r.name).join(', ')}` : ''}`, false, el('div', { class: 'wide' }, el('pre', {}, text))));
}
function ranks_table(run) {
  if (!run.ranks.length) return null;
  const names = ['host', 'device', 'name', 'cpus', 'pci', 'uuid'].filter(n => run.ranks.some(r => r[n]));
  const rows = table('Ranks', ['rank', ...names.map(n => ({ text: n, class: 'text' }))], run.ranks.slice(0, 256).map(r => [String(r.rank), ...names.map(n => ({ text: r[n] || DASH, class: 'text' }))]));
  return run.ranks.length > 8 ? details(`${run.ranks.length} ranks`, false, rows) : rows;
}
function parts_table(run) {
  const parts = list(run.summary.parts);
  if (parts.length < 2) return null;
  return table('Parts of the run', ['part', 'after update', 'started', 'ranks', { text: 'device', class: 'text' }, { text: 'version', class: 'text' }, { text: 'changed', class: 'text' }],
    parts.map((p, i) => [String(i + 1), count(p.after_update), date(p.started), fact(p.world_size), { text: p.device_name || p.device, class: 'text' }, { text: p.version, class: 'text' }, { text: list(p.changed).map(c => `${c.option} ${c.before}, now ${c.now}`).join('; ') || DASH, class: 'text' }]));
}
function flat(object, before = '') {
  return Object.entries(object).flatMap(([name, v]) => v !== null && typeof v === 'object' && !Array.isArray(v) ? flat(v, `${before}${name}.`) : Array.isArray(v) ? [] : [[before + name, v]]);
}
function show_configuration() {
  if (!runs.length) return;
  const defaults = data.defaults || {}, node = section('configuration', 'Configuration'), one = runs.length === 1 && runs[0];
  fill(node, null, one ? (Object.keys(one.options).length ? options_of_one(one.options, defaults) : [el('p', {}, 'No config.ini is there.')]) : options_of_many(defaults));
  fill(node, null, networks());
  const place = section('environment', 'Environment'), facts = FACTS.filter(([name]) => runs.some(r => r.info[name] !== undefined));
  const unknown = one && (one.summary.energy || {}).unknown, more = unknown ? [['energy', { text: `not measured: ${unknown}`, class: 'text' }]] : [];
  if (one) fill(place, null, [el('div', { class: 'columns' }, table(null, null, facts.map(([name, text]) => [text, { text: fact(one.info[name]), class: 'text' }]).concat(more)), el('div', {}, ranks_table(one), parts_table(one)))]);
  else {
    const other = facts.filter(([name]) => !['run', 'weights_hash', 'seed'].includes(name) && differs(runs, r => fact(r.info[name]))), same = facts.filter(f => !other.includes(f) && !['run', 'weights_hash', 'seed'].includes(f[0]));
    if (other.length) place.append(table('What differs', ['run', ...other.map(([, text]) => ({ text, class: 'text' }))], runs.map(r => [r.name, ...other.map(([name]) => ({ text: fact(r.info[name]), class: 'text' }))])));
    place.append(table('Alike in all', null, same.map(([name, text]) => [text, { text: fact(runs[0].info[name]), class: 'text' }])));
  }
  for (const run of runs.slice(0, 50))
    if (run.summary.status) place.append(details(one ? 'All of summary.json' : `All of summary.json of ${run.name}`, false, table(null, null, flat(run.summary).map(([name, v]) => [code(name), { text: v === null ? 'null' : String(v), class: 'text', key: `summary.${name}`, value: String(v) }]))));
}

// --- benchmarks ----------------------------------------------------------------------------------

const METHOD = 'Every round measures every arrangement once, beginning with another one each time, so that a machine that grows slower or faster does so for all; ranks that take no part in one sleep, and a rank has the same number of threads in each. A measurement is a number of updates that was fixed after warming up, timed by the slowest rank, after one update outside of it. On CPU ranks the same updates are then made without communication, every rank by itself at the same time. docs/benchmarks.md has the formulas.';
const range = (low, high) => known(low) && known(high) ? `${number(low, 5)} to ${number(high, 5)}` : DASH;

// Returns the lines of the charts. Arrangements that differ only in their number of ranks are one line.
function series_of(bench) {
  const all = list(bench.arrangements).filter(a => !a.failure && known(a.images_per_second)), found = [];
  for (const base of all.filter(a => a.efficiency_over === a.arrangement))
    for (const scaling of ['strong', 'weak']) {
      const members = all.filter(a => a.efficiency_over === base.arrangement && (a === base || a.scaling === scaling)).sort((a, b) => a.ranks - b.ranks);
      if (members.length > 1 || (scaling === base.scaling)) found.push({ base, scaling, members, name: `${base.device}, ${scaling}${base.settings ? `, ${base.settings}` : ''}` });
    }
  return found.map((s, i) => ({ ...s, color: color_of(i) }));
}
function scaling_charts(bench) {
  const all = series_of(bench), most = Math.max(2, ...list(bench.arrangements).map(a => a.ranks || 1));
  const ticks = Array.from({ length: Math.ceil(Math.log2(most)) + 1 }, (_, i) => 2 ** i), thinned = ticks.filter((_, i) => most <= 64 || i % 2 === 0);
  const x = { label: 'ranks', format: 'count', show: v => count(v), log: true, ticks: thinned, min: 1, max: most };
  const draw = (title, y, value, measured) => chart({ title, x, y, height: 300, cohort: 'bench', lines: all.flatMap(s => {
    const ideal = ranks => [ranks, value(s, ranks, 1)];
    return [{ name: s === all[0] ? 'ideal' : '', points: [ideal(s.base.ranks), ideal(most)], color: 'var(--grey)', dash: '1 4' },
      { name: s.name, color: s.color, dots: true, points: s.members.map(a => measured(a)) }].filter(l => l.points.length);
  }) });
  return el('div', { class: 'charts' },
    draw('Images/s', { format: 'count', show: v => number(v, 5), log: true }, (s, ranks, efficiency) => efficiency * s.base.images_per_second * ranks / s.base.ranks, a => spread_point(a, 1)),
    draw('Efficiency', { format: 'percent', show: v => percent(v, 1), min: 0, max: 1.2 }, (s, ranks, efficiency) => efficiency, a => spread_point(a, a.efficiency / a.images_per_second)));
}
const spread_point = (a, scale) => Object.assign([a.ranks, a.images_per_second * scale], { more: `${number(a.images_per_second_lowest, 5)} to ${number(a.images_per_second_highest, 5)} images/s` });

function bench_tables(bench) {
  const scaled = (v, by, digits) => known(v) ? number(by * v, digits) : DASH;
  const all = list(bench.arrangements).filter(a => !a.failure);
  return [table('Throughput: medians of the rounds. Efficiency: images/s of one rank over that of one in the arrangement of the fewest ranks', ['arrangement', 'threads', 'cores or GPUs', 'batch', 'images/s', 'lowest to highest', '95 % interval', 'speed-up', 'efficiency', 'by core or GPU'],
    all.map(a => [a.arrangement, `${a.ranks} ${TIMES} ${a.threads_per_rank}`, `${number(a.units)}${a.shared ? ', shared' : ''}`, count(a.global_batch), { text: number(a.images_per_second, 5), key: 'images_per_second', value: String(a.images_per_second) }, range(a.images_per_second_lowest, a.images_per_second_highest), range(a.images_per_second_low_95, a.images_per_second_high_95), number(a.speed_up, 3), percent(a.efficiency, 1), percent(a.unit_efficiency, 1)])),
  table('Where the time goes. Communication: exposed, what computation waited for; cost, by what share the same without it is shorter', ['arrangement', 'update', 'loader wait', 'comm exposed', 'comm cost', 'bus GB/s', 'GFLOP/s', 'matmul GFLOP/s', 'share', 'memory a rank', 'first update'],
    all.map(a => [a.arrangement, duration(a.update_seconds), percent(a.loader_wait_share, 1), percent(a.comm_exposed_share, 1), percent(a.comm_cost_share, 1), number(a.bus_gbytes_per_second, 3), number(a.gflops, 4), number(a.matmul_peak_gflops, 4), percent(a.share_of_matmul_peak, 1), bytes(a.memory_bytes_per_rank || NaN), duration(a.first_update_seconds)])),
  list(bench.links).length ? table('All-reduces of 8 bytes to 8 MiB of host memory, as a line: one of n bytes takes latency + n / (MB/s)', ['ranks', 'latency, µs', 'MB/s', 'off by'], bench.links.map(l => [`${l.ranks}${l.shared ? ', shared cores' : ''}`, scaled(l.latency_seconds, 1e6, 3), scaled(l.bytes_per_second, 1e-6, 4), percent(l.relative_rms, 1)])) : null];
}
function show_bench(one, index) {
  const bench = one.bench, first = list(bench.arrangements)[0] || {}, id = index ? `bench-${index + 1}` : 'bench';
  const many = list(data.benches).length > 1;
  const node = section(id, many ? `Benchmark ${one.name}` : runs.length ? 'Benchmark' : 'Scaling', el('p', { class: 'soft' }, [short_path(first.model), first.dataset, first.device_name, first.precision, bench.host].filter(Boolean).join(' · ')), scaling_charts(bench));
  for (const a of list(bench.arrangements)) if (a.failure) node.append(el('div', { class: 'say bad' }, el('p', {}, `Left out: ${a.failure}`)));
  fill(node, null, bench_tables(bench));
  const facts = [['network', first.model], ['data', first.dataset], ['device', first.device_name], ['processor', bench.processor], ['host', bench.host], ['ranks started', bench.world_size],
    ['rounds', known(bench.rounds) ? `${bench.rounds} of ${number(bench.seconds_per_measurement)} s for each arrangement` : null], ['lockstep', bench.version], ['compiler', bench.compiler], ['libraries', bench.libraries], ['MPI', bench.mpi], ['date', date(bench.time)]].filter(([, v]) => v !== undefined && v !== null && v !== '');
  node.append(el('h3', { style: 'margin-top:1.4rem' }, 'How it was measured'), el('p', { class: 'soft' }, METHOD), el('div', { class: 'columns' }, table(null, null, facts.map(([name, v]) => [name, { text: String(v), class: 'text' }])), el('div', {}, bench.options ? options_of_one(bench.options, data.defaults || {}) : null)));
}

// --- the page ------------------------------------------------------------------------------------

function show_theme() {
  choose(document.getElementById('theme'), 'Colours', [['auto', 'auto', 'as the system has it'], ['light', 'light'], ['dark', 'dark']], 'auto', theme => {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  });
}
// Opens closed details for printing, because nothing can be opened on paper.
let opened = [];
addEventListener('beforeprint', () => {
  opened = [...document.querySelectorAll('details:not([open])')].filter(d => d.textContent.length < 4000);
  opened.forEach(d => { d.open = true; });
});
addEventListener('afterprint', () => opened.forEach(d => { d.open = false; }));

page.replaceChildren();
show_theme();
show_title();
if (runs.length === 1) show_one_result(runs[0]);
else if (runs.length) show_results();
show_curves();
show_times();
show_evaluation();
list(data.benches).filter(b => b.bench).forEach(show_bench);
show_configuration();
settle();
})();
