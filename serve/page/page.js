'use strict';

const $ = id => document.getElementById(id);
const every = 2000; // ms between polls
const kept = 150; // points of a curve: five minutes
const history = new Map(); // "model version" -> {count, ns, rates, times}
let metadata = null; // of the selected model

function make(tag, text, name) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (name) e.className = name;
  return e;
}

async function call(path, options = {}) {
  const token = sessionStorage.getItem('token');
  options.headers = token ? {Authorization: 'Bearer ' + token} : {};
  if (options.body) options.headers['Content-Type'] = 'application/json';
  const r = await fetch(path, options);
  if (r.status === 401) $('access').hidden = false;
  const text = await r.text();
  if (!r.ok) {
    let message = text;
    try { message = JSON.parse(text).error || text; } catch {} // the text itself
    throw new Error(r.status + ' ' + message);
  }
  return text;
}

const get = async path => JSON.parse(await call(path));
const post = async (path, body) => JSON.parse(await call(path, {method: 'POST', body: JSON.stringify(body)}));

function milliseconds(ns) { return ns ? (ns / 1e6).toPrecision(3) + ' ms' : '–'; }

function curve(values, label, unit) {
  const cell = make('td', undefined, 'curve');
  const last = values.at(-1), top = Math.max(...values, 1e-9);
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 ' + (kept - 1) + ' 100');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', label + ', now ' + (last ?? 0).toPrecision(3) + unit + ', at most ' + top.toPrecision(3) + unit);
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'polyline');
  line.setAttribute('points', values.map((v, i) => (kept - values.length + i) + ',' + (98 - 96 * v / top)).join(' '));
  svg.append(line);
  cell.append(svg, ' ' + (last ?? 0).toPrecision(3) + unit);
  return cell;
}

function point(stats) {
  const key = stats.name + ' ' + stats.version;
  const success = stats.inference_stats.success, now = performance.now();
  let h = history.get(key);
  if (!h || success.count < h.count) history.set(key, h = {count: success.count, ns: success.ns, at: now, rates: [], times: []});
  else {
    const n = success.count - h.count;
    h.rates.push(n / ((now - h.at) / 1000));
    h.times.push(n ? (success.ns - h.ns) / n / 1e6 : 0);
    for (const l of [h.rates, h.times]) if (l.length > kept) l.shift();
    Object.assign(h, {count: success.count, ns: success.ns, at: now});
  }
  return h;
}

async function poll() {
  try {
    const [index, stats, errors, server] = await Promise.all([post('/v2/repository/index', {}), get('/v2/models/stats'), get('/status/errors'), get('/v2')]);
    $('server').textContent = server.name + ' ' + server.version + ', ' + index.length + (index.length === 1 ? ' model' : ' models');
    $('server').className = '';
    const rows = index.map(m => {
      const s = stats.model_stats.find(s => s.name === m.name && s.version === m.version);
      const row = make('tr');
      row.append(make('td', m.name), make('td', m.version), make('td', (m.state || 'UNAVAILABLE') + (m.reason ? ': ' + m.reason : ''), m.state === 'READY' ? 'ok' : 'bad'));
      if (s) {
        const {success, fail} = s.inference_stats, h = point(s);
        row.append(make('td', success.count, 'number'), make('td', fail.count, fail.count ? 'number bad' : 'number'), make('td', milliseconds(success.count && success.ns / success.count), 'number'),
          curve(h.rates, 'Requests per second', ' /s'), curve(h.times, 'Time of a request', ' ms'));
      }
      return row;
    });
    $('models').replaceChildren(...rows);
    const names = [...new Set(index.filter(m => m.state === 'READY').map(m => m.name))];
    if (names.join() !== [...$('model').options].map(o => o.value).join()) {
      const chosen = $('model').value;
      $('model').replaceChildren(...names.map(n => make('option', n)));
      if (names.includes(chosen)) $('model').value = chosen;
      if (names.length && $('model').value !== metadata?.name) await choose();
    }
    $('errors').replaceChildren(...errors.map(e => make('li', new Date(e.time).toLocaleTimeString() + ' ' + e.model + ': ' + e.error)));
  } catch (e) {
    $('server').textContent = e.message;
    $('server').className = 'bad';
  }
}

// example returns the data of an input: a ramp from 0 to 1, or other values of its type.
function example(datatype, n) {
  const of = {BOOL: i => i % 2 === 0, BYTES: i => 'text' + i, FP16: i => i / n, BF16: i => i / n, FP32: i => i / n, FP64: i => i / n}[datatype] || (() => 1);
  return JSON.stringify(Array.from({length: n}, (_, i) => { const v = of(i); return typeof v === 'number' ? +v.toPrecision(4) : v; }));
}

async function choose() {
  metadata = await get('/v2/models/' + encodeURIComponent($('model').value));
  $('inputs').replaceChildren(...metadata.inputs.map(input => {
    const set = make('fieldset');
    set.append(make('legend', input.name + ' · ' + input.datatype + ' · [' + input.shape.join(', ') + ']'));
    const shape = make('input'), data = make('textarea');
    shape.value = input.shape.map(d => d < 0 ? 1 : d).join(', ');
    data.rows = 4;
    const fill = () => { data.value = example(input.datatype, Math.min(dims(shape.value).reduce((a, b) => a * b, 1), 1e6)); };
    fill();
    shape.addEventListener('change', fill);
    const shapes = make('label', 'Shape '), datas = make('label', 'Data (JSON) ');
    datas.style.display = 'block';
    shapes.append(shape);
    datas.append(data);
    set.append(shapes, datas);
    set.read = () => '{"name":' + JSON.stringify(input.name) + ',"datatype":"' + input.datatype + '","shape":' + JSON.stringify(dims(shape.value)) + ',"data":' + data.value + '}';
    return set;
  }));
}

const dims = text => text.split(',').filter(d => d.trim()).map(Number);

$('model').addEventListener('change', () => choose().catch(e => { $('result').textContent = e.message; }));
$('access').addEventListener('submit', e => {
  e.preventDefault();
  sessionStorage.setItem('token', $('token').value);
  $('access').hidden = true;
  poll();
});
$('run').addEventListener('submit', async e => {
  e.preventDefault();
  $('go').disabled = true;
  const start = performance.now();
  try {
    // The texts are joined as they are, since JSON.parse would round integers over 2^53.
    const body = '{"inputs":[' + [...$('inputs').children].map(set => set.read()).join(',') + ']}';
    const text = await call('/v2/models/' + encodeURIComponent(metadata.name) + '/infer', {method: 'POST', body});
    $('result').textContent = (performance.now() - start).toFixed(1) + ' ms\n' + (text.length > 20000 ? text.slice(0, 20000) + '… (' + text.length + ' characters)' : text);
    $('result').className = '';
  } catch (e) {
    $('result').textContent = e.message;
    $('result').className = 'bad';
  }
  $('go').disabled = false;
  $('go').focus();
  poll();
});

poll();
setInterval(() => { if (!document.hidden) poll(); }, every);
