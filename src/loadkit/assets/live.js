/* Draws the tab "LLM" in Locust's page. It asks this server once a second, keeps what it has, and never loads anything else. */
(function () {
  "use strict";
  const BASE = "./loadkit/";
  const POLL_MS = 1000;
  let words = {}, host = null, charts = [], data = null, drawn = { run: -1, generation: -1, times: [], columns: {} }, failures = 0;
  const say = (text) => words[text] || text;
  const make = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const css = (name) => getComputedStyle(host).getPropertyValue(name).trim();
  for (const name of ["palette.css", "uplot.css", "live.css"]) document.head.append(make("link", { rel: "stylesheet", href: `${BASE}assets/${name}` }));

  /* ---- figures ---- */
  const digits = (value) => (value === 0 ? "0" : Math.abs(value) >= 100 ? value.toFixed(0) : Number(value.toPrecision(3)).toString());
  const duration = (ms) => (ms === null || ms === undefined ? "–" : ms >= 1000 ? `${digits(ms / 1000)} s` : `${digits(ms)} ms`);
  const of_ns = (ns) => duration(ns === null ? null : ns / 1e6);
  const figure = (value) => (value === null || value === undefined ? "–" : digits(value));
  function clock(seconds) {
    const s = Math.max(0, Math.round(seconds)), h = Math.floor(s / 3600), m = Math.floor((s % 3600) / 60), rest = String(s % 60).padStart(2, "0");
    return h ? `${h}:${String(m).padStart(2, "0")}:${rest}` : `${m}:${rest}`;
  }

  /* ---- the charts: title, series (column, name, colour, dashed), how values are written, what it says while empty ---- */
  const CHARTS = [
    { title: "TTFT", note: "last 30 s", series: [["ttft_p50_ms", "median", "--c0"], ["ttft_p95_ms", "p95 (maximum below 59 values)", "--c1", true]], write: duration },
    { title: "TPOT", note: "last 30 s", series: [["tpot_p50_ms", "median", "--c0"]], write: duration },
    { title: "Output tokens/s", series: [["output_per_s", "all requests", "--c2"]], write: figure },
    { title: "Requests in flight", series: [["in_flight", "in flight", "--c0"], ["asked", "asked for", "--c1", true]], write: figure, stepped: true },
    { title: "KV cache and prefix hits", series: [["kv_percent", "KV cache in use", "--c3"], ["hit_percent", "prefix hits", "--c2", true]], write: (value) => (value === null || value === undefined ? "–" : `${digits(value)} %`), top: 100, empty: "needs the sidecar and the server's /metrics" },
    { title: "MemAvailable", series: [["memory_gib", "of the server's host", "--c2"]], write: (value) => (value === null || value === undefined ? "–" : `${digits(value)} GiB`), levels: true, empty: "needs the sidecar" },
  ];

  function build() {
    host = make("div", { class: "lk lk-live", "data-theme": "light" });
    host.append(
      make("p", { class: "verdict", role: "status" }), make("div", { class: "status" }),
      make("div", { class: "track", role: "progressbar", "aria-label": say("requests done") }, make("div")),
      make("div", { class: "links" }), make("div", { class: "grid-of-charts" }),
      make("p", { class: "note" }, say("Vertical lines: stages (thin), warnings (dashed), host events (solid). Live figures are of requests that ended; the report is made from every event.")),
      make("ul", { class: "markers", hidden: "" }), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": say("Figures by scenario and stage") }),
    );
    charts = CHARTS.map(chart);
  }
  function chart(spec) {
    const caption = make("figcaption", {}, say(spec.title) + (spec.note ? ` (${say(spec.note)})` : ""));
    const values = spec.series.map(([, name, colour, dashed]) => {
      const key = make("i", dashed ? { class: "dashed" } : {});
      key.style.borderColor = `var(${colour})`;
      const value = make("b", {}, "–");
      caption.append(make("span", {}, key, `${say(name)} `, value));
      return value;
    });
    const box = make("div"), nothing = make("div", { class: "nothing" }, say(spec.empty || "no value yet"));
    host.querySelector(".grid-of-charts").append(make("figure", {}, caption, box, nothing));
    return { spec, values, box, nothing, plot: null };
  }
  function plot(one) {
    const { spec, box } = one;
    const axis = (extra) => Object.assign({ stroke: () => css("--soft"), grid: { stroke: () => css("--grid"), width: 1 }, ticks: { stroke: () => css("--line"), width: 1 }, font: "11.5px system-ui, sans-serif" }, extra);
    const steps = spec.stepped ? { paths: uPlot.paths.stepped({ align: -1 }) } : {};
    const known = (u) => u.data.slice(1).some((values) => values.some((value) => value !== null));
    const top = (u, min, max) => [0, spec.top || Math.max((max || 0) * 1.1, spec.levels && known(u) ? levels()[0][1] * 1.15 : 0) || 1];
    const whole = spec.stepped ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] } : {};
    return new uPlot({
      width: Math.max(280, box.clientWidth), height: 190, legend: { show: false }, padding: [10, 10, 0, 0],
      cursor: { sync: { key: "lk-live" }, drag: { x: false, y: false }, points: { size: 5 } },
      scales: { x: { time: false, range: (u, min, max) => [min || 0, Math.max(max || 0, (min || 0) + 10)] }, y: { range: top } },
      series: [{}, ...spec.series.map(([, name, colour, dashed]) => Object.assign({ label: name, stroke: () => css(colour), width: 2, dash: dashed ? [6, 4] : undefined, spanGaps: true, points: { show: (u, i) => u.data[i].filter((value) => value !== null).length < 2 } }, steps))],
      axes: [axis({ values: (u, ticks) => ticks.map(clock), space: 60, size: 28, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600] }), axis(Object.assign({ values: (u, ticks) => ticks.map(spec.write), size: 68, space: 32 }, whole))],
      hooks: { draw: [(u) => lines(u, spec, known(u))], setCursor: [(u) => show(one, u.cursor.idx)] },
    }, [drawn.times, ...spec.series.map(([column]) => drawn.columns[column] || [])], box);
  }
  const levels = () => Object.entries((data && data.levels) || { warn: 8 }).sort((a, b) => b[1] - a[1]);
  function lines(u, spec, known) {
    const { left, top, width, height } = u.bbox, ratio = uPlot.pxRatio, ctx = u.ctx;
    ctx.save();
    ctx.beginPath(); ctx.rect(left, top, width, height); ctx.clip();
    ctx.font = `${10.5 * ratio}px system-ui, sans-serif`; ctx.textAlign = "left"; ctx.textBaseline = "bottom";
    if (spec.levels && known) for (const [name, gib] of levels()) {
      const y = u.valToPos(gib, "y", true);
      ctx.strokeStyle = css(name === "warn" ? "--unsure" : "--bad"); ctx.lineWidth = ratio; ctx.setLineDash([4 * ratio, 4 * ratio]);
      ctx.beginPath(); ctx.moveTo(left, y); ctx.lineTo(left + width, y); ctx.stroke();
      ctx.fillStyle = ctx.strokeStyle; ctx.fillText(`${say(`guard: ${name}`)} ${digits(gib)}`, left + 4 * ratio + (name === "stop_new" ? 90 * ratio : 0), y - 2 * ratio);
    }
    for (const [at, severity] of (data ? data.markers : [])) {
      const x = u.valToPos(at, "x", true);
      ctx.strokeStyle = css(severity === "stage" ? "--line" : severity === "unstable" ? "--bad" : "--unsure");
      ctx.lineWidth = (severity === "stage" ? 1 : 1.5) * ratio; ctx.setLineDash(severity === "suspect" ? [4 * ratio, 3 * ratio] : []);
      ctx.beginPath(); ctx.moveTo(x, top); ctx.lineTo(x, top + height); ctx.stroke();
    }
    ctx.restore();
  }
  function show(one, index) {
    one.spec.series.forEach(([column], i) => {
      const values = drawn.columns[column] || [];
      let place = index === null || index === undefined ? values.length - 1 : index;
      while (place > 0 && values[place] === null) place -= 1;
      one.values[i].textContent = one.spec.write(values[place] === undefined ? null : values[place]);
    });
  }

  /* ---- one answer of the server becomes the page ---- */
  function take(fresh) {
    data = fresh;
    if (fresh.generation !== drawn.generation || fresh.run !== drawn.run || fresh.from === 0) drawn = { run: fresh.run, generation: fresh.generation, times: [], columns: {} };
    drawn.times = drawn.times.slice(0, fresh.from).concat(fresh.times);
    for (const [name, values] of Object.entries(fresh.columns)) drawn.columns[name] = (drawn.columns[name] || []).slice(0, fresh.from).concat(values);
  }
  function draw() {
    status(); links(); rows(); markers();
    for (const one of charts) {
      const columns = one.spec.series.map(([column]) => drawn.columns[column] || []);
      const known = columns.some((values) => values.some((value) => value !== null));
      one.nothing.hidden = known;
      if (!one.plot && one.box.clientWidth) {
        one.plot = plot(one);
        new ResizeObserver(() => { if (one.box.clientWidth && one.box.clientWidth !== one.plot.width) one.plot.setSize({ width: one.box.clientWidth, height: 190 }); }).observe(one.box);
      } else if (one.plot) one.plot.setData([drawn.times, ...columns]);
      if (!one.plot || one.plot.cursor.idx === null || one.plot.cursor.left < 0) show(one, null);
    }
  }
  const put = (node, ...children) => { node.replaceChildren(...children); return node; };
  function status() {
    const line = host.querySelector(".verdict"), progress = data.progress, ended = data.ended, running = data.run > 0 && !ended;
    const tone = !ended ? "" : ended.exit_code === 0 ? "good" : ended.exit_code === 6 ? "unsure" : "bad";
    const words = ended ? ended.headline : running ? say("The run goes on; the verdict is made when it has ended.") : say("No run yet. Start one with the form.");
    if (line.textContent !== words) line.textContent = words;
    line.className = `verdict ${tone}`;
    const part = (name, value) => make("span", {}, `${say(name)} `, make("b", {}, value));
    const total = progress.total === null ? "" : ` / ${progress.total}`;
    const parts = [];
    if (data.run > 0) {
      if (data.label) parts.push(part("run", data.label));
      if (running && progress.stage) parts.push(part("stage", progress.stage + (progress.phase === "warmup" ? ` (${say("warm-up")})` : "")));
      if (progress.round) parts.push(part("round", progress.rounds ? `${progress.round} / ${progress.rounds}` : String(progress.round)));
      parts.push(part("requests", `${progress.done}${total}`), part("failed", String(progress.failed)));
      if (progress.eta_s !== null) parts.push(part("still about", clock(progress.eta_s)));
    }
    put(host.querySelector(".status"), ...parts);
    const share = progress.total ? Math.min(100, (progress.done / progress.total) * 100) : 0, track = host.querySelector(".track");
    track.hidden = !progress.total;
    track.setAttribute("aria-valuenow", share.toFixed(0));
    track.firstChild.style.width = `${share}%`;
  }
  function links() {
    const node = host.querySelector(".links"), key = JSON.stringify(data.links);
    if (node.dataset.key === key) return;
    node.dataset.key = key;
    put(node, ...data.links.map(({ href, title }) => make("a", { href, target: "_blank", rel: "noopener" }, say(title))));
  }
  function rows() {
    const head = ["Scenario", "Stage", "Requests", "Failed", "Wrong", "tokens/s (makespan)", "TTFT median", "TTFT maximum", "TPOT median"];
    const some = (count) => make("td", count ? { class: "some" } : {}, String(count));
    const body = data.rows.map((row) => make("tr", {},
      make("td", {}, row.scenario), make("td", {}, row.stage || "–"), make("td", {}, String(row.ended)), some(row.failed), some(row.wrong),
      make("td", {}, figure(row.makespan_per_s)), make("td", {}, of_ns(row.ttft_median_ns)), make("td", {}, of_ns(row.ttft_maximum_ns)), make("td", {}, of_ns(row.tpot_median_ns))));
    put(host.querySelector(".scroll"), ...(body.length ? [make("table", { class: "rows" }, make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col" }, say(name))))), make("tbody", {}, ...body))] : []));
  }
  function markers() {
    const node = host.querySelector(".markers"), worth = data.markers.filter(([, severity]) => severity !== "stage");
    node.hidden = !worth.length;
    put(node, ...worth.map(([at, severity, text]) => make("li", { class: severity }, `${clock(at)} ${text}`)));
  }

  /* ---- where we are in Locust's page ---- */
  function theme() {
    const rgb = (getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g) || [255, 255, 255]).map(Number);
    const value = rgb[0] * 0.3 + rgb[1] * 0.6 + rgb[2] * 0.1 < 128 ? "dark" : "light";
    if (host.dataset.theme !== value) { host.dataset.theme = value; charts.forEach((one) => one.plot && one.plot.redraw(false)); }
  }
  /* Locust's pages are React's: our node stands beside its tree and is put back whenever React has drawn the tab anew. */
  function attach() {
    const tabs = document.querySelector(".MuiTabs-root"), shown = new URLSearchParams(location.search).get("tab") === "loadkit";
    const place = tabs && tabs.parentElement;
    const address = document.querySelector("form input[name=host]");
    if (address && !address.placeholder) address.placeholder = say("empty: the embedded simulator is measured");
    if (!host || !place) return;
    if (shown && host.parentElement !== place) place.append(host);
    host.hidden = !shown;
    if (shown) { theme(); if (data) draw(); }
  }
  /* A page that shows the form while a run goes on (it was opened before --autostart's run began, or somebody else started one)
     would stay there: Locust looks only while it believes that a test runs. */
  let astray = 0;
  function find_the_run() {
    const stale = data.run > 0 && (window.templateArgs || {}).state === "ready" && !document.querySelector(".MuiTabs-root");
    const busy = document.activeElement && document.activeElement.matches("input, select, textarea");
    astray = stale && !busy ? astray + 1 : 0;
    if (astray === 3) location.reload();
  }
  async function poll() {
    try {
      const answer = await fetch(`${BASE}state?generation=${drawn.generation}&from=${drawn.times.length}`, { headers: { Accept: "application/json" } });
      if (answer.ok && (answer.headers.get("Content-Type") || "").includes("json")) { take(await answer.json()); failures = 0; attach(); find_the_run(); }
    } catch {
      failures += 1; /* the server has gone (the run's end in --autoquit): look less often */
    }
    setTimeout(poll, POLL_MS * Math.min(30, failures + 1));
  }
  async function begin() {
    try { words = (await (await fetch(`${BASE}words`)).json()).words; } catch { words = {}; }
    build();
    for (const name of ["pushState", "replaceState"]) {
      const original = history[name];
      history[name] = function (...given) { const result = original.apply(this, given); setTimeout(attach, 0); return result; };
    }
    addEventListener("popstate", () => setTimeout(attach, 0));
    new MutationObserver(() => { if (host.parentElement ? !host.isConnected : document.querySelector(".MuiTabs-root")) attach(); }).observe(document.body, { childList: true, subtree: true });
    poll();
  }
  begin();
})();
