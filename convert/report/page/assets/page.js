// The page: what a span is in words, the controls, and the start.

function formatValue(v, unit) {
  switch (unit) {
    case "%": return Math.round(v) + " %";
    case "bytes": return (v / 2 ** 30).toFixed(1) + " GiB";
    case "bytes/s": return (v / 1e9).toFixed(2) + " GB/s";
    default: return Math.round(v) + " " + unit;
  }
}

// describe tells of a span: elements to show, and a text to read out. All of
// it is set as text, never as markup.
function describe(run, span, several) {
  const k = run.kind[span], [from, to] = run.cut.get(span) ?? [run.start[span], run.end[span]];
  const facts = [];
  const fact = (name, value) => { if (value !== undefined && value !== null && value !== "") facts.push([name, String(value)]); };
  const titles = {
    [Kind.admission]: "admission wait", [Kind.synthesis]: "synthesis", [Kind.queue]: "queue wait", [Kind.prove]: "gpu prove",
    [Kind.idle]: "GPU idle", [Kind.verify]: "verify", [Kind.unfinished]: "unfinished: the record ends before it did",
  };
  const title = titles[k] ?? run.phases[run.detail[span]][0];
  if (several) fact("run", run.mark + " · " + run.name);
  if (run.sector[span] >= 0) {
    const s = run.raw.sectors[run.sector[span]];
    fact("sector", run.strings[s[S.label]] + (s[S.attempt] > 1 ? ", attempt " + s[S.attempt] : ""));
    if (s[S.job] !== s[S.label]) fact("job", run.strings[s[S.job]]);
    if (s[S.kind] >= 0) fact("proof", run.strings[s[S.kind]]);
    if (isOther(run, span)) fact("not chosen", "shown for what the GPUs did");
    if (s[S.failure] >= 0) fact("failed", run.strings[s[S.failure]]);
  }
  if (k === Kind.idle) {
    const idle = run.raw.idle[run.detail[span]];
    fact("device", deviceOf(run, idle[0]).label);
    fact("waits for", { synthesis: "synthesis: none was ready, one was being built", handoff: "the hand-over: a partition was ready", "no-work": "work: nothing was under way" }[run.strings[idle[3]]] ?? "unknown");
  }
  if (run.part[span] >= 0 && k !== Kind.idle) {
    const rp = run.parts[run.part[span]];
    if (rp[P.index] >= 0) fact("partition", rp[P.index]);
    const onGPU = k === Kind.prove || k === Kind.device || k === Kind.cpu || k === Kind.wait;
    if (onGPU || k === Kind.queue) {
      if (rp[P.worker] >= 0) fact("GPU worker", rp[P.worker]);
      if (rp[P.device] >= 0) fact("device", [deviceOf(run, rp[P.device]).label, deviceOf(run, rp[P.device]).name].filter(Boolean).join(", "));
    }
    if (k === Kind.synthesis && rp[P.synthesisWorker] >= 0) fact("worker", rp[P.synthesisWorker]);
    if (k === Kind.queue && rp[P.depth] >= 0) fact("ahead of it", rp[P.depth]);
    if (k === Kind.synthesis && rp[P.synthMS] >= 0) fact("engine's timer", formatMS(rp[P.synthMS]));
    if (k === Kind.prove && rp[P.gpuMS] >= 0) fact("engine's timer", formatMS(rp[P.gpuMS]));
    if (k === Kind.prove) run.raw.curves.forEach(([name, unit], c) => { if (rp[P.samples]?.[c] != null) fact(name, formatValue(rp[P.samples][c], unit)); });
    const ends = { [Kind.synthesis]: [T.synthStart, T.synthEnd], [Kind.queue]: [T.queued, T.pickedUp], [Kind.prove]: [T.gpuStart, T.gpuEnd] }[k];
    if (ends) fact("inferred", ["start", "end"].filter((_, i) => rp[P.inferred] & (1 << ends[i])).join(" and "));
    fact("state", ["", "failed", "skipped, since its sector had failed", "incomplete"][rp[P.state]]);
    if (rp[P.failure] >= 0) fact("reason", run.strings[rp[P.failure]]);
  }
  if (several) fact("from 1st synthesis", formatAt(from, 1));
  const clock = run.raw.clock;
  fact(several ? "run's clock" : "from", formatAt(clock + from, 1) + (several ? " to " + formatAt(clock + to, 1) : ""));
  if (!several) fact("to", formatAt(clock + to, 1));
  if (run.raw.epoch) fact("wall clock", wallClock(run.raw.epoch + from));
  fact("goes on", [from < run.start[span] && "before", to > run.end[span] && "after"].filter(Boolean).join(" and ") + (run.cut.has(span) ? " what is shown" : ""));

  const heading = document.createElement("strong");
  heading.textContent = title;
  const length = document.createElement("span");
  length.className = "length";
  length.textContent = formatMS(to - from);
  const list = document.createElement("dl");
  for (const [name, value] of facts) {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = value;
    list.append(dt, dd);
  }
  return { elements: [heading, length, list], text: `${title}, ${formatMS(to - from)}; ` + facts.map(([n, v]) => n + " " + v).join("; ") };
}

function wallClock(ms) {
  const d = new Date(ms);
  return Number.isNaN(d.getTime()) ? "" : d.toISOString().slice(0, 23).replace("T", " ") + " UTC";
}

function start() {
  const root = document.documentElement;
  const runs = JSON.parse(document.getElementById("data").textContent).runs.map(decode);
  const timeline = new Timeline(document.getElementById("stage"), runs);
  const $ = (id) => document.getElementById(id);

  for (const radio of document.querySelectorAll("input[name=lanes]")) {
    radio.addEventListener("change", () => { if (radio.checked) timeline.setMode(radio.value); });
  }
  const chooseLanes = (n) => {
    const radio = document.querySelectorAll("input[name=lanes]")[n];
    radio.checked = true;
    timeline.setMode(radio.value);
  };

  const act = {
    in: () => timeline.zoom(0.6), out: () => timeline.zoom(1 / 0.6), fit: () => timeline.fit(),
    left: () => timeline.pan(-0.2), right: () => timeline.pan(0.2),
    higher: () => timeline.scaleRows(1.25), lower: () => timeline.scaleRows(0.8),
    help: () => $("help").showModal(),
    theme: () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      timeline.retheme();
    },
  };
  for (const button of document.querySelectorAll("button[data-act]")) button.addEventListener("click", act[button.dataset.act]);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.retheme());

  // Search: sectors whose number or job has the text in it.
  const search = $("search"), found = $("found");
  let hits = [], at = -1;
  const goTo = (n) => {
    at = (n + hits.length) % hits.length;
    found.textContent = `${at + 1} of ${hits.length}`;
    timeline.reveal(...hits[at]);
  };
  const find = () => {
    const text = search.value.trim().toLowerCase();
    const matches = runs.map(() => new Set());
    hits = [];
    at = -1;
    if (text) {
      runs.forEach((run, r) => run.raw.sectors.slice(0, run.raw.chosen).forEach((s, i) => {
        const names = [run.strings[s[S.label]], run.strings[s[S.job]]];
        if (names.some((name) => name.toLowerCase().includes(text))) { matches[r].add(i); hits.push([r, i]); }
      }));
    }
    timeline.setMatches(matches);
    if (hits.length) goTo(0);
    else found.textContent = text ? "no such sector" : "";
  };
  search.addEventListener("input", find);
  search.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && hits.length) goTo(at + (e.shiftKey ? -1 : 1));
    if (e.key === "Escape") { search.value = ""; find(); }
  });
  for (const button of document.querySelectorAll("button[data-sector]")) {
    button.addEventListener("click", () => {
      const [r, i] = button.dataset.sector.split(":").map(Number);
      search.value = runs[r].strings[runs[r].raw.sectors[i][S.label]];
      const matches = runs.map(() => new Set());
      matches[r].add(i);
      hits = [[r, i]];
      timeline.setMatches(matches);
      goTo(0);
      $("stage").scrollIntoView({ block: "nearest" });
    });
  }

  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || $("help").open || e.target.matches("input[type=search]")) return;
    const keys = {
      "+": act.in, "=": act.in, w: act.in, "-": act.out, s: act.out, "0": act.fit, f: act.fit,
      a: act.left, d: act.right, "]": act.higher, "[": act.lower, t: act.theme, "?": act.help,
      1: () => chooseLanes(0), 2: () => chooseLanes(1), 3: () => chooseLanes(2), 4: () => chooseLanes(3),
      "/": () => search.focus(), Escape: () => timeline.hide(),
    };
    const run = e.shiftKey && e.key === "ArrowLeft" ? act.left : e.shiftKey && e.key === "ArrowRight" ? act.right : keys[e.key];
    if (!run) return;
    e.preventDefault();
    run();
  });

  // Paper is light, and shows what the screen did.
  let screenTheme;
  addEventListener("beforeprint", () => {
    screenTheme = root.dataset.theme;
    root.dataset.theme = "light";
    timeline.retheme();
    timeline.drawNow();
  });
  addEventListener("afterprint", () => {
    if (screenTheme) root.dataset.theme = screenTheme;
    else delete root.dataset.theme;
    timeline.retheme();
  });

  timeline.setMode(document.querySelector("input[name=lanes]:checked").value);
  timeline.drawNow();
  root.dataset.spans = runs.reduce((n, run) => n + run.kind.length, 0);
  root.dataset.ready = Math.round(performance.now());
}

start();
