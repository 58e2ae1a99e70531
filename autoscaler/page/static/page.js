// What scripts add to the page: times in the reader's zone, charts, and news without a reload. Everything is readable
// without them.
"use strict";
(() => {
  const lost = document.getElementById("lost");
  const stream = document.getElementById("stream");
  const POLL_EVERY = 10000;
  const PATIENCE = 8000;
  let connected = false;
  let answered = new Date();

  // -- times ---------------------------------------------------------------------------------------------------------

  const zone = () => document.documentElement.dataset.shownIn || "";
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

  // A banner stays until a good answer comes: "" if there is none, else what it is about.
  let trouble = "";

  function say(what, text, target) {
    trouble = what;
    lost.replaceChildren(document.createTextNode(text));
    if (target) {
      const link = document.createElement("a");
      link.href = target;
      link.textContent = "Log in again";
      lost.append(" ", link);
    }
    lost.hidden = false;
  }

  function clock(at) {
    const chosen = zone();
    const form = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, timeZoneName: "short" };
    if (chosen && chosen !== "cell") form.timeZone = chosen;
    try {
      return at.toLocaleTimeString([], form);
    } catch {
      return at.toLocaleTimeString();
    }
  }

  const because = (why) => (why ? `: ${why.replaceAll("`", "")}` : "");

  function failed(status, why) {
    if (status === 401) {
      const here = (location.pathname.split("/").pop() || "./") + location.search;
      say("expired", "Your session has ended.", `login?expired=1&next=${encodeURIComponent(here)}`);
    } else if (status >= 400 && status < 500) {
      say("refused", `This view is refused now (status ${status}), so what is shown is old: load the page again.`);
    } else if (status === 504) {
      say("stuck", `The autoscaler makes no passes${because(why)}. What is shown is old. Trying again.`);
    } else {
      const of = status ? "The autoscaler" : "The autoscaler's service";
      say("silent", `${of} has not answered since ${clock(answered)}${because(why)}. What is shown is old. Trying again.`);
    }
  }

  function restored() {
    answered = new Date();
    trouble = "";
    lost.hidden = true;
  }

  const renew = () => { if (stream && window.htmx) htmx.trigger(stream, "pass"); };
  const stored = () => document.querySelector("[data-stored]") !== null;

  // The stream is of the process that serves the page, and says nothing while the autoscaler itself is down or hangs.
  async function ask() {
    if (document.hidden) return;
    let status = 0, why = "";
    try {
      const answer = await fetch("alive", { headers: { "HX-Request": "true" }, signal: AbortSignal.timeout(PATIENCE) });
      status = answer.status;
      why = status === 503 || status === 504 ? (await answer.text()).slice(0, 300) : "";
    } catch {
      // Nobody listens, or the answer takes too long.
    }
    if (status !== 200) {
      failed(status, why);
      return;
    }
    const before = trouble;
    if (!before) answered = new Date();
    if (before && !stream) restored();
    else if (before || stored() || !connected) renew();
  }

  document.addEventListener("htmx:sse:after:connection", (event) => {
    connected = event.detail.connection.status === 200;
    if (!connected) failed(event.detail.connection.status);
    else if (trouble) ask();
  });
  document.addEventListener("htmx:sse:error", (event) => {
    connected = false;
    // What a reader cannot tell from a stream, an answer tells: one process may be restarted, or too many pages be open.
    if (event.detail.status === 401) failed(401);
    else ask();
  });
  document.addEventListener("htmx:sse:close", () => { connected = false; });
  if (stream) stream.addEventListener("expired", () => { connected = false; failed(401); });
  document.addEventListener("htmx:response:error", (event) => {
    failed(event.detail.ctx && event.detail.ctx.response && event.detail.ctx.response.status);
  });
  document.addEventListener("htmx:error", () => failed(0));
  document.addEventListener("htmx:after:swap", (event) => {
    // It comes after a refusal, too, of which nothing was swapped in.
    const response = event.detail.ctx && event.detail.ctx.response;
    if (response && response.status < 400 && !stored()) restored();
    enhance();
  });
  if (document.querySelector("form.who")) {
    setInterval(ask, POLL_EVERY);
    document.addEventListener("visibilitychange", ask);
  }

  let width = window.innerWidth;
  window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; draw(); } });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  enhance();
})();
