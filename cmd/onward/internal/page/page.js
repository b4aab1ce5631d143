"use strict";
// Tables: a button in each head sorts, a field filters the rows.
const sortable = table => {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  heads.forEach((th, column) => {
    const button = document.createElement("button");
    button.textContent = th.textContent;
    button.type = "button";
    th.replaceChildren(button);
    button.onclick = () => {
      const numeric = th.classList.contains("n");
      const first = numeric ? "descending" : "ascending";
      const order = th.getAttribute("aria-sort") === first ? (numeric ? "ascending" : "descending") : first;
      heads.forEach(h => h.removeAttribute("aria-sort"));
      th.setAttribute("aria-sort", order);
      const key = row => { const c = row.cells[column]; return c.dataset.v ?? c.textContent; };
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].map(row => [numeric ? parseFloat(key(row)) : key(row), row]);
      rows.sort(([a], [b]) => {
        if (!numeric) return sign * a.localeCompare(b, undefined, {numeric: true});
        if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b); // missing numbers come last
        return sign * (a - b);
      });
      body.append(...rows.map(r => r[1]));
    };
  });
  if (body.rows.length > 12) {
    const label = document.createElement("label"), input = document.createElement("input"), count = document.createElement("output");
    label.className = "filter";
    input.type = "search";
    count.setAttribute("aria-live", "polite");
    input.oninput = () => {
      const want = input.value.toLowerCase();
      let n = 0;
      for (const row of body.rows) {
        row.hidden = !row.textContent.toLowerCase().includes(want);
        n += !row.hidden;
      }
      count.textContent = want ? n + " of " + body.rows.length + " rows" : "";
    };
    label.append("Filter ", input, count);
    table.parentElement.before(label);
  }
};
document.querySelectorAll("table.sortable").forEach(sortable);
// A browser does not parse the contents of noscript, so long tables cost nothing until they are shown.
for (const long of document.querySelectorAll("noscript.long")) {
  const button = document.createElement("button"), bar = document.createElement("div");
  bar.className = "bar";
  button.textContent = long.title;
  button.type = "button";
  button.onclick = () => {
    const box = document.createElement("div");
    box.innerHTML = long.textContent; // the page's own markup, in which names are escaped
    bar.replaceWith(box);
    sortable(box.querySelector("table"));
    box.querySelector("[tabindex]").focus({preventScroll: true});
  };
  bar.append(button);
  long.before(bar);
}

// Flame charts: buttons zoom, arrow keys go from frame to frame.
for (const flame of document.querySelectorAll(".flame")) {
  const frames = [...flame.querySelectorAll(".frame")], wide = flame.querySelector(".frames"), scroll = flame.querySelector(".scroll"), status = flame.querySelector(".status");
  let scale = 1;
  const zoom = (factor, at) => {
    const width = scroll.clientWidth, middle = at ?? (scroll.scrollLeft + width / 2) / (width * scale);
    scale = Math.min(4096, Math.max(1, scale * factor));
    wide.style.width = 100 * scale + "%";
    scroll.scrollLeft = middle * width * scale - width / 2;
  };
  const show = f => { status.textContent = f.title; };
  const into = f => zoom(60 / parseFloat(f.style.width) / scale, (parseFloat(f.style.left) + parseFloat(f.style.width) / 2) / 100);
  const bar = document.createElement("div");
  bar.className = "bar";
  for (const [name, act] of [["Zoom in", () => zoom(2)], ["Zoom out", () => zoom(0.5)], ["Whole run", () => zoom(1 / scale)]]) {
    const b = document.createElement("button");
    b.textContent = name;
    b.onclick = act;
    bar.append(b);
  }
  flame.prepend(bar);
  if (frames.length) frames[0].tabIndex = 0;
  frames.forEach((f, i) => {
    f.onmouseenter = f.onfocus = () => show(f);
    f.ondblclick = () => into(f);
    f.onclick = () => f.focus();
    f.onkeydown = e => {
      const level = g => g.style.top;
      let next = null;
      if (e.key === "ArrowRight") next = frames.slice(i + 1).find(g => level(g) === level(f));
      else if (e.key === "ArrowLeft") next = frames.slice(0, i).findLast(g => level(g) === level(f));
      else if (e.key === "ArrowDown") next = frames[i + 1] && level(frames[i + 1]) !== level(f) ? frames[i + 1] : null;
      else if (e.key === "ArrowUp") next = frames.slice(0, i).findLast(g => parseFloat(g.style.left) <= parseFloat(f.style.left) && level(g) !== level(f));
      else if (e.key === "Enter") into(f);
      else if (e.key === "+" || e.key === "=") zoom(2);
      else if (e.key === "-") zoom(0.5);
      else if (e.key === "0") zoom(1 / scale);
      else return;
      e.preventDefault();
      if (next) { f.tabIndex = -1; next.tabIndex = 0; next.focus(); }
    };
  });
}
