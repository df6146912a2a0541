// The model: decodes a run's data into spans, and arranges them in lanes.

const Kind = {
  admission: 0, synthesis: 1, queue: 2, prove: 3,
  device: 4, cpu: 5, wait: 6, step: 7,
  idle: 8, unfinished: 9, verify: 10,
};
const State = { finished: 0, failed: 1, skipped: 2, incomplete: 3 };

// The places of a partition's fields, as the writer puts them.
const P = {
  index: 0, state: 1, worker: 2, device: 3, synthesisWorker: 4, depth: 5, inferred: 6,
  synthMS: 7, gpuMS: 8, failure: 9, times: 10, phases: 11, samples: 12,
};
const S = { label: 0, job: 1, kind: 2, attempt: 3, state: 4, failure: 5, admitted: 6, partitions: 7, checks: 8 };
const T = { synthStart: 0, synthEnd: 1, queued: 2, pickedUp: 3, gpuStart: 4, gpuEnd: 5, until: 6 };

// maxRows bounds the rows of a lane whose spans overlap.
const maxRows = 64;

// decode makes the spans of a run. They are kept by column: a large run has
// hundreds of thousands.
function decode(raw, number) {
  const run = {
    number, raw, name: raw.name, mark: raw.mark, strings: raw.strings, phases: raw.phases,
    devices: raw.devices, parts: [], partSector: [], partFrom: [], partTo: [], sectors: [],
    first: raw.begin, last: raw.end, cut: new Map(),
  };
  const kind = [], start = [], end = [], sector = [], part = [], detail = [];
  // What lies outside of what is shown is left out; of what reaches out, the
  // whole is kept to tell of.
  const add = (k, from, to, s, p, d) => {
    to = Math.max(from, to);
    const left = Math.max(from, run.first), right = Math.min(to, run.last);
    if (left > right || (left === right && from < to)) return;
    if (left > from || right < to) run.cut.set(kind.length, [from, to]);
    kind.push(k); start.push(left); end.push(right); sector.push(s); part.push(p); detail.push(d);
  };
  const hasKernels = (rp) => rp[P.phases].some((phase, i) => i % 3 === 0 && raw.phases[phase][1] === 0);
  raw.sectors.forEach((rs, s) => {
    let first = Infinity, last = -Infinity;
    const firstPart = run.parts.length;
    for (const rp of rs[S.partitions]) {
      const p = run.parts.length;
      let at = 0;
      const t = rp[P.times].map((delta) => (delta === null ? null : (at += delta)));
      rp[P.times] = t;
      run.parts.push(rp);
      run.partSector.push(s);
      run.partFrom.push(kind.length);
      for (const x of t) if (x !== null) { first = Math.min(first, x); last = Math.max(last, x); }
      const known = (a, b) => t[a] !== null && t[b] !== null;
      if (known(T.synthStart, T.synthEnd)) add(Kind.synthesis, t[T.synthStart], t[T.synthEnd], s, p, 0);
      const ready = t[T.queued] ?? t[T.synthEnd], taken = t[T.pickedUp] ?? t[T.gpuStart];
      if (ready !== null && taken !== null) add(Kind.queue, ready, taken, s, p, 0);
      if (known(T.gpuStart, T.gpuEnd)) add(Kind.prove, t[T.gpuStart], t[T.gpuEnd], s, p, hasKernels(rp) ? 1 : 0);
      let phaseAt = 0;
      for (let i = 0; i < rp[P.phases].length; i += 3) {
        phaseAt += rp[P.phases][i + 1];
        const phase = rp[P.phases][i];
        add([Kind.device, Kind.cpu, Kind.wait, Kind.step][run.phases[phase][1]], phaseAt, phaseAt + rp[P.phases][i + 2], s, p, phase);
      }
      if (rp[P.state] === State.incomplete && t[T.until] !== undefined && t[T.gpuEnd] === null) {
        const seen = Math.max(...t.slice(0, T.until).filter((x) => x !== null));
        if (Number.isFinite(seen)) add(Kind.unfinished, seen, t[T.until], s, p, 0);
      }
      run.partTo.push(kind.length);
    }
    const checks = [];
    for (let i = 0; i < rs[S.checks].length; i += 2) {
      const at = kind.length;
      add(Kind.verify, rs[S.checks][i], rs[S.checks][i] + rs[S.checks][i + 1], s, -1, 0);
      if (kind.length > at) checks.push(at);
      last = Math.max(last, rs[S.checks][i] + rs[S.checks][i + 1]);
    }
    if (!rs[S.partitions].length) first = last = run.last; // it only waited
    let admission = -1;
    if (rs[S.admitted] !== null && rs[S.admitted] < first && first !== Infinity) {
      const at = kind.length;
      add(Kind.admission, rs[S.admitted], first, s, -1, 0);
      if (kind.length > at) admission = at;
      first = rs[S.admitted];
    }
    run.sectors.push({ first: Math.max(first, run.first), last: Math.min(last, run.last), firstPart, lastPart: run.parts.length, admission, checks });
  });
  run.idleFrom = kind.length;
  raw.idle.forEach(([device, from, length], i) => add(Kind.idle, from, from + length, -1, device, i));
  run.kind = Uint8Array.from(kind);
  run.start = Float64Array.from(start);
  run.end = Float64Array.from(end);
  run.sector = Int32Array.from(sector);
  run.part = Int32Array.from(part);
  run.detail = Int32Array.from(detail);
  // The device's own phases differ in shade.
  let shade = 0;
  run.shades = run.phases.map((p) => (p[1] === 0 ? shade++ : 0));
  run.load = loadOf(run);
  run.work = workOf(run);
  return run;
}

// workOf returns what each device did: proofs, kernels and gaps, each in order
// of their start.
function workOf(run) {
  const work = new Map(run.devices.map((d) => [d[0], [[], [], []]]));
  for (let i = 0; i < run.kind.length; i++) {
    const k = run.kind[i];
    if (k !== Kind.prove && k !== Kind.device && k !== Kind.idle) continue;
    const device = k === Kind.idle ? run.part[i] : run.parts[run.part[i]][P.device];
    if (!work.has(device)) work.set(device, [[], [], []]);
    work.get(device)[k === Kind.idle ? 2 : k === Kind.device ? 1 : 0].push(i);
  }
  for (const layers of work.values()) for (const layer of layers) layer.sort((a, b) => run.start[a] - run.start[b]);
  return [...work].sort((a, b) => byNumber(a[0], b[0])).map(([ordinal, layers]) => ({ ordinal, layers }));
}

// loadOf counts how many partitions are synthesized, and how many wait for a
// GPU, as steps in time.
function loadOf(run) {
  const steps = (kind) => {
    const events = [];
    for (let i = 0; i < run.idleFrom; i++) {
      if (run.kind[i] === kind && run.end[i] > run.start[i]) events.push([run.start[i], 1], [run.end[i], -1]);
    }
    events.sort((a, b) => a[0] - b[0]);
    const at = [], value = [];
    let n = 0, top = 0;
    for (const [t, d] of events) {
      n += d;
      if (at[at.length - 1] === t) value[value.length - 1] = n;
      else { at.push(t); value.push(n); }
    }
    for (const v of value) top = Math.max(top, v);
    return { at: Float64Array.from(at), value: Int32Array.from(value), top };
  };
  return { synthesis: steps(Kind.synthesis), waiting: steps(Kind.queue) };
}

// layersOf returns the spans of partitions, by layer: what lies side by side,
// what the device does inside, and what CPUs do beside it.
function layersOf(run, parts, wanted) {
  const layers = [[], [], []];
  for (const p of parts) {
    for (let i = run.partFrom[p]; i < run.partTo[p]; i++) {
      const k = run.kind[i];
      if (wanted(k)) layers[k === Kind.device || k === Kind.step ? 1 : k === Kind.cpu || k === Kind.wait ? 2 : 0].push(i);
    }
  }
  for (const layer of layers) layer.sort((a, b) => run.start[a] - run.start[b]);
  return layers;
}

// shown reports whether some of a partition's time is in what is shown.
function shown(run, p) {
  const t = run.parts[p][P.times].filter((x) => x !== null);
  return !t.length || (Math.min(...t) <= run.last && Math.max(...t) >= run.first);
}

// isOther reports whether a span is of a sector that was not chosen: it is
// there for what it did to the devices.
const isOther = (run, span) => run.sector[span] >= run.raw.chosen;

// pack puts partitions into as few rows as their spans allow without overlap.
function pack(run, parts, extent) {
  const withExtent = [];
  for (const p of parts) {
    const e = extent(p);
    if (e && e[0] <= run.last && e[1] >= run.first) withExtent.push([p, e[0], e[1]]);
  }
  withExtent.sort((a, b) => a[1] - b[1]);
  const rows = [], ends = [];
  for (const [p, from, to] of withExtent) {
    let r = ends.findIndex((e) => e <= from);
    if (r < 0) r = Math.min(rows.length, maxRows - 1);
    (rows[r] ??= []).push(p);
    ends[r] = Math.max(ends[r] ?? -Infinity, to);
  }
  return rows;
}

const always = () => true;
const isProof = (k) => k === Kind.prove || k === Kind.device || k === Kind.cpu || k === Kind.wait;
const isSynthesis = (k) => k === Kind.synthesis || k === Kind.step;

function proofExtent(run) {
  return (p) => {
    const t = run.parts[p][P.times];
    return t[T.gpuStart] !== null && t[T.gpuEnd] !== null ? [t[T.gpuStart], t[T.gpuEnd]] : null;
  };
}

// lanesOf arranges a run's spans.
const lanesOf = {
  sector(run) {
    return run.sectors.slice(0, run.raw.chosen).map((s, i) => {
      const rs = run.raw.sectors[i];
      const parts = [];
      for (let p = s.firstPart; p < s.lastPart; p++) if (shown(run, p)) parts.push(p);
      const rows = parts.length <= maxRows ? parts.map((p) => [p]) : pack(run, parts, (p) => {
        const t = run.parts[p][P.times].filter((x) => x !== null);
        return t.length ? [t[0], t[t.length - 1]] : null;
      });
      const lane = {
        label: run.strings[rs[S.label]] + (rs[S.attempt] > 1 ? " #" + rs[S.attempt] : ""),
        state: rs[S.state], sector: i, rows: rows.map((r) => ({ layers: layersOf(run, r, always) })), idle: [], curves: [],
      };
      if (!lane.rows.length && s.firstPart === s.lastPart) lane.rows.push({ layers: layersOf(run, [], always) });
      if (lane.rows.length) {
        if (s.admission >= 0) lane.rows[0].layers[0].unshift(s.admission);
        lane.rows[0].layers[0].push(...s.checks);
      }
      return lane;
    });
  },

  worker(run) {
    return groups(run, (rp) => rp[P.worker]).map(([worker, parts]) => ({
      label: worker < 0 ? "worker ?" : "worker " + worker,
      note: deviceOf(run, run.parts[parts[0]][P.device]).label,
      rows: pack(run, parts, proofExtent(run)).map((r) => ({ layers: layersOf(run, r, isProof) })),
      idle: [], curves: [],
    }));
  },

  device(run) {
    const found = new Map(groups(run, (rp) => rp[P.device]));
    for (const d of run.devices) if (!found.has(d[0])) found.set(d[0], []);
    return [...found.keys()].sort(byNumber).map((ordinal) => {
      const parts = found.get(ordinal), rows = [];
      const kernels = layersOf(run, parts, (k) => k === Kind.device);
      if (kernels[1].length) rows.push({ layers: kernels, weight: 2 });
      for (const [, own] of groups(run, (rp) => rp[P.worker], parts)) {
        for (const r of pack(run, own, proofExtent(run))) {
          rows.push({ layers: layersOf(run, r, (k) => k === Kind.prove || (!kernels[1].length && isProof(k))) });
        }
      }
      if (!rows.length) rows.push({ layers: [[], [], []] });
      const idle = [];
      for (let i = run.idleFrom; i < run.kind.length; i++) if (run.part[i] === ordinal) idle.push(i);
      return { label: deviceOf(run, ordinal).label, note: deviceOf(run, ordinal).name, rows, idle, curves: curvesOf(run, parts) };
    });
  },

  synthesis(run) {
    const known = groups(run, (rp) => rp[P.synthesisWorker]);
    if (known.length && known[0][0] >= 0) {
      return known.map(([worker, parts]) => ({
        label: worker < 0 ? "worker ?" : "worker " + worker,
        rows: pack(run, parts, synthesisExtent(run)).map((r) => ({ layers: layersOf(run, r, isSynthesis) })), idle: [], curves: [],
      }));
    }
    const all = run.parts.map((_, p) => p);
    return pack(run, all, synthesisExtent(run)).map((r, i) => ({
      label: "slot " + (i + 1), rows: [{ layers: layersOf(run, r, isSynthesis) }], idle: [], curves: [], inferred: true,
    }));
  },
};

function synthesisExtent(run) {
  return (p) => {
    const t = run.parts[p][P.times];
    return t[T.synthStart] !== null && t[T.synthEnd] !== null ? [t[T.synthStart], t[T.synthEnd]] : null;
  };
}

// Numbers in order, the unknown one last.
const byNumber = (a, b) => (a < 0) - (b < 0) || a - b;

// groups divides the partitions that were proved or synthesized by a number.
function groups(run, number, among) {
  const found = new Map();
  for (const p of among ?? run.parts.keys()) {
    const n = number(run.parts[p]);
    if ((n < 0 && run.parts[p][P.times][T.gpuStart] === null) || !shown(run, p)) continue;
    if (!found.has(n)) found.set(n, []);
    found.get(n).push(p);
  }
  return [...found].sort((a, b) => byNumber(a[0], b[0]));
}

function deviceOf(run, ordinal) {
  const d = run.devices.find((d) => d[0] === ordinal);
  return { label: ordinal < 0 ? "GPU ?" : "GPU " + ordinal, name: d && d[1] >= 0 ? run.strings[d[1]] : "" };
}

// curvesOf returns the device's telemetry: a value for each proof that has one.
function curvesOf(run, parts) {
  return run.raw.curves.map(([name, unit], c) => {
    const points = [];
    let top = 0;
    for (const p of parts) {
      const rp = run.parts[p], t = rp[P.times], v = rp[P.samples]?.[c];
      if (v === undefined || v === null || t[T.gpuStart] === null || t[T.gpuEnd] === null) continue;
      const from = Math.max(t[T.gpuStart], run.first), to = Math.min(t[T.gpuEnd], run.last);
      if (from > to) continue;
      points.push([from, to, v]);
      top = Math.max(top, v);
    }
    points.sort((a, b) => a[0] - b[0]);
    return { name, unit, points, top: unit === "%" ? 100 : top };
  }).filter((c) => c.points.length);
}

// formatMS writes a duration with as many digits as tell something.
function formatMS(ms) {
  const s = Math.abs(ms) / 1000, sign = ms < 0 ? "−" : "";
  if (s < 1) return sign + Math.round(s * 1000) + " ms";
  if (s < 10) return sign + s.toFixed(2) + " s";
  if (s < 1000) return sign + s.toFixed(1) + " s";
  if (s < 3600) return sign + Math.floor(s / 60) + " min " + Math.round(s % 60) + " s";
  return sign + (s / 3600).toFixed(1) + " h";
}

// formatAt writes a time, precise to a step. Hours go on counting, as in the
// text report, which options take again; where steps are days, it is those.
function formatAt(ms, step) {
  if (step >= 864e5 && ms % 864e5 === 0) return ms / 864e5 + " d";
  const sign = ms < 0 ? "−" : "", t = Math.abs(ms);
  const digits = step >= 1000 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3;
  const s = t / 1000;
  if (s < 60 && digits > 0) return sign + s.toFixed(digits) + " s";
  const whole = digits ? Math.floor(s) : Math.round(s);
  const rest = digits ? (s % 60).toFixed(digits).padStart(3 + digits, "0") : String(whole % 60).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return sign + minutes + ":" + rest;
  return sign + Math.floor(minutes / 60) + ":" + String(minutes % 60).padStart(2, "0") + ":" + rest;
}
