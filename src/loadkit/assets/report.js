/* Makes the report's timeline and the chooser of single requests. Data come from JSON blocks in the page; nothing is loaded. */
(function () {
  "use strict";
  const root = document.currentScript.closest(".lk");
  const data = (name) => JSON.parse(root.querySelector(`script[data-lk="${name}"]`).textContent);
  const words = data("words");
  const say = (text) => words[text] || text;
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const make = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const plots = [];

  /* ---- theme: a page around us (Locust's) may be dark although the system is light ---- */
  const inherit = root.dataset.theme === "inherit";
  function theme() {
    if (!inherit) return;
    const rgb = (getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g) || [255, 255, 255]).map(Number);
    const dark = rgb.length === 4 && rgb[3] === 0 ? false : rgb[0] * 0.3 + rgb[1] * 0.6 + rgb[2] * 0.1 < 128;
    root.dataset.theme = dark ? "dark" : "light";
  }
  theme();
  const repaint = () => plots.forEach((plot) => plot.redraw(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  if (inherit) new MutationObserver(() => { theme(); repaint(); }).observe(document.body, { attributes: true, attributeFilter: ["class", "style"] });

  /* ---- figures ---- */
  const digits = (value) => (value === 0 ? "0" : Math.abs(value) >= 100 ? value.toFixed(0) : Number(value.toPrecision(3)).toString());
  function span(ms) {
    if (ms === null || ms === undefined) return "–";
    if (ms >= 3600e3) return `${Math.floor(ms / 3600e3)} h ${String(Math.floor((ms % 3600e3) / 60e3)).padStart(2, "0")} min`;
    if (ms >= 120e3) return `${Math.floor(ms / 60e3)} min ${String(Math.round((ms % 60e3) / 1e3)).padStart(2, "0")} s`;
    return ms >= 1000 ? `${digits(ms / 1000)} s` : `${digits(ms)} ms`;
  }
  /* Ticks of one axis share a unit: 0 s, 5 s, 10 s – or minutes and seconds as 4:30. */
  function spanTicks(ticks) {
    const top = ticks.length ? ticks[ticks.length - 1] : 0;
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : 0;
    if (top >= 120e3 && step >= 1e3) {
      return ticks.map((ms) => {
        const s = Math.round(ms / 1000), h = Math.floor(s / 3600), m = Math.floor((s % 3600) / 60), rest = String(s % 60).padStart(2, "0");
        return h ? `${h}:${String(m).padStart(2, "0")}:${rest}` : `${m}:${rest}`;
      });
    }
    return top >= 1000 ? ticks.map((ms) => `${Number((ms / 1000).toPrecision(6))} s`) : ticks.map((ms) => `${Number(ms.toPrecision(6))} ms`);
  }

  const axis = (extra) => Object.assign({ stroke: () => css("--soft"), grid: { stroke: () => css("--grid"), width: 1 }, ticks: { stroke: () => css("--line"), width: 1 }, font: "11.5px system-ui, sans-serif" }, extra);
  const fillWidth = (node, height, draw) => {
    const plot = draw(Math.max(280, node.clientWidth), height);
    new ResizeObserver(() => { const width = Math.max(280, node.clientWidth); if (width !== plot.width) plot.setSize({ width, height: plot.height }); }).observe(node);
    plots.push(plot);
    return plot;
  };

  const TIME_STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 14400e3, 43200e3, 86400e3];

  /* ---- timeline ---- */
  const line = data("timeline");
  const holder = root.querySelector("[data-lk-timeline]");
  if (holder && (line.start.length || line.memory.length)) timeline(holder);

  function timeline(node) {
    const last = Math.max(1, ...line.start.map((begin, i) => begin + line.length[i]), ...(line.memory[0] || []).slice(-1), ...(line.kv[0] || []).slice(-1));
    const full = { min: -last * 0.01, max: last * 1.01 };
    const range = Object.assign({}, full);
    const lanes = Math.max(1, ...line.lane.map((lane) => lane + 1));
    const charts = [];
    const x = { time: false, range: () => [range.min, range.max] };
    const zoom = (min, max) => {
      const width = Math.min(full.max - full.min, Math.max(2, max - min));
      range.min = Math.max(full.min, Math.min(min, full.max - width));
      range.max = range.min + width;
      charts.forEach((chart) => chart.setScale("x", range));
    };
    const cursor = { sync: { key: "lk-timeline" }, drag: { x: true, y: false, setScale: false }, points: { show: false } };
    const hooks = {
      setSelect: [(u) => { if (u.select.width > 4) { zoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")); u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false); } }],
    };
    const common = (height, extra) => Object.assign({ height, legend: { show: false }, cursor, scales: { x }, padding: [8, 12, 0, 0] }, extra);
    const xAxis = axis({ values: (u, ticks) => spanTicks(ticks), space: 70, size: 30, incrs: TIME_STEPS_MS });
    const yAxis = (label, extra) => axis(Object.assign({ label, labelSize: 18, labelFont: "11.5px system-ui, sans-serif", size: 52 }, extra));

    const caption = (text) => node.append(make("p", { class: "note" }, text));
    const add = (options, columns) => {
      const box = make("div");
      node.append(box);
      const chart = fillWidth(box, options.height, (width) => new uPlot(Object.assign({ width }, options), columns, box));
      chart.over.addEventListener("dblclick", () => zoom(full.min, full.max));
      charts.push(chart);
      return chart;
    };
    const laneHeight = Math.min(460, Math.max(90, 46 + lanes * 20));
    const tip = make("div", { class: "note", "aria-live": "polite" }, say("Point at a bar to read it; drag to zoom, double click to see all."));
    add(common(laneHeight, {
      scales: { x, y: { dir: -1, range: [-0.6, lanes - 0.4] } },
      series: [{}, { show: true, paths: () => null, points: { show: false } }],
      axes: [xAxis, yAxis(say("in flight"), { splits: () => laneSplits(lanes), values: (u, splits) => splits.map((lane) => lane + 1) })],
      hooks: Object.assign({}, hooks, { drawClear: [stages], draw: [bars, marks], setCursor: [(u) => { const i = under(u); tip.textContent = i < 0 ? tip.dataset.rest : read(i); u.over.style.cursor = i >= 0 && chooser.has(line.name[i]) ? "pointer" : ""; }], init: [(u) => u.over.addEventListener("click", () => { const i = under(u); if (i >= 0) chooser.show(line.name[i], true); })] }),
    }), [line.start.length ? line.start : [0], line.start.length ? line.lane : [0]]);
    tip.dataset.rest = tip.textContent;
    node.append(tip);
    if (line.memory.length) {
      caption(say("MemAvailable of the host, GiB"));
      add(common(130, { scales: { x, y: { range: (u, min, max) => [0, Math.max(max * 1.08, 8.5)] } }, series: [{}, { stroke: () => css("--c2"), width: 1.5, fill: () => css("--c2") + "22", points: { show: false } }], axes: [xAxis, yAxis("GiB")], hooks: Object.assign({}, hooks, { drawClear: [stages], draw: [levels, marks] }) }), line.memory);
    }
    if (line.kv.length) {
      caption(say("KV cache in use, %"));
      add(common(120, { scales: { x, y: { range: [0, 100] } }, series: [{}, { stroke: () => css("--c3"), width: 1.5, fill: () => css("--c3") + "22", points: { show: false } }], axes: [xAxis, yAxis("%")], hooks: Object.assign({}, hooks, { drawClear: [stages], draw: [marks] }) }), line.kv);
    }
    tools(node, zoom, range, full);

    function stages(u) {
      const { left, top, width, height } = u.bbox;
      u.ctx.save();
      u.ctx.beginPath(); u.ctx.rect(left, top, width, height); u.ctx.clip();
      u.ctx.fillStyle = css("--sheet");
      line.stages.forEach(([from, to], i) => {
        if (i % 2) return;
        const begin = u.valToPos(from, "x", true), end = u.valToPos(to === null ? last : to, "x", true);
        u.ctx.fillRect(begin, top, Math.max(1, end - begin), height);
      });
      u.ctx.restore();
    }
    function marks(u) {
      const { left, top, width, height } = u.bbox, ratio = uPlot.pxRatio;
      u.ctx.save();
      u.ctx.beginPath(); u.ctx.rect(left, top, width, height); u.ctx.clip();
      u.ctx.lineWidth = 1.5 * ratio;
      for (const [at, severity] of line.events) {
        const place = u.valToPos(at, "x", true);
        u.ctx.strokeStyle = css(severity === "unstable" ? "--bad" : "--unsure");
        u.ctx.setLineDash(severity === "unstable" ? [] : [4 * ratio, 3 * ratio]);
        u.ctx.beginPath(); u.ctx.moveTo(place, top); u.ctx.lineTo(place, top + height); u.ctx.stroke();
      }
      u.ctx.restore();
    }
    function levels(u) {
      const ratio = uPlot.pxRatio;
      u.ctx.save(); u.ctx.setLineDash([3 * ratio, 3 * ratio]); u.ctx.strokeStyle = css("--faint"); u.ctx.lineWidth = ratio;
      for (const level of [8, 6, 4]) {
        const place = u.valToPos(level, "y", true);
        u.ctx.beginPath(); u.ctx.moveTo(u.bbox.left, place); u.ctx.lineTo(u.bbox.left + u.bbox.width, place); u.ctx.stroke();
      }
      u.ctx.restore();
    }
    function bars(u) {
      const { left, top, width, height } = u.bbox;
      const tall = Math.max(1, Math.min(18 * uPlot.pxRatio, Math.abs(u.valToPos(1, "y", true) - u.valToPos(0, "y", true)) * 0.74));
      const colours = ["--decode", "--failed", "--cancelled", "--lost", "--warmup"].map(css), prefill = css("--prefill"), edge = css("--ink");
      u.ctx.save();
      u.ctx.beginPath(); u.ctx.rect(left, top, width, height); u.ctx.clip();
      line.start.forEach((begin, i) => {
        const end = begin + line.length[i];
        if (end < range.min || begin > range.max) return;
        const a = u.valToPos(begin, "x", true), b = Math.max(a + 1, u.valToPos(end, "x", true)), y = u.valToPos(line.lane[i], "y", true) - tall / 2;
        u.ctx.fillStyle = colours[line.kind[i]];
        u.ctx.fillRect(a, y, b - a, tall);
        const first = line.first[i];
        if (first !== null && line.kind[i] !== 4) {
          u.ctx.fillStyle = prefill;
          u.ctx.fillRect(a, y, Math.max(0.5, u.valToPos(begin + first, "x", true) - a), tall);
        }
        if (line.kind[i] === 1 || line.kind[i] === 3) { /* crossed out, so that it does not take colour to see it */
          u.ctx.strokeStyle = edge; u.ctx.lineWidth = 1.2 * uPlot.pxRatio;
          u.ctx.beginPath(); u.ctx.rect(a, y, b - a, tall); u.ctx.moveTo(a, y); u.ctx.lineTo(b, y + tall); u.ctx.moveTo(a, y + tall); u.ctx.lineTo(b, y); u.ctx.stroke();
        }
      });
      u.ctx.restore();
    }
    function under(u) {
      if (u.cursor.left < 0) return -1;
      const at = u.posToVal(u.cursor.left, "x"), lane = Math.round(u.posToVal(u.cursor.top, "y")), slack = (range.max - range.min) / u.over.clientWidth * 2;
      return line.start.findIndex((begin, i) => line.lane[i] === lane && begin - slack <= at && at <= begin + line.length[i] + slack);
    }
    function read(i) {
      const kind = ["completed", "failed", "cancelled", "lost", "warm-up"][line.kind[i]];
      return `${line.name[i]} · ${say(kind)} · ${say("from")} ${span(line.start[i])} · TTFT ${span(line.first[i])} · ${say("in all")} ${span(line.length[i])}`;
    }
  }
  const laneSplits = (lanes) => { const step = Math.ceil(lanes / 8); return Array.from({ length: Math.ceil(lanes / step) }, (_, i) => i * step); };

  function tools(node, zoom, range, full) {
    const bar = make("div", { class: "tools" });
    const act = (label, name, run) => { const button = make("button", { type: "button", "aria-label": say(name), title: say(name) }, label); button.addEventListener("click", run); bar.append(button); };
    const pan = (part) => zoom(range.min + (range.max - range.min) * part, range.max + (range.max - range.min) * part);
    const scale = (factor) => { const middle = (range.min + range.max) / 2, half = (range.max - range.min) / 2 * factor; zoom(middle - half, middle + half); };
    act("←", "earlier", () => pan(-0.5)); act("→", "later", () => pan(0.5)); act("+", "zoom in", () => scale(0.5)); act("−", "zoom out", () => scale(2)); act(say("all"), "whole run", () => zoom(full.min, full.max));
    const swatch = (name, colour) => { const box = make("span", { class: "swatch" }); box.style.background = `var(${colour})`; const item = make("span", {}, box, say(name)); bar.append(item); };
    swatch("prefill (to the first token)", "--prefill"); swatch("decode", "--decode"); swatch("failed", "--failed");
    if (line.kind.includes(2)) swatch("cancelled", "--cancelled");
    if (line.kind.includes(3)) swatch("lost", "--lost");
    if (line.kind.includes(4)) swatch("warm-up", "--warmup");
    bar.append(make("span", {}, say("grey bands: stages; vertical lines: host events")));
    node.prepend(bar);
    node.tabIndex = 0;
    node.addEventListener("keydown", (event) => {
      const run = { ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), "+": () => scale(0.5), "-": () => scale(2), "0": () => zoom(full.min, full.max) }[event.key];
      if (run && event.target === node) { event.preventDefault(); run(); }
    });
  }

  /* ---- one request: facts, gaps, texts ---- */
  var chooser = requests(data("requests"));

  function requests(rows) {
    const list = root.querySelector("[data-lk-list]"), view = root.querySelector("[data-lk-request]");
    const places = new Map(rows.map((row, i) => [row.id, i]));
    if (!list || !rows.length) return { has: () => false, show: () => {} };
    let chosen = -1, plot = null;
    const buttons = rows.map((row, i) => {
      const tag = make("span", { class: `tag ${row.why}` }, say(row.why));
      const facts = row.facts.filter(([name]) => ["TTFT", "TPOT", "N", "outcome"].includes(name)).map(([name, value]) => (name === "outcome" ? say(value) : `${name} ${value}`)).join(" · ");
      const button = make("button", { type: "button", role: "option", "aria-selected": "false" }, tag, row.title, make("small", {}, facts));
      button.addEventListener("click", () => choose(i));
      list.append(button);
      return button;
    });
    list.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const shown = buttons.map((button, i) => i).filter((i) => !buttons[i].hidden);
      const next = shown[Math.min(shown.length - 1, Math.max(0, shown.indexOf(chosen) + step))];
      if (next !== undefined) { choose(next); buttons[next].focus(); }
    });
    const filter = root.querySelector("[data-lk-filter]");
    if (filter) filter.addEventListener("change", () => {
      buttons.forEach((button, i) => { button.hidden = filter.value !== "" && rows[i].why !== filter.value; });
      const first = buttons.findIndex((button) => !button.hidden);
      if (first >= 0) choose(first);
    });
    function choose(i) {
      if (chosen >= 0) buttons[chosen].setAttribute("aria-selected", "false");
      chosen = i;
      buttons[i].setAttribute("aria-selected", "true");
      if (plot) { plots.splice(plots.indexOf(plot), 1); plot.destroy(); plot = null; }
      view.replaceChildren(...content(rows[i]));
      const box = view.querySelector("[data-lk-gaps]");
      if (box) plot = gaps(box, rows[i]);
    }
    function content(row) {
      const facts = make("dl");
      facts.append(make("dt", {}, "id"), make("dd", {}, row.id));
      for (const [name, value] of row.facts) facts.append(make("dt", {}, say(name)), make("dd", {}, name === "outcome" ? say(value) : value));
      const parts = [make("h3", {}, row.title), facts];
      if (row.failure) parts.push(make("pre", {}, row.failure));
      row.checks.forEach((check) => parts.push(make("p", {}, check)));
      if (row.gaps) parts.push(make("h3", {}, say("Gaps between chunks")), make("div", { "data-lk-gaps": "" }));
      const text = (title, body, cut) => {
        if (!body) return;
        parts.push(make("h3", {}, say(title)), make("pre", {}, body));
        if (cut) parts.push(make("p", { class: "note" }, `${cut} ${say("more characters are in the records")}`));
      };
      row.tools.forEach((call) => text("Tool call", call, 0));
      text("Answer", row.answer, row.answer_cut);
      text("Thinking", row.reasoning, row.reasoning_cut);
      return parts;
    }
    choose(0);
    return {
      has: (id) => places.has(id),
      show: (id, scroll) => { if (!places.has(id)) return; if (filter) { filter.value = ""; buttons.forEach((button) => { button.hidden = false; }); } const i = places.get(id); choose(i); list.scrollTop = buttons[i].offsetTop - list.offsetTop - 40; if (scroll) list.closest("section").scrollIntoView({ behavior: "smooth" }); },
    };
  }
  function unpack(text) {
    const gaps = [];
    let number = 0, shift = 1;
    for (const char of atob(text)) {
      const byte = char.charCodeAt(0);
      number += (byte & 127) * shift;
      if (byte < 128) { gaps.push(number / 100); number = 0; shift = 1; } else shift *= 128;
    }
    return gaps;
  }
  function gaps(box, row) {
    const values = unpack(row.gaps), kinds = row.kinds.flatMap(([kind, count]) => Array(count).fill(kind)).slice(1);
    const pick = (kind) => values.map((value, i) => ((kinds[i] || "a") === kind ? value : null));
    const bars = uPlot.paths.bars({ size: [0.8, 14], align: 0 });
    const series = [["a", "answer", "--c0"], ["r", "thinking", "--c4"], ["t", "tool call", "--c2"]].filter(([kind]) => kinds.includes(kind));
    return fillWidth(box, 220, (width, height) => new uPlot({
      width, height, legend: { live: true }, cursor: { drag: { x: true, y: false }, points: { show: false } },
      scales: { x: { time: false, range: (u, min, max) => [min - 0.8, max + 0.8] }, y: { range: (u, min, max) => [0, max * 1.08 || 1] } },
      series: [{ label: say("gap"), value: (u, at) => (at === null ? "–" : String(at)) }, ...series.map(([, name, colour]) => ({ label: say(name), stroke: () => css(colour), fill: () => css(colour), width: 0, paths: bars, points: { show: false }, value: (u, ms) => span(ms) }))],
      axes: [axis({ size: 30, space: 60, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] }), axis({ size: 60, values: (u, ticks) => spanTicks(ticks) })],
    }, [values.map((_, i) => i + 1), ...series.map(([kind]) => pick(kind))], box));
  }

  /* On paper: everything unfolded, and light whatever the screen is. */
  let before = null;
  addEventListener("beforeprint", () => { root.querySelectorAll("details").forEach((node) => { node.open = true; }); before = root.dataset.theme; root.dataset.theme = "light"; plots.forEach((plot) => plot.redraw(false)); });
  addEventListener("afterprint", () => { if (before === undefined) delete root.dataset.theme; else root.dataset.theme = before; repaint(); });
})();
