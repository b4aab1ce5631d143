"use strict";
// layout places boxes in ranks from top to bottom, after Sugiyama, Tagawa and Toda (1981): longest-path
// ranks, barycenter sweeps for the order in each rank, and x coordinates by weighted medians with
// isotonic regression for the distances. Edges over several ranks pass through a slot in each of them,
// and between ranks there are only edges, so an edge never crosses a box.
//
// boxes: [{w, h, label, open, entries, exits}]; label is the width of a text right of the middle, below
// the box; entries and exits map values to x in an open box.
// edges: [{from, to, v}] with indices of boxes, -1 for what is above or below all of them.
// It returns the size, {x, y} of each box, the links to draw, and x of the edges that go beyond.
function layout(boxes, edges) {
  const gapX = 26, slot = 14, gapY = 38;
  const vertices = boxes.map((b, i) => ({w: b.w, h: b.h, label: b.label || 0, box: i, rank: 0, up: [], down: [], x: 0, weight: 1}));
  const boxEdges = edges.filter(e => e.from >= 0 && e.to >= 0 && e.from !== e.to);

  // Edges that close a cycle count in the other direction. Only invalid models have such.
  const succ = boxes.map(() => []), pred = boxes.map(() => 0);
  for (const e of boxEdges) succ[e.from].push(e);
  const state = new Uint8Array(boxes.length);
  for (let s = 0; s < boxes.length; s++) {
    const stack = state[s] ? [] : [[s, 0]];
    state[s] ||= 1;
    while (stack.length) {
      const top = stack[stack.length - 1], list = succ[top[0]];
      if (top[1] === list.length) { state[top[0]] = 2; stack.pop(); continue; }
      const e = list[top[1]++];
      if (state[e.to] === 1) e.back = true;
      else if (!state[e.to]) { state[e.to] = 1; stack.push([e.to, 0]); }
    }
  }
  const next = boxes.map(() => []), sources = boxes.map(() => true);
  for (const e of boxEdges) {
    const [a, b] = e.back ? [e.to, e.from] : [e.from, e.to];
    next[a].push(b);
    pred[b]++;
    sources[b] = false;
  }

  // Ranks: the longest path from above; what has no inputs is moved down to its first user.
  const entries = [...new Set(edges.filter(e => e.from < 0).map(e => e.v))], exits = [...new Set(edges.filter(e => e.to < 0).map(e => e.v))];
  for (const e of edges) if (e.from < 0 && e.to >= 0) sources[e.to] = false;
  const base = entries.length ? 1 : 0;
  const ready = [];
  vertices.forEach((v, i) => { v.rank = base; if (!pred[i]) ready.push(i); });
  for (let k = 0; k < ready.length; k++) {
    for (const b of next[ready[k]]) {
      vertices[b].rank = Math.max(vertices[b].rank, vertices[ready[k]].rank + 1);
      if (--pred[b] === 0) ready.push(b);
    }
  }
  vertices.forEach((v, i) => {
    if (sources[i] && next[i].length) v.rank = Math.max(base, Math.min(...next[i].map(b => vertices[b].rank)) - 1);
    if (sources[i]) { v.weight = 0.1; v.source = true; }
  });
  let ranks = vertices.reduce((m, v) => Math.max(m, v.rank + 1), base);
  const port = (v, rank) => { const p = {w: slot, h: 0, box: -1, port: v, rank, up: [], down: [], x: 0, weight: 0.2}; vertices.push(p); return p; };
  const entry = new Map(entries.map(v => [v, port(v, 0)]));
  if (exits.length) ranks++;
  const exit = new Map(exits.map(v => [v, port(v, ranks - 1)]));

  // Links between neighboring ranks. Edges of one value, or out of one closed box, share their slots.
  const links = [], seen = new Set(), slots = new Map();
  const link = (a, b, values, e, last, first) => {
    const l = {a, b, values, back: e.back, last, first, from: e.from, to: e.to, v: e.v, da: 0, db: 0};
    links.push(l);
    a.down.push(l);
    b.up.push(l);
    return l;
  };
  for (const e of edges) {
    if (e.from === e.to) continue;
    const fromOpen = e.from < 0 || boxes[e.from].open, toOpen = e.to < 0 || boxes[e.to].open;
    const trunk = (fromOpen ? e.from + ":" + e.v : e.from + ":") + (e.back ? "back" + e.to : "");
    const id = trunk + ">" + e.to + (toOpen ? ":" + e.v : "");
    if (seen.has(id)) { // another value of the same line
      for (const x of slots.get(id)) if (!x.values.includes(e.v)) x.values.push(e.v);
      continue;
    }
    seen.add(id);
    let a = e.from < 0 ? entry.get(e.v) : vertices[e.from], b = e.to < 0 ? exit.get(e.v) : vertices[e.to];
    if (e.back) [a, b] = [b, a];
    const path = [];
    for (let r = a.rank + 1, first = true; r <= b.rank; r++) {
      if (r === b.rank) { path.push(link(a, b, [e.v], e, true, first)); break; }
      const key = trunk + "@" + r;
      let s = slots.get(key);
      if (!s) {
        s = {w: slot - 6, h: 0, box: -1, rank: r, up: [], down: [], x: 0, weight: 0.02};
        vertices.push(s);
        slots.set(key, s);
        s.link = link(a, s, [e.v], e, false, first);
      } else if (!s.link.values.includes(e.v)) s.link.values.push(e.v);
      path.push(s.link);
      a = s;
      first = false;
    }
    slots.set(id, path);
  }

  // Order in the ranks: depth first, then barycenters, keeping the order with the fewest crossings.
  const layers = Array.from({length: ranks}, () => []);
  const visited = new Set();
  const byRank = [...vertices].sort((a, b) => a.rank - b.rank);
  for (const start of byRank) {
    const stack = [start];
    while (stack.length) {
      const v = stack.pop();
      if (visited.has(v)) continue;
      visited.add(v);
      layers[v.rank].push(v);
      const below = v.down.map(l => l.b).sort((a, b) => (a.box < 0) - (b.box < 0));
      for (let k = below.length - 1; k >= 0; k--) stack.push(below[k]);
    }
  }
  const number = () => { for (const l of layers) l.forEach((v, i) => { v.pos = i; }); };
  const crossings = () => {
    let n = 0;
    for (let r = 1; r < ranks; r++) {
      const size = layers[r].length, tree = new Int32Array(size + 1);
      let total = 0;
      for (const a of layers[r - 1]) {
        const ends = a.down.map(l => l.b.pos).sort((x, y) => x - y);
        for (const p of ends) { // those before in the rank above that end behind p
          let before = 0;
          for (let i = p + 1; i > 0; i -= i & -i) before += tree[i];
          n += total - before;
        }
        for (const p of ends) { total++; for (let i = p + 1; i <= size; i += i & -i) tree[i]++; }
      }
    }
    return n;
  };
  number();
  let best = crossings(), bestLayers = layers.map(l => [...l]);
  const sweeps = vertices.length > 20000 ? 2 : vertices.length > 3000 ? 6 : 24;
  for (let s = 0, worse = 0; s < sweeps && best > 0 && worse < 6; s++) {
    const down = s % 2 === 0;
    for (let k = 1; k < ranks; k++) {
      const layer = layers[down ? k : ranks - 1 - k];
      for (const v of layer) {
        const list = down ? v.up : v.down;
        v.key = list.length ? list.reduce((t, l) => t + (down ? l.a : l.b).pos, 0) / list.length : v.pos;
      }
      layer.sort((a, b) => a.key - b.key || a.pos - b.pos);
      layer.forEach((v, i) => { v.pos = i; });
    }
    const n = crossings();
    if (n < best) { best = n; bestLayers = layers.map(l => [...l]); worse = 0; } else worse++;
  }
  bestLayers.forEach((l, r) => { layers[r] = l; });
  number();

  // Where links leave and enter boxes, from the middle.
  const attach = v => {
    const box = v.box >= 0 ? boxes[v.box] : null;
    if (!box) return;
    for (const [list, ports, mine, other] of [[v.down, box.exits, "da", "b"], [v.up, box.entries, "db", "a"]]) {
      const most = Math.min(v.w / 4, 12 * (list.length - 1));
      for (const l of list) {
        const p = box.open ? ports.get(l.v) : undefined;
        l[mine] = p !== undefined ? p - v.w / 2 : list.length > 1 && mine === "db" ? Math.max(-most, Math.min(most, l[other].x - v.x)) : 0;
      }
    }
  };
  const median = (v, list, other, mine, theirs) => {
    const points = list.map(l => ({x: l[other].x + l[theirs] - l[mine], w: l.a.source ? 0.2 : l.a.box < 0 && l.b.box < 0 ? 8 : l.a.box < 0 || l.b.box < 0 ? 0.5 : 2})).sort((a, b) => a.x - b.x);
    const half = points.reduce((t, p) => t + p.w, 0) / 2;
    let sum = 0;
    for (let k = 0; k < points.length; k++) {
      sum += points[k].w;
      if (sum > half + 1e-9) return points[k].x;
      if (sum > half - 1e-9) return (points[k].x + points[k + 1].x) / 2;
    }
    return v.x;
  };
  const distance = (a, b) => Math.max(a.w / 2 + (a.box >= 0 && b.box >= 0 ? gapX : 10), a.box >= 0 ? a.label : 0) + b.w / 2;
  // fit moves the vertices of a rank as near to what they want as their order and distances allow.
  const fit = (layer, want) => {
    const blocks = [];
    let offset = 0;
    layer.forEach((v, i) => {
      if (i) offset += distance(layer[i - 1], v);
      v.offset = offset;
      let b = {sum: (want[i] - offset) * v.weight, weight: v.weight, n: 1};
      while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].weight >= b.sum / b.weight) {
        const a = blocks.pop();
        b = {sum: a.sum + b.sum, weight: a.weight + b.weight, n: a.n + b.n};
      }
      blocks.push(b);
    });
    let i = 0;
    for (const b of blocks) for (let k = 0; k < b.n; k++, i++) layer[i].x = b.sum / b.weight + layer[i].offset;
  };
  for (const layer of layers) {
    fit(layer, layer.map(() => 0));
    const middle = layer.length ? (layer[0].x + layer[layer.length - 1].x) / 2 : 0;
    for (const v of layer) v.x -= middle;
  }
  for (const v of vertices) if (v.box >= 0 && boxes[v.box].open) attach(v);
  const rounds = vertices.length > 20000 ? 3 : 8;
  for (let s = 0; s <= 2 * rounds; s++) {
    const down = s % 2 === 0;
    for (let k = 0; k < ranks; k++) {
      const layer = layers[down ? k : ranks - 1 - k];
      fit(layer, layer.map(v => {
        const list = down ? v.up : v.down;
        return list.length ? down ? median(v, list, "a", "db", "da") : median(v, list, "b", "da", "db") : v.down.length && down ? median(v, v.down, "b", "da", "db") : v.x;
      }));
    }
  }
  for (const v of vertices) attach(v);

  // Coordinates from the upper left corner. Ranks are farther apart where links go far to the side.
  let left = Infinity, right = -Infinity;
  for (const v of vertices) { left = Math.min(left, v.x - v.w / 2); right = Math.max(right, v.x + Math.max(v.w / 2, v.label || 0)); }
  if (left > right) left = right = 0;
  let y = 0;
  const bandTop = [], bandBottom = [];
  layers.forEach((layer, r) => {
    bandTop[r] = y;
    bandBottom[r] = y + layer.reduce((m, v) => Math.max(m, v.h), 0);
    let far = 0;
    for (const v of layer) for (const l of v.down) far = Math.max(far, Math.abs(l.a.x + l.da - l.b.x - l.db));
    y = bandBottom[r] + (r === 0 && base || r === ranks - 2 && exits.length ? 24 : gapY) + Math.min(60, far * 0.06);
  });
  const height = ranks ? bandBottom[ranks - 1] : 0;
  const place = boxes.map((b, i) => ({x: vertices[i].x - b.w / 2 - left, y: (bandTop[vertices[i].rank] + bandBottom[vertices[i].rank] - b.h) / 2}));
  const lines = links.map(l => {
    const {a, b} = l, x0 = a.x + l.da - left, x1 = b.x + l.db - left;
    return {x0, y0: a.box >= 0 ? place[a.box].y + a.h : bandBottom[a.rank], m0: bandBottom[a.rank], x1, m1: bandTop[b.rank], y1: b.box >= 0 ? place[b.box].y : bandBottom[b.rank],
      values: l.values, arrow: l.last && b.box >= 0 && !l.back, arrowBack: l.back && l.first, back: !!l.back, label: l.first && a.box >= 0, from: l.from, to: l.to, last: l.last};
  });
  const xOf = m => new Map([...m].map(([v, p]) => [v, p.x - left]));
  return {width: right - left, height, place, lines, entries: xOf(entry), exits: xOf(exit), crossings: best};
}
