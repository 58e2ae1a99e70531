// What scripts add to the page: times in the reader's zone, charts, and news without a reload. Everything is readable
// without them.
"use strict";
(() => {
  const lost = document.getElementById("lost");
  const stream = document.getElementById("stream");
  const POLL_EVERY = 10000;
  let connected = false;
  let since = null;

  // -- times ---------------------------------------------------------------------------------------------------------

  const zone = () => new URLSearchParams(location.search).get("zone") || "";
  const two = (number) => String(number).padStart(2, "0");

  function localised(time) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) return;
    const day = `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    const clock = `${two(at.getHours())}:${two(at.getMinutes())}`;
    const short = /^\d\d-\d\d /.test(time.textContent);
    time.textContent = short ? `${day} ${clock}` : `${at.getFullYear()}-${day} ${clock}:${two(at.getSeconds())}`;
  }

  function localise() {
    document.querySelectorAll("time[data-local]").forEach(localised);
    const name = Intl.DateTimeFormat().resolvedOptions().timeZone || "of this browser";
    document.querySelectorAll("[data-zone]").forEach((each) => {
      each.textContent = `Times are in your zone, ${name}; a time shows that of the cell when it is pointed at.`;
    });
    // A time that somebody writes is of the zone in which times are shown.
    const known = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (zone() || !known) return;
    document.querySelectorAll("form[data-reads-time]").forEach((form) => { form.elements.zone.value = known; });
    document.querySelectorAll("[data-zone-read]").forEach((each) => { each.textContent = `your zone, ${known}`; });
  }

  // -- charts --------------------------------------------------------------------------------------------------------

  const charts = new Map();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // The numbers of a chart are those of the table beside it.
  function read(table) {
    const heads = [...table.tHead.rows[0].cells];
    const columns = heads.map((head, at) => ({ at, name: head.dataset.series, scale: head.dataset.scale, label: head.textContent }));
    const series = columns.filter((column) => column.name);
    const rows = [...table.tBodies[0].rows].filter((row) => row.cells.length === heads.length);
    const times = rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000);
    const values = series.map((one) => rows.map((row) => parseFloat(row.cells[one.at].textContent)));
    return { series, data: [times, ...values], rows: rows.length };
  }

  function date(at) {
    const chosen = zone();
    const when = new Date(at * 1000);
    return chosen && chosen !== "cell" ? uPlot.tzDate(when, chosen) : when;
  }

  function options(series, width) {
    const scales = [...new Set(series.map((one) => one.scale))];
    const axis = (name, side, label) => ({
      scale: name, side, label, labelSize: 24, size: 56, stroke: colour("soft"), grid: { show: side === 3, stroke: colour("grid"), width: 1 },
    });
    const time = {
      stroke: colour("soft"), grid: { stroke: colour("grid"), width: 1 }, space: 80,
      values: (chart, splits, _, __, step) => splits.map((at, n) => {
        const day = uPlot.fmtDate("{MM}-{DD}")(date(at));
        const first = n === 0 || day !== uPlot.fmtDate("{MM}-{DD}")(date(splits[n - 1]));
        const clock = uPlot.fmtDate(step < 60 ? "{HH}:{mm}:{ss}" : "{HH}:{mm}")(date(at));
        return step >= 86400 ? day : clock + (first ? `\n${day}` : "");
      }),
    };
    const wide = width > 600;
    return {
      width, height: wide ? 300 : 220,
      tzDate: date,
      scales: Object.fromEntries(scales.map((name) => [name, { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] }])),
      series: [{ value: "{YYYY}-{MM}-{DD} {HH}:{mm}" }, ...series.map((one, at) => ({
        label: one.label, scale: one.scale, stroke: colour(one.name), width: 2, dash: at === 1 ? [8, 4] : at === 2 ? [2, 3] : undefined,
        points: { show: false },
      }))],
      axes: [time, ...scales.slice(0, 2).map((name, at) => axis(name, at === 0 ? 3 : 1, wide ? name : null))],
    };
  }

  function draw() {
    if (typeof uPlot === "undefined") return;
    document.querySelectorAll("[data-chart]").forEach((place) => {
      const table = document.getElementById(place.dataset.of);
      const found = table && read(table);
      if (!found || found.rows < 2) return;
      const width = place.parentElement.clientWidth - 18;
      const known = charts.get(place);
      if (known && known.root.isConnected) {
        known.setData(found.data);
        known.setSize({ width, height: known.height });
        return;
      }
      charts.set(place, new uPlot(options(found.series, width), found.data, place));
      place.setAttribute("role", "img");
      place.setAttribute("aria-label", `Chart of ${found.series.map((one) => one.label).join(", ")}; the numbers follow.`);
    });
  }

  function redraw() {
    charts.forEach((chart) => chart.destroy());
    charts.clear();
    draw();
  }

  function enhance() {
    localise();
    draw();
  }

  // -- news ----------------------------------------------------------------------------------------------------------

  function say(text, target) {
    lost.replaceChildren(document.createTextNode(text));
    if (target) {
      const link = document.createElement("a");
      link.href = target;
      link.textContent = "Log in again";
      lost.append(" ", link);
    }
    lost.hidden = false;
  }

  function failed(status) {
    connected = false;
    if (status === 401) {
      const here = (location.pathname.split("/").pop() || "./") + location.search;
      say("Your session has ended.", `login?expired=1&next=${encodeURIComponent(here)}`);
      return;
    }
    since = since || new Date();
    say(`The autoscaler's service has not answered since ${since.toLocaleTimeString()}. What is shown may be old. Trying again.`);
  }

  function restored() {
    connected = true;
    since = null;
    lost.hidden = true;
  }

  document.addEventListener("htmx:sse:after:connection", (event) => {
    const status = event.detail.connection.status;
    if (status === 200) restored();
    else failed(status);
  });
  document.addEventListener("htmx:sse:error", (event) => failed(event.detail.status));
  document.addEventListener("htmx:sse:close", () => { connected = false; });
  if (stream) stream.addEventListener("expired", () => failed(401));
  document.addEventListener("htmx:response:error", (event) => failed(event.detail.ctx && event.detail.ctx.response && event.detail.ctx.response.status));
  document.addEventListener("htmx:error", () => failed(0));
  document.addEventListener("htmx:after:swap", () => {
    since = null;
    lost.hidden = true;
    enhance();
  });
  if (stream) {
    setInterval(() => { if (!connected && !document.hidden && window.htmx) htmx.trigger(stream, "pass"); }, POLL_EVERY);
  }

  let width = window.innerWidth;
  window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; draw(); } });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  enhance();
})();
