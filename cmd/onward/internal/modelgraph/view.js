// A drawing of a graph on a canvas: only what is visible is drawn, so that thousands of nodes move smoothly.
const graphView = (() => {
  const root = document.querySelector(".graph");
  if (!root) return null;
  root.hidden = false;
  const model = JSON.parse(document.getElementById("graph-data").textContent), {items, values, weights} = model;
  const canvas = root.querySelector("canvas"), sheet = root.querySelector(".sheet"), details = root.querySelector(".details"), status = root.querySelector(".status");
  const field = root.querySelector("input"), hits = root.querySelector(".hits"), ctx = canvas.getContext("2d");
  canvas.setAttribute("aria-label", root.dataset.label);
  const font = 'system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif';
  const head = 24, line = 15, pad = 16;

  // The tree of items, and for each open one the edges between what is in it.
  const top = {p: -2, kids: [], open: true, depth: -1, k: "top", edges: []};
  const itemOf = i => i < 0 ? top : items[i];
  items.forEach((x, i) => { x.index = i; x.kids = []; x.edges = []; x.keys = new Set(); x.i ??= []; x.o ??= []; x.in ??= []; x.on ??= []; });
  top.index = -1;
  top.keys = new Set();
  for (const x of items) itemOf(x.p).kids.push(x);
  const depth = x => x.depth ??= depth(itemOf(x.p)) + 1;
  items.forEach(depth);
  const first = x => x.first ??= x.k === "block" ? x.kids.reduce((m, k) => Math.min(m, first(k)), Infinity) : x.index;
  for (const x of [top, ...items]) x.kids.sort((a, b) => first(a) - first(b));
  values.forEach(v => { v.from = -1; v.to = []; });
  for (const x of items) for (const v of x.o) if (v >= 0) values[v].from = x.index;
  for (const x of items) for (const v of new Set(x.i)) if (v >= 0) values[v].to.push(x.index);
  const connect = (x, from, to, v) => {
    const key = from + "," + to + "," + v;
    if (!x.keys.has(key)) { x.keys.add(key); x.edges.push({from, to, v}); }
  };
  values.forEach((value, v) => {
    if (value.from < 0) return;
    for (const to of value.to) {
      let a = items[value.from], b = items[to];
      const out = [], into = [];
      while (a.depth > b.depth) { out.push(a); a = itemOf(a.p); }
      while (b.depth > a.depth) { into.push(b); b = itemOf(b.p); }
      if (a === b) continue;
      while (a.p !== b.p) { out.push(a); into.push(b); a = itemOf(a.p); b = itemOf(b.p); }
      for (const x of out) connect(itemOf(x.p), x.index, -1, v);
      for (const x of into) connect(itemOf(x.p), -1, x.index, v);
      connect(itemOf(a.p), a.index, b.index, v);
    }
  });

  // Sizes and positions.
  const width = (text, f) => { ctx.font = f; return ctx.measureText(text).width; };
  const cut = (text, max, f) => {
    if (text.length < 4 || width(text, f) <= max) return text;
    let lo = 1, hi = Math.min(text.length, 200);
    while (lo < hi) { const m = (lo + hi + 1) >> 1; if (width(text.slice(0, m) + "…", f) <= max) lo = m; else hi = m - 1; }
    return text.slice(0, lo) + "…";
  };
  const bold = "600 13px " + font, small = "11.5px " + font, tiny = "11px " + font;
  const dims = t => { const m = /\[(.*)\]/.exec(t || ""); return m ? m[1].split(",").join("×") || "scalar" : t || ""; };
  const typeText = t => t ? t.replace("[]", " scalar") : "type unknown";
  const count = n => { const p = ["", " k", " M", " G", " T", " P", " E"]; let i = 0; while (n >= 999.5 && i < 6) { n /= 1000; i++; } return (i ? Number(n.toPrecision(3)) : n) + p[i]; };
  const bytes = n => n < 1000 ? n + " B" : count(n) + "B";
  const measure = x => {
    if (x.w_) return;
    const lines = [];
    let title = x.t;
    if (x.k === "block") {
      if (x.r) title = x.r + " × " + title;
      lines.push(x.s + " nodes" + (x.w ? ", " + count(x.w) + " parameters" : ""));
      if (x.x && x.x !== x.t) lines.push(x.x);
    } else if (x.k === "input" || x.k === "output") lines.push(dims(values[(x.o.concat(x.i))[0]]?.t));
    else if (x.k === "body") lines.push((x.s || 0) + " nodes");
    else {
      if (x.kids.length) lines.push(x.s - 1 + " nodes inside");
      const w = x.i.map((v, k) => [v, k]).filter(([v]) => v >= 0 && values[v].w);
      for (const [v, k] of w.slice(0, w.length > 5 ? 4 : 5)) {
        const y = weights[values[v].w - 1];
        lines.push((x.in[k] || "#" + k) + "  " + (y.v && y.v.length < 24 ? "= " + y.v : "⟨" + dims(y.t) + "⟩"));
      }
      if (w.length > 5) lines.push("and " + (w.length - 4) + " more");
    }
    const max = x.k === "block" ? 300 : 210;
    x.title_ = cut(title, max, bold);
    x.lines_ = lines.filter(t => t).map(t => cut(t, max, small));
    const mark = x.kids.length ? 22 : 0;
    x.w_ = Math.max(64, width(x.title_, bold) + mark, ...x.lines_.map(t => width(t, small))) + 2 * 10;
    x.h_ = head + (x.lines_.length ? 4 + line * x.lines_.length + 4 : 0);
  };
  const isOpen = x => !!x.open && x.kids.length > 0;
  const arrange = x => {
    if (x.layout) return x.layout;
    const at = new Map(x.kids.map((k, i) => [k.index, i])), outs = new Map();
    for (const e of x.edges) if (e.from >= 0) { const i = at.get(e.from); if (!outs.has(i)) outs.set(i, new Set()); outs.get(i).add(e.v); }
    const boxes = x.kids.map((k, i) => {
      measure(k);
      const out = outs.get(i) || new Set(), label = out.size === 1 ? 12 + width(dims(values[[...out][0]].t), tiny) : 0;
      if (!isOpen(k)) return {w: k.w_, h: k.h_, label, open: false};
      const l = arrange(k), w = Math.max(l.width + 2 * pad, k.w_), shift = (w - l.width) / 2;
      const move = m => new Map([...m].map(([v, p]) => [v, p + shift]));
      return {w, h: head + pad + l.height + pad, label, open: true, entries: move(l.entries), exits: move(l.exits), shift};
    });
    const l = layout(boxes, x.edges.map(e => ({from: e.from < 0 ? -1 : at.get(e.from), to: e.to < 0 ? -1 : at.get(e.to), v: e.v})));
    for (const n of l.lines) {
      n.left = Math.min(n.x0, n.x1) - 4; n.right = Math.max(n.x0, n.x1) + 4;
      // Links to and from the border of an open item go on to its edge.
      if (n.from < 0 && n.y0 === 0 && l.place.length) n.y0 = -pad;
      if (n.to < 0 && n.last) n.y1 = l.height + pad;
      if (n.label && outs.get(n.from)?.size === 1) n.text = dims(values[n.values[0]].t);
    }
    l.boxes = boxes;
    x.kids.forEach((k, i) => { k.box = boxes[i]; k.at = l.place[i]; });
    return x.layout = l;
  };
  // locate sets the absolute positions of visible items.
  const locate = (x, ox, oy) => {
    arrange(x);
    x.ox = ox;
    x.oy = oy;
    for (const k of x.kids) {
      k.X = ox + k.at.x;
      k.Y = oy + k.at.y;
      if (isOpen(k)) locate(k, k.X + k.box.shift, k.Y + head + pad);
    }
  };
  const relayout = x => { for (; x; x = x.index < 0 ? null : itemOf(x.p)) x.layout = null; locate(top, 0, 0); };

  // Colors of the scheme.
  let color = {};
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const readColors = () => {
    const s = getComputedStyle(document.documentElement), get = n => s.getPropertyValue(n).trim();
    const rgb = h => { h = h.replace("#", ""); if (h.length === 3) h = [...h].map(c => c + c).join(""); return [0, 2, 4].map(i => parseInt(h.slice(i, i + 2), 16)); };
    const mix = (a, b, t) => "rgb(" + rgb(a).map((c, i) => Math.round(c * t + rgb(b)[i] * (1 - t))).join(",") + ")";
    const bg = get("--bg"), dark = scheme.matches;
    color = {bg, fg: get("--fg"), dim: get("--dim"), line: get("--line"), accent: get("--accent"), panel: get("--panel"), edge: mix(get("--dim"), bg, dark ? 0.62 : 0.6), hit: get("--bad"), fill: [], head: [], border: [], pure: []};
    for (let k = 0; k < 8; k++) {
      const c = get("--k" + k);
      color.pure[k] = c;
      color.head[k] = mix(c, bg, dark ? 0.34 : 0.22);
      color.fill[k] = mix(c, bg, dark ? 0.1 : 0.05);
      color.border[k] = mix(c, bg, dark ? 0.75 : 0.7);
    }
  };

  // Drawing.
  let scale = 1, dx = 0, dy = 0, W = 0, H = 0, selected = null, marked = new Set(), near = new Set(), pending = 0;
  const draw = () => { if (!pending) pending = requestAnimationFrame(() => { pending = 0; paint(); }); };
  const paint = () => {
    const ratio = devicePixelRatio || 1;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = color.bg;
    ctx.fillRect(0, 0, W, H);
    ctx.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * dx, ratio * dy);
    paintInside(top, {left: -dx / scale, top: -dy / scale, right: (W - dx) / scale, bottom: (H - dy) / scale});
  };
  const paintInside = (x, view) => {
    const l = x.layout, detail = scale > 0.14;
    for (const strong of [false, true]) {
      ctx.lineWidth = strong ? Math.max(2, 1.2 / scale) : Math.max(1.2, Math.min(0.7 / scale, 3));
      ctx.strokeStyle = strong ? color.accent : color.edge;
      ctx.fillStyle = ctx.strokeStyle;
      ctx.beginPath();
      const arrows = [];
      for (const n of l.lines) {
        if (near.size === 0 ? strong : n.values.some(v => near.has(v)) !== strong) continue;
        if (n.left + x.ox > view.right || n.right + x.ox < view.left || n.y0 + x.oy > view.bottom || n.y1 + x.oy < view.top) continue;
        const x0 = n.x0 + x.ox, x1 = n.x1 + x.ox, m0 = n.m0 + x.oy, m1 = n.m1 + x.oy, end = n.y1 + x.oy;
        ctx.moveTo(x0, n.y0 + x.oy);
        if (Math.abs(x0 - x1) < 1.5 || scale < 0.05) ctx.lineTo(x1, end);
        else {
          ctx.lineTo(x0, m0);
          ctx.bezierCurveTo(x0, m0 + (m1 - m0) * 0.55, x1, m1 - (m1 - m0) * 0.55, x1, m1);
          ctx.lineTo(x1, end);
        }
        if (detail && n.arrow) arrows.push([x1, end, 1]);
        if (detail && n.arrowBack) arrows.push([x0, n.y0 + x.oy, -1]);
      }
      ctx.stroke();
      ctx.beginPath();
      for (const [ax, ay, d] of arrows) { ctx.moveTo(ax, ay); ctx.lineTo(ax - 4, ay - 7 * d); ctx.lineTo(ax + 4, ay - 7 * d); }
      ctx.fill();
    }
    for (const k of x.kids) {
      if (k.X > view.right || k.Y > view.bottom || k.X + k.box.w < view.left || k.Y + k.box.h < view.top) continue;
      paintBox(k, view);
    }
    if (scale < 0.45) return;
    ctx.font = tiny;
    ctx.textBaseline = "alphabetic";
    ctx.textAlign = "left";
    for (const n of l.lines) {
      const tx = n.x0 + x.ox + 5, ty = n.y0 + x.oy + 13;
      if (!n.text || tx > view.right || ty > view.bottom || ty < view.top || tx < view.left - 200) continue;
      ctx.strokeStyle = x === top || !x.shade ? color.bg : x.shade;
      ctx.lineWidth = 4;
      ctx.lineJoin = "round";
      ctx.strokeText(n.text, tx, ty);
      ctx.fillStyle = color.dim;
      ctx.fillText(n.text, tx, ty);
    }
  };
  const outline = (x, y, w, h, r) => { ctx.beginPath(); if (scale < 0.2) ctx.rect(x, y, w, h); else ctx.roundRect(x, y, w, h, r); };
  const paintBox = (k, view) => {
    const {w, h} = k.box, open = isOpen(k), c = Math.min(k.c, 7), port = k.k === "input" || k.k === "output", group = k.k === "block" || k.k === "body";
    const round = port ? 12 : 6;
    k.shade = color.fill[group ? 7 : c];
    if (scale < 0.14 && !open) { // too small for text
      ctx.fillStyle = port ? color.dim : group ? color.border[7] : color.border[c];
      ctx.fillRect(k.X, k.Y, w, h);
    } else {
      if (group && !open && k.r) // a stack of equal blocks
        for (const s of [6, 3]) { outline(k.X + s, k.Y + s, w, h, round); ctx.fillStyle = color.fill[7]; ctx.fill(); ctx.strokeStyle = color.border[7]; ctx.lineWidth = 1; ctx.stroke(); }
      outline(k.X, k.Y, w, h, round);
      ctx.fillStyle = color.bg;
      ctx.fill();
      ctx.save();
      ctx.clip();
      ctx.fillStyle = open ? k.shade : group ? color.head[7] : color.bg;
      ctx.fillRect(k.X, k.Y, w, h);
      ctx.fillStyle = port ? color.panel : group ? color.head[7] : color.head[c];
      ctx.fillRect(k.X, k.Y, w, port || group && !open ? h : head);
      ctx.restore();
      outline(k.X, k.Y, w, h, round);
      ctx.strokeStyle = port ? color.dim : group ? color.border[7] : color.border[c];
      ctx.lineWidth = 1;
      if (group && open) ctx.setLineDash([5, 3]);
      ctx.stroke();
      ctx.setLineDash([]);
    }
    if (k === selected || marked.has(k.index)) {
      outline(k.X - 2, k.Y - 2, w + 4, h + 4, round + 2);
      ctx.strokeStyle = k === selected ? color.accent : color.hit;
      ctx.lineWidth = Math.max(2.5, 2 / scale);
      ctx.stroke();
    }
    if (scale > 0.22 || open && scale > 0.1) {
      ctx.textBaseline = "middle";
      ctx.fillStyle = color.fg;
      ctx.font = bold;
      const lines = open ? [] : k.lines_;
      if (open || k.kids.length || lines.length && !port) { ctx.textAlign = "left"; ctx.fillText(k.title_, k.X + 10, k.Y + head / 2 + 0.5); } else { ctx.textAlign = "center"; ctx.fillText(k.title_, k.X + w / 2, k.Y + head / 2 + (port ? 2 : 0.5)); }
      if (k.kids.length) { // a mark that it opens or closes
        ctx.strokeStyle = color.fg;
        ctx.lineWidth = 1.5;
        const mx = k.X + w - 16, my = k.Y + head / 2;
        ctx.beginPath();
        ctx.moveTo(mx - 4, my); ctx.lineTo(mx + 4, my);
        if (!open) { ctx.moveTo(mx, my - 4); ctx.lineTo(mx, my + 4); }
        ctx.stroke();
      }
      if (scale > 0.3) {
        ctx.font = small;
        ctx.fillStyle = group || port ? color.fg : color.dim;
        lines.forEach((t, i) => ctx.fillText(t, port ? k.X + w / 2 : k.X + 10, k.Y + head + (port ? 8 : 11) + i * line));
      }
    }
    if (open) paintInside(k, view);
  };

  // The view.
  const zoom = (factor, x = W / 2, y = H / 2) => {
    const to = Math.max(Math.min(0.02, fitScale()), Math.min(4, scale * factor));
    dx = x - (x - dx) * to / scale;
    dy = y - (y - dy) * to / scale;
    scale = to;
    draw();
  };
  const fitScale = () => Math.min((W - 40) / Math.max(top.layout.width, 1), (H - 40) / Math.max(top.layout.height, 1));
  const fit = () => {
    scale = Math.min(1.25, fitScale());
    dx = (W - top.layout.width * scale) / 2;
    dy = (H - top.layout.height * scale) / 2;
    draw();
  };
  const start = () => { // all of it if that is legible, else its beginning
    fit();
    if (scale >= 0.5) return;
    scale = Math.max(0.5, Math.min(1, (W - 40) / Math.max(top.layout.width, 1)));
    const inputs = top.kids.filter(k => k.Y < 40), middle = inputs.length ? inputs.reduce((t, k) => t + k.X + k.box.w / 2, 0) / inputs.length : top.layout.width / 2;
    dx = W / 2 - middle * scale;
    dy = 20;
    draw();
  };
  const center = x => {
    if (scale < 0.5) scale = 0.8;
    dx = W / 2 - (x.X + x.box.w / 2) * scale;
    dy = Math.min(H / 2 - (x.Y + Math.min(x.box.h, H / scale) / 2) * scale, isOpen(x) ? 40 - x.Y * scale : Infinity);
    draw();
  };
  const reveal = x => {
    for (let p = x.p; p >= 0; p = items[p].p) if (!items[p].open) { items[p].open = true; relayout(items[p]); }
  };
  const show = x => { reveal(x); select(x); center(x); };
  const toggle = x => {
    if (!x.kids.length) return;
    const before = [x.X, x.Y];
    x.open = !x.open;
    relayout(itemOf(x.p));
    if (!x.open) for (let s = selected; s && s !== x; s = s.p < 0 ? null : items[s.p]) if (s.p === x.index) select(x);
    dx += (before[0] - x.X) * scale;
    dy += (before[1] - x.Y) * scale;
    draw();
    status.textContent = describe(x) + (x.open ? ", open" : ", closed");
  };
  const setAll = open => {
    for (const x of items) if (x.kids.length) { x.open = open; x.layout = null; }
    relayout(top);
    if (selected) select(visible(selected.index));
    start();
  };
  const describe = x => {
    const kind = {block: x.r ? x.r + " equal blocks " : "block ", body: "subgraph ", input: "input ", output: "output "}[x.k] || "";
    return kind + (x.d ? x.d + "." : "") + x.t + (x.n ? " " + x.n : "") + (x.kids.length ? ", " + x.s + " nodes" : "");
  };
  const select = x => {
    selected = x;
    near = new Set(x ? x.k === "block" || x.k === "body" ? [] : [...x.i, ...x.o].filter(v => v >= 0 && !values[v].w) : []);
    status.textContent = x ? describe(x) : "\u00a0";
    panel(x);
    draw();
  };

  // Details.
  const make = (name, text, className) => { const e = document.createElement(name); if (text !== undefined) e.textContent = text; if (className) e.className = className; return e; };
  const number = n => Number(n.toPrecision(4)).toString();
  const rows = (list, into) => {
    const t = into.appendChild(make("table")), b = t.appendChild(make("tbody"));
    for (const [name, value] of list) {
      const r = b.insertRow(), th = r.appendChild(make("th", name)), td = r.insertCell();
      th.scope = "row";
      td.append(...[].concat(value));
    }
  };
  const weightBox = w => {
    const d = make("div", undefined, "weight");
    if (w.v) d.append(make("p", "= " + w.v));
    if (w.e) d.append(make("p", w.e, "bad"));
    if (w.h) {
      const most = Math.max(...w.h), svg = root.querySelector("template").content.firstElementChild.cloneNode();
      svg.setAttribute("viewBox", "0 0 " + w.h.length + " 20");
      svg.setAttribute("aria-label", "histogram from " + number(w.s[0]) + " to " + number(w.s[1]));
      w.h.forEach((n, i) => {
        const r = document.createElementNS(svg.namespaceURI, "rect"), h = n ? Math.max(0.6, 20 * n / most) : 0;
        for (const [k, v] of [["x", i + 0.06], ["y", 20 - h], ["width", 0.88], ["height", h], ["class", "bars k0"]]) r.setAttribute(k, v);
        svg.append(r);
      });
      d.append(svg);
    }
    if (w.s) {
      const dl = d.appendChild(make("dl"));
      for (const [k, v] of [["min", number(w.s[0])], ["max", number(w.s[1])], ["mean", number(w.s[2])], ["std", number(w.s[3])], ["zeros", number(100 * w.s[4]) + " %"], ["size", bytes(w.b)]].concat(w.odd ? [["NaN, Inf", String(w.odd)]] : [])) {
        const e = dl.appendChild(make("div"));
        e.append(make("dt", k), make("dd", v));
      }
    }
    return d;
  };
  const go = (v, back) => {
    const b = make("button", values[v].n || "(no name)", "value"), targets = back ? [values[v].from] : values[v].to;
    b.type = "button";
    let k = -1;
    b.onclick = () => { k = (k + 1) % targets.length; show(items[targets[k]]); };
    b.title = back ? "go to the node that makes it" : "go to a node that reads it";
    return targets.length && targets[0] >= 0 ? b : make("span", values[v].n || "(no name)");
  };
  const valueRows = (x, list, names, back) => list.map((v, k) => {
    const cell = [];
    if (v < 0) cell.push(make("span", "omitted", "sub"));
    else if (values[v].w) {
      const w = weights[values[v].w - 1];
      cell.push(make("span", w.n), make("span", typeText(w.t), "type"), weightBox(w));
    } else cell.push(go(v, back), make("span", typeText(values[v].t), "type"));
    return [names[k] || String(k), cell];
  });
  const panel = x => {
    details.replaceChildren();
    if (details.scrollTop) details.scrollTop = 0;
    const add = (name, text, c) => details.appendChild(make(name, text, c));
    if (!x) {
      add("h2", "The model");
      add("p", "Click a node for its attributes, types, weights and cost.", "sub");
      for (const [name, kind] of [["Inputs", "input"], ["Outputs", "output"]]) {
        const list = top.kids.filter(k => k.k === kind);
        if (list.length) { add("h3", name); rows(list.map(k => [k.t, typeText(values[[...k.o, ...k.i][0]]?.t)]), details); }
      }
      const costly = items.filter(k => k.k === "node" && k.f).sort((a, b) => b.f - a.f).slice(0, 8);
      if (costly.length) {
        add("h3", "Most expensive nodes, share of the FLOPs");
        rows(costly.map(k => {
          const b = make("button", k.n || k.t, "value");
          b.type = "button";
          b.onclick = () => show(k);
          return [k.t, [b, make("span", (100 * k.f / model.flops).toPrecision(3) + " %", "type")]];
        }), details);
      }
      if (model.unknown) { add("h3", "Costs and most types are unknown"); add("p", model.unknown); }
      return;
    }
    add("h2", x.t);
    if (x.n) add("p", x.n);
    const around = [];
    for (let p = x.p; p >= 0; p = items[p].p) around.unshift(items[p].t);
    const kind = {block: x.r ? x.r + " equal blocks in a row" : "block", body: "subgraph", input: "input of the graph", output: "output of the graph", node: x.d ? "operator of " + x.d : "operator"}[x.k];
    add("p", kind + (around.length ? " in " + around.join(" › ") : ""), "sub");
    if (x.al) add("p", x.al + " blocks of the model have these operators.", "sub");
    if (x.x) add("p", x.x, "sub");
    if (x.kids.length) {
      const b = add("button", x.open ? "Close" : "Open", "value");
      b.type = "button";
      b.onclick = () => { toggle(x); panel(x); };
    }
    const cost = [];
    if (x.k === "block" || x.kids.length) cost.push(["nodes", count(x.s || 0)]);
    if (x.m) cost.push(["MACs", count(x.m)]);
    if (x.f) cost.push(["FLOPs", count(x.f)]);
    if (x.w) cost.push(["parameters", count(x.w)]);
    if (x.b) cost.push(["results", bytes(x.b)]);
    if (x.f && model.flops) {
      const m = make("span", undefined, "meter");
      m.style.width = Math.max(1, 100 * x.f / model.flops) + "%";
      cost.push(["share of the FLOPs", [(100 * x.f / model.flops).toPrecision(3) + " %", m]]);
    }
    if (cost.length) { add("h3", "Cost"); rows(cost, details); }
    if (x.a) { add("h3", "Attributes"); rows(x.a, details); }
    if (x.i.length) { add("h3", x.k === "output" ? "Value" : "Inputs"); rows(valueRows(x, x.i, x.in, true), details); }
    if (x.o.length) { add("h3", x.k === "input" ? "Value" : "Outputs"); rows(valueRows(x, x.o, x.on, false), details); }
  };

  // Search.
  let found = [], at = -1;
  const name = v => v < 0 ? "" : values[v].n;
  const textOf = x => x.text_ ??= [x.t, x.n, x.d, ...x.i.map(name), ...x.o.map(name)].join("\n").toLowerCase();
  const search = () => {
    const want = field.value.trim().toLowerCase();
    // Operators and names before values, and equal ones before longer ones.
    const rank = x => { const own = [x.t, x.n || ""].map(t => t.toLowerCase()); return own.includes(want) ? 0 : own.some(t => t.includes(want)) ? 1 : 2; };
    found = want ? items.filter(x => textOf(x).includes(want)).map(x => [rank(x), first(x), x]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(f => f[2]) : [];
    marked = new Set(found.map(x => x.index));
    at = -1;
    hits.textContent = want ? found.length === 0 ? "not found" : found.length + " found" : "";
    draw();
  };
  const nextHit = step => {
    if (!found.length) return;
    at = (at + step + found.length) % found.length;
    if (at < 0) at = 0;
    show(found[at]);
    hits.textContent = at + 1 + " of " + found.length;
  };
  field.oninput = search;
  field.onkeydown = e => {
    if (e.key === "Enter") { e.preventDefault(); nextHit(e.shiftKey ? -1 : 1); }
    if (e.key === "Escape") { field.value = ""; search(); canvas.focus(); }
  };

  // Mouse, touch and keys.
  const under = (px, py) => {
    const x = (px - dx) / scale, y = (py - dy) / scale;
    let hit = null;
    for (let level = top; level;) {
      const k = level.kids.find(k => x >= k.X && x <= k.X + k.box.w && y >= k.Y && y <= k.Y + k.box.h);
      if (!k) break;
      hit = k;
      level = isOpen(k) && y > k.Y + head ? k : null;
    }
    return hit;
  };
  const pointers = new Map();
  let moved = 0;
  const where = e => { const r = canvas.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
  canvas.onpointerdown = e => { if (e.button === 0) { canvas.setPointerCapture(e.pointerId); pointers.set(e.pointerId, where(e)); moved = 0; } };
  canvas.onpointermove = e => {
    const now = where(e), before = pointers.get(e.pointerId);
    if (!before) { canvas.classList.toggle("over", !!under(...now)); return; }
    if (pointers.size === 1) { dx += now[0] - before[0]; dy += now[1] - before[1]; } else {
      const other = [...pointers].find(([id]) => id !== e.pointerId)[1], d = p => Math.hypot(p[0] - other[0], p[1] - other[1]);
      zoom(d(now) / Math.max(d(before), 1), other[0], other[1]);
    }
    moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    canvas.classList.toggle("drag", moved > 4);
    pointers.set(e.pointerId, now);
    draw();
  };
  canvas.onpointerup = e => {
    const was = pointers.delete(e.pointerId);
    canvas.classList.remove("drag");
    if (!was || moved > 4 || pointers.size) return;
    const p = where(e), x = under(...p);
    select(x);
    if (x && x.kids.length && (!isOpen(x) || p[1] < dy + (x.Y + head) * scale)) { toggle(x); panel(x); }
  };
  canvas.onpointercancel = e => pointers.delete(e.pointerId);
  canvas.addEventListener("wheel", e => {
    e.preventDefault();
    if (e.shiftKey) { dx -= e.deltaY || e.deltaX; draw(); return; }
    zoom(Math.exp(-Math.max(-120, Math.min(120, e.deltaY * (e.deltaMode ? 30 : 1))) * (e.ctrlKey ? 0.01 : 0.0022)), ...where(e));
  }, {passive: false});
  const visible = i => { let x = items[i]; for (let p = x.p; p >= 0; p = items[p].p) if (!isOpen(items[p])) x = items[p]; return x; };
  const within = (x, box) => { for (; x; x = x.p < 0 ? null : items[x.p]) if (x === box) return true; return false; };
  const neighbor = (x, key) => {
    const level = itemOf(x.p), down = key === "ArrowDown";
    if (key === "ArrowLeft" || key === "ArrowRight") { // in the same rank
      const sign = key === "ArrowLeft" ? -1 : 1, far = k => sign * (k.X + k.box.w / 2 - x.X - x.box.w / 2);
      return level.kids.filter(k => far(k) > 1 && k.Y < x.Y + x.box.h && k.Y + k.box.h > x.Y).sort((a, b) => far(a) - far(b))[0];
    }
    if (isOpen(x) && down) return x.kids[0];
    const edges = level.edges.filter(e => (down ? e.from : e.to) === x.index), other = edges.map(e => down ? e.to : e.from).find(i => i >= 0);
    if (other !== undefined || level === top) return items[other];
    if (!down) return level;
    for (const e of edges) for (const t of values[e.v].to) if (!within(items[t], level)) return visible(t);
  };
  canvas.onkeydown = e => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const pan = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]}[e.key];
    if (pan && e.shiftKey) { dx += pan[0]; dy += pan[1]; draw(); }
    else if (pan) {
      const n = selected ? neighbor(selected, e.key) : top.kids[0];
      if (n) { select(n); const [sx, sy] = [dx + (n.X + n.box.w / 2) * scale, dy + n.Y * scale]; if (sx < 40 || sy < 40 || sx > W - 40 || sy > H - 60 || scale < 0.4) center(n); }
    }
    else if (e.key === "Enter" || e.key === " ") { if (selected) { toggle(selected); panel(selected); } }
    else if (e.key === "+" || e.key === "=") zoom(1.3);
    else if (e.key === "-") zoom(1 / 1.3);
    else if (e.key === "0") fit();
    else if (e.key === "Home") start();
    else if (e.key === "/") field.focus();
    else if (e.key === "Escape") select(null);
    else return;
    e.preventDefault();
  };
  const actions = {in: () => zoom(1.4), out: () => zoom(1 / 1.4), fit, open: () => setAll(true), close: () => setAll(false)};
  for (const b of root.querySelectorAll("[data-do]")) b.onclick = () => actions[b.dataset.do]();
  // Rows of the table of nodes show their node.
  document.addEventListener("click", e => {
    const c = e.target.closest("table[data-items] tbody tr")?.cells[0];
    if (c) { show(items[c.dataset.v]); root.scrollIntoView({block: "start"}); canvas.focus({preventScroll: true}); }
  });

  const resize = () => {
    const ratio = devicePixelRatio || 1, r = sheet.getBoundingClientRect(), before = W;
    W = r.width;
    H = r.height;
    canvas.width = Math.round(W * ratio);
    canvas.height = Math.round(H * ratio);
    if (!before) start();
    paint();
  };
  scheme.addEventListener("change", () => { readColors(); draw(); });
  readColors();
  relayout(top);
  panel(null);
  new ResizeObserver(resize).observe(sheet);
  resize();
  return {items, values, top, show, toggle, select, setAll, isOpen, get selected() { return selected; }, get view() { return {scale, dx, dy, W, H}; }, paint};
})();
