"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const COLORS = { "compute bound": "#2da44e", "memory bound": "#d4671c", "latency bound:pipeline caused": "#8c6be0",
  "latency bound:memory caused": "#c98a00", "latency bound:compute caused": "#1f8fb3" };
const operators = data.operators, totals = data.totals;

function el(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}
function us(value) {
  const [scale, unit] = value >= 1e6 ? [1e6, "s"] : value >= 1e3 ? [1e3, "ms"] : value >= 1 ? [1, "us"] : [1e-3, "ns"];
  return `${(value / scale).toLocaleString("en", { maximumSignificantDigits: 4 })} ${unit}`;
}
function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit < 4) { value /= 1024; unit++; }
  return `${value.toLocaleString("en", { maximumSignificantDigits: 3 })} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}
const counts = (table) => Object.entries(table || {}).filter(([, n]) => n).map(([word, n]) => `${n} ${word}`).join(", ");
const percent = (x) => `${(100 * x).toFixed(1)}%`;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- overview

function overview() {
  document.title = $("title").textContent = `${data.soc.name}: profile`;
  const cards = [["device time in kernels", us(totals.device_us)], ["first to last kernel", us(totals.span_us)],
    ["device busy in that span", totals.span_us ? percent(totals.busy_us / totals.span_us) : "-"],
    ["kernels", totals.kernels.toLocaleString("en")],
    ["estimated, not replayed", totals.device_us ? percent(totals.estimated_us / totals.device_us) : "-"],
    ["program, host clock", us(totals.host_us)]];
  for (const copy of totals.copies) cards.push([`${copy.count} copies ${copy.direction}, ${bytes(copy.bytes)}`, us(copy.us)]);
  for (const [what, value] of cards) {
    const card = el("div", undefined, "card");
    card.append(el("b", value), el("span", what));
    $("cards").append(card);
  }
  for (const [pipe, share] of Object.entries(totals.pipes)) {
    const row = el("span", `${pipe} ${percent(share)}`, "pipe"), meter = el("span", undefined, "meter"), fill = el("i");
    fill.style.width = percent(share);
    meter.append(fill);
    row.prepend(meter);
    row.title = "busy share of this pipe on all cores while kernels ran";
    $("pipes").append(row);
  }
  const words = counts(data.soc.confidence);
  $("chip").textContent = data.soc.facts.map(([k, v]) => `${k} ${v}`).join(" \u00b7 ") +
    ` \u00b7 figures of this chip: ${words} \u00b7 configuration ${data.soc.digest}`;
  if (!data.models.length) return;
  const table = el("table"), head = el("tr");
  for (const name of ["model", "executions", "latency mean", "min", "max"]) head.append(el("th", name));
  table.append(head);
  for (const model of data.models) {
    const row = el("tr");
    for (const cell of [model.name, model.runs, us(model.us), us(model.min), us(model.max)]) row.append(el("td", cell));
    table.append(row);
  }
  $("models").append(table);
}

// ---- roofline

function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
function roofline() {
  const W = 1000, H = 420, left = innerWidth < 640 ? 96 : 62, right = 20, top = 14, bottom = 44;
  const points = operators.map((o, i) => ({ i, o, x: o.ops / o.gm, y: o.ops / o.us / 1e6 })).filter((p) => p.x > 0 && p.y > 0 && isFinite(p.x));
  const peak = Math.max(...data.roofs.compute.map((r) => r[1]));
  const xs = points.map((p) => p.x).concat([0.1, peak * 1e3 / Math.min(...data.roofs.memory.map((r) => r[1])) * 4]);
  const ys = points.map((p) => p.y).concat([peak * 2]);
  const span = (values) => [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)))];
  const [x0, x1] = span(xs), [y0, y1] = span(ys);
  const px = (x) => left + (Math.log10(x) - x0) / (x1 - x0) * (W - left - right);
  const py = (y) => H - bottom - (Math.log10(y) - y0) / (y1 - y0) * (H - top - bottom);
  const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "roofline of all operators" });
  for (let e = x0; e <= x1; e++) {
    root.append(svg("line", { class: "grid", x1: px(10 ** e), x2: px(10 ** e), y1: top, y2: H - bottom }));
    root.append(svg("text", { x: px(10 ** e), y: H - bottom + 18, "text-anchor": "middle" }, String(10 ** e)));
  }
  for (let e = y0; e <= y1; e++) {
    root.append(svg("line", { class: "grid", x1: left, x2: W - right, y1: py(10 ** e), y2: py(10 ** e) }));
    root.append(svg("text", { x: left - 6, y: py(10 ** e) + 4, "text-anchor": "end" }, e < -3 ? `1e${e}` : String(10 ** e)));
  }
  root.append(svg("text", { x: (W + left) / 2, y: H - 6, "text-anchor": "middle" }, "operations / byte"));
  root.append(svg("text", { x: 14, y: H / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${H / 2})` }, "TOPS"));
  const labels = [];
  data.roofs.compute.forEach(([name, roof], n) => {
    const from = Math.max(10 ** x0, roof * 1e3 / Math.max(...data.roofs.memory.map((r) => r[1])));
    root.append(svg("line", { class: `roof ${n ? "second" : ""}`, x1: px(from), x2: W - right, y1: py(roof), y2: py(roof) }));
    labels.push(svg("text", { x: W - right - 4, y: py(roof) - 5, "text-anchor": "end" }, `${name} ${roof.toFixed(roof < 10 ? 2 : 0)} TOPS`));
  });
  data.roofs.memory.forEach(([name, gbps], n) => {
    const start = Math.max(10 ** x0, 10 ** y0 / gbps * 1e3), end = Math.min(peak * 1e3 / gbps, 10 ** x1);
    root.append(svg("line", { class: `roof ${n ? "second" : ""}`, x1: px(start), y1: py(start * gbps / 1e3), x2: px(end), y2: py(end * gbps / 1e3) }));
    const at = 10 ** (Math.log10(start) + (0.3 + 0.25 * n) * (Math.log10(end) - Math.log10(start)));
    const [dx, dy, anchor] = n ? [-6, -6, "end"] : [8, 16, "start"];
    labels.push(svg("text", { x: px(at) + dx, y: py(at * gbps / 1e3) + dy, "text-anchor": anchor }, `${name} ${gbps} GB/s`));
  });
  for (const { i, o, x, y } of points.sort((a, b) => b.o.us - a.o.us)) {
    const color = COLORS[o.class], share = totals.device_us ? o.us / totals.device_us : 0;
    const dot = svg("circle", { cx: px(x), cy: py(y), r: 3 + 28 * Math.sqrt(share), stroke: color, fill: o.estimated ? "none" : color });
    if (o.estimated) dot.setAttribute("pointer-events", "all");
    dot.addEventListener("pointermove", (event) => tip(event, about(i)));
    dot.addEventListener("pointerleave", () => { $("tip").hidden = true; });
    dot.addEventListener("click", () => pick(i, true));
    root.append(dot);
  }
  root.append(...labels);
  $("roofline").append(root);
  const time = {};
  for (const o of operators) time[o.class] = (time[o.class] || 0) + o.us;
  for (const [word, sum] of Object.entries(time).sort((a, b) => b[1] - a[1])) {
    const box = el("div", `${word}: ${percent(sum / (totals.device_us || 1))} of device time`, "class");
    box.style.borderColor = COLORS[word];
    box.append(el("span", data.advice[word]));
    $("classes").append(box);
  }
}

// ---- advice, memory, comparison

function bar(share, color, title) {
  const meter = el("span", undefined, "meter wide"), fill = el("i");
  fill.style.width = percent(Math.min(Math.max(share, 0), 1));
  if (color) fill.style.background = color;
  meter.append(fill);
  if (title) meter.title = title;
  return meter;
}
function gains() {
  const found = data.whatif || [];
  $("advice").hidden = !found.length;
  for (const { op, us: time, gains: list } of found) {
    const o = operators[op], box = el("div", undefined, "gain"), head = el("button", `${o.type} ${o.name}`, "link");
    head.addEventListener("click", () => pick(op, true));
    box.style.borderColor = COLORS[o.class];
    const best = list[0], what = best && best[1] >= 0.02 ? `most from ${best[0]}: ${percent(best[1])} less` : "no single change helps much";
    box.append(head, el("div", `${us(time)} a run, ${percent(o.us / (totals.device_us || 1))} of device time, ${o.class}; ${what}`, "note"));
    for (const [words, saved] of list) {
      const line = el("div", undefined, "line");
      line.append(el("span", words), bar(saved), el("b", percent(saved)));
      box.append(line);
    }
    $("gains").append(box);
  }
}
function memory() {
  const list = data.memory || [], t = data.traffic;
  $("memory").hidden = !list.length && !(t && t.read + t.write);
  if (t && t.read + t.write) {
    const parts = [["read by cores", t.read], ["of it found in L2", t.hit], ["written by cores", t.write], ["to and from memory", t.hbm]];
    const most = Math.max(...parts.map((p) => p[1]), 1);
    for (const [words, n] of parts) {
      const line = el("div", undefined, "line");
      line.append(el("span", words), bar(n / most), el("b", bytes(n)));
      $("traffic").append(line);
    }
  }
  for (const m of list) {
    const W = 1000, H = 170, left = innerWidth < 640 ? 110 : 76, right = 12, top = 12, bottom = 28;
    const xs = m.points.map((p) => p[0]), x0 = Math.min(...xs), x1 = Math.max(...xs, x0 + 1), y1 = m.peak * 1.08 || 1;
    const px = (x) => left + (x - x0) / (x1 - x0) * (W - left - right), py = (y) => H - bottom - y / y1 * (H - top - bottom);
    const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `memory of NPU ${m.device} over time` });
    for (const share of [0, 0.5, 1]) {
      root.append(svg("line", { class: "grid", x1: left, x2: W - right, y1: py(share * m.peak), y2: py(share * m.peak) }));
      root.append(svg("text", { x: left - 6, y: py(share * m.peak) + 4, "text-anchor": "end" }, bytes(share * m.peak)));
    }
    let path = `M${px(x0)},${py(0)}`, last = 0;
    for (const [x, y] of m.points) { path += `L${px(x).toFixed(1)},${py(last).toFixed(1)}L${px(x).toFixed(1)},${py(y).toFixed(1)}`; last = y; }
    root.append(svg("path", { class: "area", d: `${path}L${px(x1)},${py(last)}L${px(x1)},${py(0)}Z` }));
    root.append(svg("text", { x: left, y: H - 8 }, us(x0)), svg("text", { x: W - right, y: H - 8, "text-anchor": "end" }, us(x1)));
    const held = m.holders.map(([name, count, n]) => `${name} ${bytes(n)} in ${count} block${count > 1 ? "s" : ""}`).join(" \u00b7 ");
    const box = el("div", undefined, "curve");
    box.append(el("div", `NPU ${m.device}: peak ${bytes(m.peak)} of ${bytes(m.capacity)} at ${us(m.peak_us)}; held then: ${held}`, "note"), root);
    $("curves").append(box);
  }
}
let corder = 5, cdown = true;
const CCOLUMNS = [["operator", (o) => o.name, (o) => o.name, "name"], ["type", (o) => o.type, (o) => o.type, ""],
  ["inputs", (o) => o.shapes, (o) => o.shapes, "shape"],
  ["1, per run", (o) => o.us_one ?? -1, (o) => o.us_one === null ? "-" : us(o.us_one), "n"],
  ["2, per run", (o) => o.us_two ?? -1, (o) => o.us_two === null ? "-" : us(o.us_two), "n"],
  ["change", (o) => Math.abs(o.change), (o) => `${o.change < 0 ? "-" : "+"}${us(Math.abs(o.change))}`, "n"],
  ["2 / 1", (o) => o.us_one && o.us_two !== null ? o.us_two / o.us_one : -1, (o) => o.us_one && o.us_two !== null ? `${(o.us_two / o.us_one).toFixed(2)}x` : "-", "n"],
  ["bound", (o) => o.bound_two || o.bound_one, (o) => o.bound_two || o.bound_one, ""]];
function compared() {
  const c = data.compare;
  $("compare").hidden = !c;
  if (!c) return;
  const head = el("tr");
  for (const [i, name] of ["", `1: ${c.names[0]}`, `2: ${c.names[1]}`, "2 / 1"].entries()) head.append(el("th", name, i ? "n" : ""));
  const table = el("table");
  table.append(head);
  for (const { what, one, two } of c.totals) {
    const row = el("tr"), show = (v) => v.toLocaleString("en", { maximumFractionDigits: 2 });
    row.append(el("td", what), el("td", show(one), "n"), el("td", show(two), "n"), el("td", one ? `${(two / one).toFixed(2)}x` : "-", "n"));
    table.append(row);
  }
  $("ctotals").append(table);
  $("cfilter").addEventListener("input", ctable);
  ctable();
}
function ctable() {
  sortable($("ctable").tHead, CCOLUMNS, corder, cdown, (c, d) => { corder = c; cdown = d; ctable(); });
  const all = data.compare.operators, words = $("cfilter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = all.filter((o) => words.every((w) => `${o.name} ${o.type} ${o.shapes}`.toLowerCase().includes(w)));
  const value = CCOLUMNS[corder][1];
  rows.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (cdown ? -1 : 1));
  const body = document.createDocumentFragment();
  for (const o of rows.slice(0, 1000)) {
    const row = el("tr");
    for (const [name, , shown, kind] of CCOLUMNS) {
      const cell = el("td", shown(o), kind);
      if (kind === "name" || kind === "shape") cell.title = shown(o);
      if (name === "change" && o.change) cell.className = `n ${o.change < 0 ? "better" : "worse"}`;
      row.append(cell);
    }
    body.append(row);
  }
  $("ctable").tBodies[0].replaceChildren(body);
  $("cshown").textContent = `${rows.length} of ${all.length} operators`;
}
function sortable(head, columns, at, falling, chosen) {
  const row = el("tr");
  columns.forEach(([name, , , kind], c) => {
    const cell = el("th", name + (c === at ? (falling ? " \u25be" : " \u25b4") : ""), kind === "n" ? "n" : "");
    cell.tabIndex = 0;
    cell.ariaSort = c === at ? (falling ? "descending" : "ascending") : "none";
    const sort = () => chosen(c, c === at ? !falling : kind === "n");
    cell.addEventListener("click", sort);
    cell.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    row.append(cell);
  });
  head.replaceChildren(row);
}

// ---- operators

const COLUMNS = [
  ["operator", (o) => o.name, (o) => o.name, "name"], ["type", (o) => o.type, (o) => o.type, ""],
  ["inputs", (o) => o.shapes, (o) => o.shapes, "shape"], ["runs", (o) => o.runs, (o) => o.runs, "n"],
  ["time", (o) => o.us, (o) => us(o.us), "n"], ["share", (o) => o.us, (o) => percent(o.us / (totals.device_us || 1)), "n"],
  ["per run", (o) => o.us / o.runs, (o) => us(o.us / o.runs), "n"],
  ["blocks", (o) => o.blocks, (o) => o.blocks || "", "n"], ["cycles", (o) => o.cycles, (o) => o.cycles ? o.cycles.toLocaleString("en") : "", "n"],
  ["bound", (o) => o.class, (o) => o.class, ""], ["of peak", (o) => o.peak, (o) => percent(o.peak), "n"],
  ["busiest pipes", (o) => o.bound, (o) => pipes(o, 3), ""], ["traffic", (o) => o.gm, (o) => bytes(o.gm), "n"],
  ["confidence", (o) => o.confidence, (o) => o.estimated ? "estimated" : o.confidence, ""]];
let order = 4, down = true, picked = -1;

function pipes(o, most) {
  return Object.entries(o.ratios).sort((a, b) => b[1] - a[1]).slice(0, most).filter(([, r]) => r >= 0.01)
    .map(([pipe, r]) => `${pipe} ${Math.round(100 * r)}%`).join(" ");
}
function about(i) {
  const o = operators[i];
  return `${o.name}\n${o.type} ${o.shapes}\n${us(o.us)} in ${o.runs} runs (${percent(o.us / (totals.device_us || 1))}), ${o.blocks} blocks\n` +
    `${o.class}, ${percent(o.peak)} of peak\n${pipes(o, 9)}\n` +
    `${bytes(o.gm)} of global memory traffic, ${bytes(o.hbm)} beyond L2\n` + (o.estimated ? "estimated: no kernel, roofline time" : `rests on figures: ${counts(o.figures) || o.confidence}\nerror band: ${o.band || "-"}`);
}
function header() {
  sortable($("operators").tHead, COLUMNS, order, down, (c, d) => { order = c; down = d; table(); });
}
function table() {
  header();
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (o) => `${o.name} ${o.type} ${o.shapes} ${o.class} ${o.bound} ${o.estimated ? "estimated" : o.confidence}`.toLowerCase();
  const rows = operators.map((o, i) => [o, i]).filter(([o]) => words.every((word) => text(o).includes(word)));
  const value = COLUMNS[order][1];
  rows.sort(([a], [b]) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (down ? -1 : 1));
  const most = 1000, body = document.createDocumentFragment();
  for (const [o, i] of rows.slice(0, most)) {
    const row = el("tr", undefined, i === picked ? "picked" : "");
    row.dataset.i = i;
    for (const [name, , shown, kind] of COLUMNS) {
      const cell = el("td", shown(o), kind);
      if (kind === "name" || kind === "shape") cell.title = shown(o);
      if (name === "confidence" && o.estimated) cell.replaceChildren(el("span", "estimated", "estimated"));
      if (name === "bound") cell.style.color = COLORS[o.class];
      row.append(cell);
    }
    row.addEventListener("click", () => pick(i, false));
    body.append(row);
  }
  $("operators").tBodies[0].replaceChildren(body);
  const sum = rows.reduce((total, [o]) => total + o.us, 0);
  $("shown").textContent = `${rows.length} of ${operators.length} operators, ${us(sum)}` + (rows.length > most ? `, first ${most} shown` : "");
}
function pick(i, scroll) {
  picked = i;
  $("detail").textContent = about(i);
  $("detail").style.whiteSpace = "pre-line";
  if (scroll) { $("filter").value = ""; table(); document.querySelector("tr.picked")?.scrollIntoView({ block: "center" }); } else table();
  draw();
}
function tip(event, text) {
  const box = $("tip");
  box.textContent = text;
  box.hidden = false;
  box.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8))}px`;
}

// ---- timeline

const T = data.timeline, canvas = $("timeline"), LABEL = 104, ROW = 20, GAP = 10, AXIS = 22;
let start, dur, lane, nameOf, opOf, first, rows, height, view = [0, 1], extent = [0, 1], matches = null, found = [], at = -1, queued = false;

async function unpack(text, Type) {
  const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Type(await new Response(stream).arrayBuffer());
}
async function load() {
  [start, dur, lane, nameOf, opOf] = await Promise.all([unpack(T.start, Float64Array), unpack(T.dur, Float32Array),
    unpack(T.lane, Uint16Array), unpack(T.name, Uint32Array), unpack(T.op, Int32Array)]);
  first = new Uint32Array(T.lanes.length + 1).fill(T.count);
  for (let i = T.count - 1; i >= 0; i--) first[lane[i]] = i;
  for (let l = T.lanes.length - 1; l >= 0; l--) first[l] = Math.min(first[l], first[l + 1]);
  rows = [];
  let y = AXIS;
  T.lanes.forEach(([group, , depth], l) => { if (l && depth === 0) y += group === T.lanes[l - 1][0] ? 4 : GAP; rows.push(y); y += ROW; });
  height = y + 6;
  if (T.count) {
    let low = Infinity, high = 0;
    for (let i = 0; i < T.count; i++) { low = Math.min(low, start[i]); high = Math.max(high, start[i] + dur[i]); }
    const margin = (high - low) * 0.01 || 1;
    extent = [low - margin, high + margin];
  }
  let from = Infinity, to = -Infinity;
  for (let i = 0; i < T.count; i++) if (opOf[i] >= 0) { from = Math.min(from, start[i]); to = Math.max(to, start[i] + dur[i]); }
  view = from < to ? [from - (to - from) * 0.02, to + (to - from) * 0.02] : extent.slice();
  draw();
}
const hues = new Map();
function color(i) {
  const o = opOf[i] >= 0 ? operators[opOf[i]] : null;
  const key = o ? o.type : T.names[nameOf[i]].split(" ")[0];
  let found = hues.get(key);
  if (!found) {
    let hash = 7;
    for (const c of key) hash = (hash * 31 + c.charCodeAt(0)) >>> 0;
    hues.set(key, found = o ? `hsl(${hash % 360} 55% 55%)` : `hsl(${hash % 360} 14% 58%)`);
  }
  return found;
}
function search(l, time) { // index of the last slice of a lane that starts at or before a time
  let low = first[l], high = first[l + 1];
  while (low < high) { const middle = (low + high) >> 1; if (start[middle] <= time) low = middle + 1; else high = middle; }
  return low - 1;
}
function draw() { if (!queued) { queued = true; requestAnimationFrame(paint); } }
function paint() {
  queued = false;
  if (!start) return;
  const ratio = devicePixelRatio || 1, W = canvas.clientWidth;
  canvas.style.height = `${height}px`;
  if (canvas.width !== Math.round(W * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(W * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const g = canvas.getContext("2d"), scale = (W - LABEL) / (view[1] - view[0]), fg = css("--fg"), dim = css("--dim"), line = css("--line");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.fillStyle = css("--bg");
  g.fillRect(0, 0, W, height);
  g.font = "11px system-ui, sans-serif";
  g.textBaseline = "middle";
  axis(g, W, scale, line, dim);
  g.save();
  g.beginPath();
  g.rect(LABEL, AXIS, W - LABEL, height);
  g.clip();
  T.lanes.forEach((_, l) => {
    let last = -1;
    const end = first[l + 1], y = rows[l];
    for (let i = Math.max(first[l], search(l, view[0])); i < end && start[i] < view[1]; i++) {
      const x0 = LABEL + (start[i] - view[0]) * scale, x1 = x0 + dur[i] * scale;
      if (x1 < LABEL || (x1 - last < 0.7 && x1 - x0 < 0.7)) continue;
      const left = Math.max(x0, LABEL), width = Math.max(x1 - left, 0.8);
      g.globalAlpha = matches && !matches[nameOf[i]] ? 0.15 : 1;
      g.fillStyle = color(i);
      g.fillRect(left, y, width > 3 ? width - 0.6 : width, ROW - 2);
      if (found[at] === i || (picked >= 0 && opOf[i] === picked)) {
        g.strokeStyle = css("--mark");
        g.lineWidth = 2.5;
        g.strokeRect(left, y + 1, width, ROW - 4);
      }
      if (width > 34) {
        g.fillStyle = "#000";
        const room = Math.floor((width - 8) / 6.2), name = T.names[nameOf[i]];
        g.fillText(name.length > room ? name.slice(0, room - 1) + "\u2026" : name, left + 4, y + ROW / 2 - 1);
      }
      last = x1;
    }
  });
  g.restore();
  g.globalAlpha = 1;
  T.lanes.forEach(([group, label, depth], l) => {
    if (depth) return;
    g.fillStyle = fg;
    g.fillText(`${group} ${label}`, 6, rows[l] + ROW / 2 - 1);
  });
}
function axis(g, W, scale, line, dim) {
  const rough = 90 / scale, unit = 10 ** Math.floor(Math.log10(rough)), step = unit * [1, 2, 5, 10].find((m) => m * unit >= rough);
  for (let t = Math.ceil(view[0] / step) * step; t < view[1]; t += step) {
    const x = LABEL + (t - view[0]) * scale;
    g.fillStyle = line;
    g.fillRect(x, AXIS - 5, 1, height);
    g.fillStyle = dim;
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    g.fillText(`${t.toFixed(digits)} us`, x + 3, 9);
  }
}
function zoom(factor, center = (view[0] + view[1]) / 2) {
  const span = Math.min(Math.max((view[1] - view[0]) * factor, 1e-3), extent[1] - extent[0]);
  const share = (center - view[0]) / (view[1] - view[0]);
  view = [center - share * span, center + (1 - share) * span];
  pan(0);
}
function pan(by) {
  const span = view[1] - view[0], low = Math.max(extent[0], Math.min(view[0] + by, extent[1] - span));
  view = [low, low + span];
  draw();
}
const time = (x) => view[0] + (x - canvas.getBoundingClientRect().left - LABEL) / (canvas.clientWidth - LABEL) * (view[1] - view[0]);
function hit(event) {
  if (!start) return -1;
  const y = event.clientY - canvas.getBoundingClientRect().top, l = rows.findIndex((top) => y >= top && y < top + ROW);
  if (l < 0) return -1;
  const t = time(event.clientX), i = search(l, t), slack = (view[1] - view[0]) / canvas.clientWidth * 2;
  return i >= first[l] && t <= start[i] + dur[i] + slack ? i : -1;
}
function facts(i) {
  const where = T.lanes[lane[i]];
  return `${T.names[nameOf[i]]}\n${us(dur[i])}, from ${start[i].toFixed(3)} us\n${where[0]} ${where[1]}` +
    (opOf[i] >= 0 ? `\n\nall runs of this operator: ${about(opOf[i])}` : "");
}
function find() {
  const word = $("search").value.toLowerCase();
  found = [];
  at = -1;
  matches = word ? T.names.map((name) => name.toLowerCase().includes(word)) : null;
  if (matches) for (let i = 0; i < T.count; i++) if (matches[nameOf[i]]) found.push(i);
  found.sort((a, b) => start[a] - start[b]);
  $("hits").textContent = word ? `${found.length.toLocaleString("en")} slices` : "";
  draw();
}
function next() {
  if (!found.length) return;
  at = (at + 1) % found.length;
  const i = found[at], span = Math.max(dur[i] * 12, 1e-2);
  view = [start[i] + dur[i] / 2 - span / 2, start[i] + dur[i] / 2 + span / 2];
  $("hits").textContent = `${at + 1} of ${found.length.toLocaleString("en")}`;
  $("detail").textContent = facts(i);
  $("detail").style.whiteSpace = "pre-line";
  pan(0);
}
const pointers = new Map();
let moved = 0;
canvas.addEventListener("pointerdown", (event) => { pointers.set(event.pointerId, event.clientX); moved = 0; canvas.setPointerCapture(event.pointerId); });
for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (before === undefined) {
    const i = hit(event);
    if (i >= 0) tip(event, facts(i)); else $("tip").hidden = true;
    return;
  }
  if (pointers.size === 2) {
    const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
    const was = Math.abs(before - other), is = Math.abs(event.clientX - other);
    if (was > 8 && is > 8) zoom(was / is, time((event.clientX + other) / 2));
  } else pan(-(event.clientX - before) / (canvas.clientWidth - LABEL) * (view[1] - view[0]));
  moved += Math.abs(event.clientX - before);
  pointers.set(event.pointerId, event.clientX);
});
canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
canvas.addEventListener("click", (event) => {
  const i = moved > 4 ? -1 : hit(event);
  if (i < 0) return;
  if (opOf[i] >= 0) pick(opOf[i], false);
  $("detail").textContent = facts(i);
  $("detail").style.whiteSpace = "pre-line";
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / canvas.clientWidth * (view[1] - view[0]));
  else zoom(1.0015 ** event.deltaY, time(event.clientX));
}, { passive: false });
addEventListener("keydown", (event) => {
  if (event.target.tagName === "INPUT") {
    if (event.key === "Escape") event.target.blur();
    if (event.key === "Enter" && event.target.id === "search") next();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const step = (view[1] - view[0]) * 0.15, keys = { w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => pan(-step), d: () => pan(step),
    ArrowLeft: () => pan(-step), ArrowRight: () => pan(step), f: all, n: next, t: theme };
  if (event.key === "/") { event.preventDefault(); $("search").focus(); } else if (keys[event.key]) { keys[event.key](); if (event.key.startsWith("Arrow")) event.preventDefault(); }
});
function all() { view = extent.slice(); draw(); }
function theme(event, to) {
  const root = document.documentElement;
  root.dataset.theme = to || (root.dataset.theme === "dark" ? "light" : "dark");
  draw();
}
$("search").addEventListener("input", find);
$("filter").addEventListener("input", table);
$("in").addEventListener("click", () => zoom(0.6));
$("out").addEventListener("click", () => zoom(1 / 0.6));
$("all").addEventListener("click", all);
$("theme").addEventListener("click", () => theme());
function save(source, name) {
  const link = el("a");
  link.href = source.toDataURL("image/png");
  link.download = `${data.soc.name}_${name}.png`;
  link.click();
}
$("png").addEventListener("click", () => save(canvas, "timeline"));
$("rpng").addEventListener("click", () => { // the drawing with the colours of the page, which a picture file does not know
  const root = $("roofline").firstChild.cloneNode(true), [, , W, H] = root.getAttribute("viewBox").split(" ").map(Number);
  const style = svg("style", {}, `text{fill:${css("--dim")};font:12px sans-serif} .grid{stroke:${css("--line")}} ` +
    `.roof{fill:none;stroke:${css("--fg")};stroke-width:1.5} .second{stroke-dasharray:6 4} circle{fill-opacity:.6}`);
  root.prepend(style, svg("rect", { width: W, height: H, fill: css("--bg") }));
  root.setAttribute("width", 2 * W);
  root.setAttribute("height", 2 * H);
  const picture = new Image(), target = document.createElement("canvas");
  target.width = 2 * W;
  target.height = 2 * H;
  picture.onload = () => { target.getContext("2d").drawImage(picture, 0, 0); save(target, "roofline"); };
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(root))}`;
});
addEventListener("resize", draw);
theme(null, matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
overview();
compared();
gains();
memory();
roofline();
table();
load();
