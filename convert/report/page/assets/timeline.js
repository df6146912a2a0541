// The timeline: the view that all runs share, and a pane for each run.

const lanePad = 8, curveHeight = 26, leastView = 20, maxDevices = 16;

class Timeline {
  constructor(stage, runs) {
    this.stage = stage;
    this.runs = runs;
    this.theme = new Theme();
    this.overview = stage.querySelector(".overview");
    this.axis = stage.querySelector(".axis");
    this.tip = document.getElementById("tip");
    this.live = document.getElementById("live");
    // A run alone is drawn by its own clock; several by the time since their
    // first syntheses, which the data counts from.
    this.clock = runs.length > 1 ? 0 : runs[0].raw.clock;
    const first = Math.min(...runs.map((r) => r.first)), last = Math.max(...runs.map((r) => r.last), first + 1);
    const margin = Math.max((last - first) * 0.015, 1);
    this.full = { from: first - margin, to: last + margin };
    this.view = { ...this.full };
    this.rowScale = 1;
    this.matches = runs.map(() => new Set());
    this.panes = [...stage.querySelectorAll(".pane")].map((e, i) => new Pane(this, e, runs[i]));
    this.cursor = null; // a time
    this.brush = null;
    this.measure();
    this.onRange(this.overview, this.full);
    this.onRange(this.axis, this.view);
    new ResizeObserver(() => this.refresh()).observe(stage);
  }

  // measure notes the sizes that drawing needs over and over.
  measure() {
    this.narrow = this.stage.clientWidth < 600;
    this.gutter = this.narrow ? 84 : 104;
    this.width = Math.max(...this.panes.map((p) => p.scroller.clientWidth));
    this.plot = Math.max(this.width - this.gutter - 12, 10);
  }

  x(t) { return this.gutter + ((t - this.view.from) / (this.view.to - this.view.from)) * this.plot; }
  time(x, view = this.view) { return view.from + ((x - this.gutter) / this.plot) * (view.to - view.from); }

  setMode(mode) {
    this.mode = mode;
    this.stage.dataset.mode = mode;
    this.hide();
    for (const p of this.panes) p.setMode(mode);
    this.draw();
  }

  setView(from, to) {
    const most = this.full.to - this.full.from;
    const size = Math.min(Math.max(to - from, Math.min(leastView, most)), most);
    const middle = (from + to) / 2;
    from = Math.min(Math.max(middle - size / 2, this.full.from), this.full.to - size);
    this.view.from = from;
    this.view.to = from + size;
    this.draw();
  }

  zoom(factor, at = (this.view.from + this.view.to) / 2) {
    const { from, to } = this.view;
    this.setView(at - (at - from) * factor, at + (to - at) * factor);
  }

  pan(share) {
    const by = share * (this.view.to - this.view.from);
    const room = by < 0 ? this.full.from - this.view.from : this.full.to - this.view.to;
    const move = by < 0 ? Math.max(by, room) : Math.min(by, room);
    this.setView(this.view.from + move, this.view.to + move);
  }

  fit() { this.setView(this.full.from, this.full.to); }

  scaleRows(factor) {
    this.rowScale = Math.min(Math.max(this.rowScale * factor, 0.25), 6);
    this.refresh();
  }

  // setMatches marks sectors: what is not of them steps back.
  setMatches(matches) {
    this.matches = matches;
    this.matching = matches.some((m) => m.size);
    this.draw();
  }

  reveal(number, sector) {
    const run = this.runs[number], s = run.sectors[sector];
    if (!Number.isFinite(s.first)) return;
    const size = this.view.to - this.view.from;
    if (s.first < this.view.from || s.last > this.view.to) {
      const middle = (s.first + s.last) / 2, half = Math.max(size, (s.last - s.first) * 1.2) / 2;
      this.setView(middle - half, middle + half);
    }
    this.panes[number].reveal(sector);
  }

  refresh() {
    this.overviewImage = null;
    this.measure();
    for (const p of this.panes) p.layout();
    this.draw();
  }

  retheme() {
    this.theme = new Theme();
    this.refresh();
  }

  draw() {
    this.pending ??= requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    if (this.pending) cancelAnimationFrame(this.pending);
    this.pending = null;
    this.stage.dataset.from = Math.round(this.view.from);
    this.stage.dataset.to = Math.round(this.view.to);
    const extent = this.view.to - this.view.from, longest = (step) => formatAt(this.view.to + this.clock, step).length;
    this.step = stepFor(extent, this.plot, this.narrow ? 60 : 84);
    this.step = stepFor(extent, this.plot, Math.max(this.narrow ? 60 : 84, 6.5 * longest(this.step) + 14));
    this.drawOverview();
    this.drawAxis();
    for (const p of this.panes) p.draw();
  }

  ticks() {
    const ticks = [];
    const first = Math.ceil((this.view.from + this.clock) / this.step) * this.step - this.clock;
    for (let t = first; t <= this.view.to; t += this.step) ticks.push(t);
    return ticks;
  }

  drawAxis() {
    const { ctx, h } = prepare(this.axis, this.width), th = this.theme;
    ctx.font = "11px " + th.font;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.fillStyle = th.muted;
    const about = this.runs.length < 2 ? "run's clock" : this.narrow ? "from 1st synth." : "from 1st synthesis";
    ctx.font = "10px " + th.font;
    ctx.fillText(about, 2, h / 2 - 1);
    const free = 2 + ctx.measureText(about).width + 4;
    ctx.font = "11px " + th.font;
    ctx.textAlign = "center";
    const labels = [];
    for (const t of this.ticks()) {
      const x = Math.round(this.x(t)) + 0.5;
      ctx.fillStyle = th.line;
      ctx.fillRect(x - 0.5, h - 5, 1, 5);
      ctx.fillStyle = th.muted;
      const label = formatAt(t + this.clock, this.step), half = ctx.measureText(label).width / 2;
      if (x - half < free || x + half > this.width) continue;
      ctx.fillText(label, x, h / 2 - 1);
      labels.push(label);
    }
    this.axis.dataset.labels = labels.join(" ");
    if (this.cursor !== null) this.flag(ctx, this.x(this.cursor), h);
    if (this.brush?.canvas === this.axis) this.paintBrush(ctx, this.brush, h);
  }

  flag(ctx, x, h) {
    const th = this.theme, label = formatAt(this.cursor + this.clock, Math.max(1, this.step / 20));
    const w = ctx.measureText(label).width + 12, left = Math.min(Math.max(x - w / 2, 0), this.width - w);
    ctx.fillStyle = th.ink;
    ctx.beginPath();
    ctx.roundRect(left, 2, w, h - 6, 4);
    ctx.fill();
    ctx.fillStyle = th.panel;
    ctx.fillText(label, left + w / 2, h / 2 - 1);
  }

  paintBrush(ctx, brush, h) {
    const [a, b] = [Math.min(brush.a, brush.b), Math.max(brush.a, brush.b)];
    ctx.fillStyle = this.theme.accent;
    ctx.globalAlpha = 0.25;
    ctx.fillRect(a, 0, b - a, h);
    ctx.globalAlpha = 1;
  }

  // drawOverview shows the whole time of every run: how many partitions are
  // being synthesized, and each device's work and gaps; and which part of it
  // the panes show.
  drawOverview() {
    const { ctx, h } = prepare(this.overview, this.width), th = this.theme;
    if (!this.overviewImage || this.overviewImage.width !== this.overview.width) {
      const image = document.createElement("canvas");
      image.width = this.overview.width;
      image.height = this.overview.height;
      const c = image.getContext("2d");
      c.scale(window.devicePixelRatio, window.devicePixelRatio);
      this.paintOverview(c, h);
      this.overviewImage = image;
    }
    ctx.save();
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.drawImage(this.overviewImage, 0, 0);
    ctx.restore();
    const at = (t) => this.gutter + ((t - this.full.from) / (this.full.to - this.full.from)) * this.plot;
    const a = at(this.view.from), b = at(this.view.to);
    if (b - a < this.plot - 1) {
      ctx.fillStyle = th.bg;
      ctx.globalAlpha = 0.65;
      ctx.fillRect(this.gutter, 0, a - this.gutter, h);
      ctx.fillRect(b, 0, this.gutter + this.plot - b, h);
      ctx.globalAlpha = 1;
      ctx.strokeStyle = th.accent;
      ctx.lineWidth = 1.5;
      ctx.strokeRect(a, 0.75, Math.max(b - a, 2), h - 1.5);
    }
    if (this.brush?.canvas === this.overview) this.paintBrush(ctx, this.brush, h);
    if (this.cursor !== null) {
      ctx.fillStyle = th.ink;
      ctx.fillRect(at(this.cursor), 0, 1, h);
    }
  }

  paintOverview(ctx, h) {
    const th = this.theme, each = h / this.runs.length;
    const top = Math.max(...this.runs.map((r) => r.load.synthesis.top));
    this.runs.forEach((run, n) => {
      const y = n * each, devices = run.work.slice(0, maxDevices);
      const strip = Math.max(2, Math.min(9, (each * 0.5) / Math.max(devices.length, 1)));
      const area = Math.max(each - strip * devices.length - 6, 8);
      ctx.globalAlpha = 0.75;
      paintSteps(ctx, run.load.synthesis, top, this.full, { x: this.gutter, y: y + 2, w: this.plot, h: area }, th.synthesis, true);
      ctx.globalAlpha = 1;
      devices.forEach(({ layers }, d) => {
        for (const layer of [layers[0], layers[2]]) this.panes[n].drawLayer(ctx, layer, y + area + 3 + d * strip, strip - 1, this.full, true);
      });
      ctx.font = "11px " + th.font;
      ctx.textBaseline = "middle";
      ctx.fillStyle = th.muted;
      ctx.fillText(this.runs.length > 1 ? run.mark : "overview", 2, y + each / 2);
    });
  }

  // onRange lets the user drag a stretch of time on a canvas, which the panes
  // then show. A click moves the view there.
  onRange(canvas, view) {
    canvas.addEventListener("pointerdown", (e) => {
      if (e.button) return;
      canvas.setPointerCapture(e.pointerId);
      const x = e.clientX - canvas.getBoundingClientRect().left;
      this.brush = { canvas, a: x, b: x };
      e.preventDefault();
    });
    canvas.addEventListener("pointermove", (e) => {
      if (this.brush?.canvas !== canvas) return;
      this.brush.b = e.clientX - canvas.getBoundingClientRect().left;
      this.draw();
    });
    canvas.addEventListener("pointercancel", () => { this.brush = null; this.draw(); });
    canvas.addEventListener("pointerup", () => {
      if (this.brush?.canvas !== canvas) return;
      const { a, b } = this.brush;
      this.brush = null;
      if (Math.abs(a - b) > 4) {
        this.setView(this.time(Math.min(a, b), view), this.time(Math.max(a, b), view));
      } else {
        const middle = this.time(a, view), half = (this.view.to - this.view.from) / 2;
        this.setView(middle - half, middle + half);
      }
    });
    canvas.addEventListener("dblclick", () => this.fit());
    canvas.addEventListener("wheel", (e) => this.wheel(e, canvas, view), { passive: false });
  }

  wheel(e, canvas, view) {
    const unit = e.deltaMode === 1 ? 16 : e.deltaMode === 2 ? 400 : 1;
    const dx = e.deltaX * unit, dy = e.deltaY * unit;
    if (e.shiftKey || Math.abs(dx) > Math.abs(dy)) {
      this.pan((Math.abs(dx) > Math.abs(dy) ? dx : dy) / this.plot);
    } else {
      const whole = this.view.to - this.view.from >= this.full.to - this.full.from - 1e-6;
      if (whole && dy > 0) return; // the page may scroll on
      const x = e.clientX - canvas.getBoundingClientRect().left;
      this.zoom(Math.exp(dy * 0.0016), this.time(x, view));
    }
    e.preventDefault();
  }

  // show tells of a span: beside the pointer or the span, and to who listens.
  show(pane, span, x, y, speak) {
    const about = describe(pane.run, span, this.runs.length > 1);
    this.tip.replaceChildren(...about.elements);
    this.tip.hidden = false;
    const box = this.tip.getBoundingClientRect(), room = document.documentElement;
    let left = x + 14, top = y + 16;
    if (left + box.width > room.clientWidth - 8) left = Math.max(8, x - box.width - 14);
    if (left + box.width > room.clientWidth - 8) left = Math.max(8, room.clientWidth - box.width - 8);
    if (top + box.height > room.clientHeight - 8) top = Math.max(8, y - box.height - 16);
    this.tip.style.left = left + "px";
    this.tip.style.top = top + "px";
    if (speak) this.live.textContent = about.text;
  }

  hide() {
    this.tip.hidden = true;
    this.cursor = null;
    for (const p of this.panes) p.hovered = p.pinned = -1;
    this.draw();
  }
}

// prepare fits a canvas to its box and clears it.
function prepare(canvas, w) {
  const r = window.devicePixelRatio || 1, h = canvas.clientHeight;
  const pw = Math.round(w * r), ph = Math.round(h * r);
  if (canvas.width !== pw || canvas.height !== ph) {
    canvas.width = pw;
    canvas.height = ph;
    canvas.style.width = w + "px";
  }
  const ctx = canvas.getContext("2d");
  ctx.setTransform(r, 0, 0, r, 0, 0);
  ctx.clearRect(0, 0, w, h);
  return { ctx, w, h };
}

// A Pane shows the lanes of one run. Only those in sight are drawn.
class Pane {
  constructor(timeline, element, run) {
    this.timeline = timeline;
    this.element = element;
    this.run = run;
    this.scroller = element.querySelector(".lanes");
    this.spacer = element.querySelector(".spacer");
    this.canvas = element.querySelector(".lanes canvas");
    this.load = element.querySelector(".load");
    this.arranged = {};
    this.lanes = [];
    this.tops = [0];
    this.hovered = this.pinned = this.focused = -1;
    this.pointers = new Map();
    this.scroller.addEventListener("scroll", () => timeline.draw(), { passive: true });
    this.listen();
  }

  setMode(mode) {
    this.lanes = this.arranged[mode] ??= lanesOf[mode](this.run);
    this.focused = -1;
    this.scroller.scrollTop = 0;
    this.layout();
    this.element.dataset.lanes = this.lanes.length;
    this.canvas.setAttribute("aria-label", this.summary(mode));
  }

  summary(mode) {
    const names = { sector: "sectors", worker: "GPU workers", device: "GPUs", synthesis: "synthesis workers" };
    return `Waterfall of ${this.run.name}: ${this.lanes.length} lanes by ${names[mode]}, ${formatMS(this.run.last - this.run.first)} in all. ` +
      "Arrow keys go from span to span.";
  }

  // layout chooses rows as high as the lanes have room for.
  layout() {
    this.devices = this.timeline.mode === "device" ? [] : this.run.work.slice(0, maxDevices);
    this.strip = this.devices.length ? Math.max(3, Math.min(18, Math.floor(60 / this.devices.length))) : 0;
    this.load.style.height = this.loadHeight + this.devices.length * this.strip + (this.strip ? 5 : 0) + "px";
    const room = this.scroller.clientHeight - 4;
    let fixed = 0, weight = 0;
    for (const lane of this.lanes) {
      fixed += lanePad + lane.curves.length * curveHeight;
      for (const row of lane.rows) weight += row.weight ?? 1;
    }
    const least = weight > 2 * this.lanes.length ? 4 : 12;
    const most = weight > 2 * this.lanes.length ? 22 : 36;
    this.unit = Math.floor(Math.min(Math.max((room - fixed) / Math.max(weight, 1), least), most) * this.timeline.rowScale);
    this.unit = Math.max(this.unit, 2);
    this.tops = [2];
    for (const lane of this.lanes) {
      const rows = lane.rows.reduce((sum, row) => sum + (row.weight ?? 1), 0) * this.unit;
      this.tops.push(this.tops[this.tops.length - 1] + Math.max(rows, 14) + lane.curves.length * curveHeight + lanePad);
    }
    const total = this.tops[this.tops.length - 1];
    this.spacer.style.height = Math.max(total, this.scroller.clientHeight) + "px";
  }

  reveal(sector) {
    const at = this.lanes.findIndex((lane) => lane.sector === sector);
    if (at < 0) return;
    const room = this.scroller.clientHeight;
    if (this.tops[at] < this.scroller.scrollTop || this.tops[at + 1] > this.scroller.scrollTop + room) {
      this.scroller.scrollTop = this.tops[at] - (room - (this.tops[at + 1] - this.tops[at])) / 2;
    }
    this.timeline.draw();
  }

  // rowsIn yields the lane's rows with their boxes, from a top on.
  *rowsIn(lane, top) {
    for (const row of lane.rows) {
      const h = (row.weight ?? 1) * this.unit;
      yield [row, top, h - (h >= 4 ? 1 : 0)];
      top += h;
    }
  }

  draw() {
    this.canvas.style.height = this.scroller.clientHeight + "px";
    const tl = this.timeline, th = tl.theme;
    const { ctx, w, h } = prepare(this.canvas, tl.width);
    const scrolled = this.scroller.scrollTop;
    ctx.fillStyle = th.line;
    ctx.globalAlpha = 0.6;
    for (const t of tl.ticks()) {
      const x = Math.round(tl.x(t));
      if (x >= tl.gutter) ctx.fillRect(x, 0, 1, h);
    }
    ctx.globalAlpha = 1;
    let drawn = 0;
    for (let i = Math.max(lowerBound(this.tops, scrolled) - 1, 0); i < this.lanes.length && this.tops[i] - scrolled < h; i++) {
      this.drawLane(ctx, i, this.tops[i] - scrolled);
      drawn++;
    }
    this.element.dataset.drawn = drawn;
    if (tl.cursor !== null) {
      const x = tl.x(tl.cursor);
      if (x >= tl.gutter) {
        ctx.fillStyle = th.ink;
        ctx.globalAlpha = 0.5;
        ctx.fillRect(Math.round(x), 0, 1, h);
        ctx.globalAlpha = 1;
      }
    }
    for (const span of [this.hovered, this.pinned, this.focused]) if (span >= 0) this.outline(ctx, span, w);
    this.drawLoad();
  }

  drawLane(ctx, index, top) {
    const tl = this.timeline, th = tl.theme, lane = this.lanes[index];
    const height = this.tops[index + 1] - this.tops[index];
    if (index) {
      ctx.fillStyle = th.line;
      ctx.fillRect(0, Math.round(top - lanePad / 2), tl.width, 1);
    }
    const matched = lane.sector !== undefined && tl.matches[this.run.number].has(lane.sector);
    this.label(ctx, lane, top, height - lanePad, matched);
    ctx.save();
    ctx.beginPath();
    ctx.rect(tl.gutter, top - lanePad / 2, tl.plot + 12, height);
    ctx.clip();
    const rowsHeight = height - lanePad - lane.curves.length * curveHeight;
    if (lane.idle.length) this.drawLayer(ctx, lane.idle, top, rowsHeight - 1);
    for (const [row, y, h] of this.rowsIn(lane, top)) {
      for (const layer of row.layers) this.drawLayer(ctx, layer, y, h);
      this.drawMarks(ctx, row, y, h);
    }
    lane.curves.forEach((curve, n) => {
      const box = { x: tl.gutter, y: top + rowsHeight + n * curveHeight + 6, w: tl.plot, h: curveHeight - 8 };
      ctx.fillStyle = th.line;
      ctx.fillRect(box.x, box.y + box.h, box.w, 1);
      paintCurve(ctx, curve, tl.view, box, th.accent);
    });
    ctx.restore();
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.fillStyle = th.muted;
    lane.curves.forEach((curve, n) => {
      const middle = top + rowsHeight + n * curveHeight + curveHeight / 2 + 2;
      ctx.font = "10px " + th.font;
      ctx.fillText(fitText(ctx, curve.name, tl.gutter - 12), 6, middle - 5);
      ctx.font = "9px " + th.font;
      ctx.fillText(fitText(ctx, "≤ " + formatValue(curve.top, curve.unit), tl.gutter - 12), 6, middle + 6);
    });
  }

  label(ctx, lane, top, height, matched) {
    const tl = this.timeline, th = tl.theme;
    const failed = lane.state === State.failed, incomplete = lane.state === State.incomplete;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.font = (matched ? "600 " : "") + (tl.narrow ? "11px " : "12px ") + th.font;
    ctx.fillStyle = matched ? th.accent : failed ? th.fail : th.ink;
    const middle = Math.round(top + Math.min(height, lane.note ? 12 : height) / 2);
    if (matched) ctx.fillRect(0, top, 3, height);
    ctx.fillText(fitText(ctx, (failed ? "✕ " : incomplete ? "… " : "") + lane.label, tl.gutter - 12), 6, middle);
    if (lane.note && height >= 26) {
      ctx.font = "10px " + th.font;
      ctx.fillStyle = th.muted;
      ctx.fillText(fitText(ctx, lane.note, tl.gutter - 12), 6, middle + 14);
    }
  }

  // drawLayer draws spans in order of their start. Those that are narrower than
  // a pixel are put together: the pixel is as opaque as they fill it.
  drawLayer(ctx, ids, top, h, view = this.timeline.view, plain = false) {
    const tl = this.timeline, run = this.run, { from, to } = view;
    const { gutter, plot, matching } = tl, scale = plot / (to - from), r = window.devicePixelRatio || 1;
    const matches = tl.matches[run.number];
    const opacity = (i) => (isOther(run, i) ? 0.35 : 1) * (matching && !plain && run.sector[i] >= 0 && !matches.has(run.sector[i]) ? 0.16 : 1);
    const paint = (i, x, w) => {
      const k = run.kind[i];
      paintSpan(ctx, tl.theme, k, k === Kind.device ? run.shades[run.detail[i]] : plain ? 0 : run.detail[i], x, top, w, h);
    };
    const lowest = gutter - 1e3, highest = gutter + plot + 1e3;
    let pixel = -1, filled = 0, longest = -1, length = 0;
    const flush = () => {
      if (longest >= 0) {
        const least = run.kind[longest] === Kind.idle ? 0.1 : 0.4;
        ctx.globalAlpha = opacity(longest) * Math.min(Math.max(filled, least), 1);
        paint(longest, pixel, 1);
      }
      filled = length = 0;
      longest = -1;
    };
    reach(run, ids);
    for (let n = lowerBound(ids, from - ids.reach, (i) => run.start[i]); n < ids.length; n++) {
      const i = ids[n];
      if (run.start[i] > to) break;
      if (run.end[i] < from) continue;
      const x0 = Math.max(gutter + (run.start[i] - from) * scale, lowest), x1 = Math.min(gutter + (run.end[i] - from) * scale, highest);
      if (x1 - x0 < 1) {
        if (run.kind[i] === Kind.queue) continue;
        const at = Math.floor(x0);
        if (at !== pixel) {
          flush();
          pixel = at;
        }
        filled += x1 - x0;
        if (longest < 0 || x1 - x0 > length) {
          longest = i;
          length = x1 - x0;
        }
        continue;
      }
      const left = Math.round(x0 * r) / r, right = Math.max(Math.round(x1 * r) / r, left + 1);
      ctx.globalAlpha = opacity(i);
      paint(i, left, right - left);
      if (!plain && run.cut.has(i)) this.paintCut(ctx, i, left, right, top, h);
      if (!plain) this.caption(ctx, i, left, right, top, h);
    }
    flush();
    ctx.globalAlpha = 1;
  }

  // paintCut marks with an arrow where a span goes on outside of what is shown.
  paintCut(ctx, i, left, right, top, h) {
    const run = this.run, [from, to] = run.cut.get(i), size = Math.min(h / 2, 5);
    if (h < 4 || right - left < 2 * size) return;
    const middle = top + h / 2;
    const arrow = (x, way) => {
      for (const [color, by] of [[this.timeline.theme.panel, size + 2], [this.timeline.theme.ink, size]]) {
        ctx.fillStyle = color;
        ctx.beginPath();
        ctx.moveTo(x, middle);
        ctx.lineTo(x - way * by, middle - by);
        ctx.lineTo(x - way * by, middle + by);
        ctx.fill();
      }
    };
    if (from < run.start[i]) arrow(left, -1);
    if (to > run.end[i]) arrow(right, 1);
  }

  // caption names a span that has room for it: a phase, a gap or, where the
  // lanes are not those of sectors, whose it is.
  caption(ctx, i, x0, x1, top, h) {
    const tl = this.timeline, th = tl.theme, run = this.run, k = run.kind[i];
    x0 = Math.max(x0, tl.gutter);
    x1 = Math.min(x1, tl.gutter + tl.plot);
    if (h < 11 || x1 - x0 < 30) return;
    let text;
    if (k === Kind.device) {
      text = run.phases[run.detail[i]][0];
    } else if (k === Kind.idle) {
      text = `idle ${formatMS(run.end[i] - run.start[i])}: ${run.strings[run.raw.idle[run.detail[i]][3]] || "unknown cause"}`;
    } else if (tl.mode !== "sector" && (k === Kind.synthesis || (k === Kind.prove && (tl.mode === "device" || !run.detail[i])))) {
      const index = run.parts[run.part[i]][P.index];
      text = run.strings[run.raw.sectors[run.sector[i]][S.label]] + (index >= 0 ? " · " + index : "");
    } else {
      return;
    }
    ctx.font = "10px " + th.font;
    const w = ctx.measureText(text).width;
    if (w + 10 > x1 - x0) return;
    const middle = Math.round((x0 + x1) / 2), y = Math.round(top + h / 2);
    ctx.fillStyle = th.panel;
    ctx.globalAlpha *= 0.88;
    ctx.beginPath();
    ctx.roundRect(middle - w / 2 - 4, y - Math.min(7, h / 2), w + 8, Math.min(14, h), 3);
    ctx.fill();
    ctx.globalAlpha = tl.matching ? ctx.globalAlpha : 1;
    ctx.fillStyle = th.ink;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText(text, middle, y + 0.5);
    ctx.textAlign = "left";
  }

  drawMarks(ctx, row, top, h) {
    const tl = this.timeline, run = this.run;
    if (row.marks === undefined) {
      row.marks = [];
      let last = -1;
      for (const i of row.layers[0]) {
        const p = run.part[i];
        if (p < 0 || p === last) continue;
        last = p;
        const state = run.parts[p][P.state];
        if (state === State.failed || state === State.skipped) row.marks.push(p);
      }
    }
    for (const p of row.marks) {
      const t = run.parts[p][P.times], at = Math.max(...t.slice(0, T.until).filter((v) => v !== null));
      if (at > run.last) continue;
      const x = tl.x(at);
      if (x < tl.gutter - 8 || x > tl.width) continue;
      (run.parts[p][P.state] === State.failed ? paintFailure : paintSkipped)(ctx, tl.theme, x, top, h);
    }
  }

  // drawLoad draws what stands under the lanes at all times: the devices, where
  // they are not the lanes themselves, and the load of the pipeline.
  get loadHeight() { return this.timeline.runs.length > 1 ? 38 : 46; }

  drawLoad() {
    const tl = this.timeline, th = tl.theme, load = this.run.load;
    const { ctx, h } = prepare(this.load, tl.width);
    const top = Math.max(...tl.runs.map((r) => Math.max(r.load.synthesis.top, r.load.waiting.top)));
    const strip = this.strip, under = this.devices.length * strip + (strip ? 5 : 0);
    const box = { x: tl.gutter, y: under + 6, w: tl.plot, h: this.loadHeight - 9 };
    ctx.fillStyle = th.line;
    ctx.fillRect(0, 0, tl.width, 1);
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.x, 0, box.w + 12, h);
    ctx.clip();
    this.devices.forEach(({ layers }, d) => {
      for (const layer of layers) this.drawLayer(ctx, layer, 5 + d * strip, strip - 2);
    });
    ctx.globalAlpha = 0.8;
    paintSteps(ctx, load.synthesis, top, tl.view, box, th.synthesis, true);
    ctx.globalAlpha = 1;
    paintSteps(ctx, load.waiting, top, tl.view, box, th.ink, false);
    if (tl.cursor !== null && tl.x(tl.cursor) >= tl.gutter) {
      ctx.fillStyle = th.ink;
      ctx.fillRect(Math.round(tl.x(tl.cursor)), 0, 1, h);
    }
    ctx.restore();
    const at = (steps) => {
      const i = lowerBound(steps.at, (tl.cursor ?? 0) + 1e-9) - 1;
      return tl.cursor === null ? "≤ " + steps.top : String(i >= 0 ? steps.value[i] : 0);
    };
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    if (strip >= 9) {
      ctx.font = "12px " + th.font;
      ctx.fillStyle = th.ink;
      this.devices.forEach(({ ordinal }, d) => ctx.fillText(deviceOf(this.run, ordinal).label, 6, 5 + d * strip + strip / 2 - 1));
    }
    ctx.font = "10px " + th.font;
    ctx.fillStyle = th.synthesis;
    ctx.fillRect(6, under + 8, 8, 8);
    ctx.fillStyle = th.ink;
    ctx.fillRect(6, under + this.loadHeight - 13, 8, 1.5);
    ctx.fillStyle = th.muted;
    ctx.fillText(fitText(ctx, (tl.narrow ? "synth " : "synthesis ") + at(load.synthesis), tl.gutter - 22), 18, under + 12);
    ctx.fillText(fitText(ctx, "waiting " + at(load.waiting), tl.gutter - 22), 18, under + this.loadHeight - 12);
  }

  // place returns where a span stands on the canvas, or null.
  place(span) {
    const scrolled = this.scroller.scrollTop;
    for (let i = Math.max(lowerBound(this.tops, scrolled) - 1, 0); i < this.lanes.length; i++) {
      const lane = this.lanes[i], top = this.tops[i] - scrolled;
      if (top > this.scroller.clientHeight) break;
      if (lane.idle.includes(span)) return { y: top, h: this.tops[i + 1] - this.tops[i] - lanePad - lane.curves.length * curveHeight };
      for (const [row, y, h] of this.rowsIn(lane, top)) if (row.layers.some((l) => l.includes(span))) return { y, h };
    }
    return null;
  }

  outline(ctx, span, w) {
    const tl = this.timeline, at = this.place(span);
    if (!at) return;
    const x0 = Math.max(tl.x(this.run.start[span]), tl.gutter), x1 = Math.min(tl.x(this.run.end[span]), w);
    if (x1 < x0 - 1) return;
    ctx.strokeStyle = span === this.focused ? tl.theme.accent : tl.theme.ink;
    ctx.lineWidth = 2;
    ctx.strokeRect(x0 - 1, at.y - 1, Math.max(x1 - x0, 1) + 2, at.h + 2);
  }

  // hit returns the span at a place of the canvas, or -1: of those on top of
  // each other the innermost.
  hit(x, y) {
    const tl = this.timeline, run = this.run, at = y + this.scroller.scrollTop;
    if (x < tl.gutter) return -1;
    const i = lowerBound(this.tops, at + 1e-9) - 1;
    if (i < 0 || i >= this.lanes.length) return -1;
    const lane = this.lanes[i], t = tl.time(x), slack = (2 / tl.plot) * (tl.view.to - tl.view.from);
    const find = (ids) => {
      reach(run, ids);
      let best = -1, nearest = Infinity;
      for (let n = lowerBound(ids, t - ids.reach - slack, (id) => run.start[id]); n < ids.length && run.start[ids[n]] <= t + slack; n++) {
        const off = Math.max(run.start[ids[n]] - t, t - run.end[ids[n]], 0);
        if (off <= slack && off < nearest) { best = ids[n]; nearest = off; }
      }
      return best;
    };
    for (const [row, top, h] of this.rowsIn(lane, this.tops[i])) {
      if (at < top || at > top + h + 1) continue;
      const [base, device, cpu] = row.layers;
      const low = at > top + h * 0.55;
      for (const layer of low ? [cpu, device, base] : [device, cpu, base]) {
        const span = find(layer);
        if (span >= 0) return span;
      }
    }
    return find(lane.idle);
  }

  listen() {
    const c = this.canvas, tl = this.timeline;
    const local = (e) => {
      const box = c.getBoundingClientRect();
      return [e.clientX - box.left, e.clientY - box.top];
    };
    c.addEventListener("wheel", (e) => {
      if (e.altKey || local(e)[0] < tl.gutter) return; // scrolls the lanes
      tl.wheel(e, c, tl.view);
    }, { passive: false });
    c.addEventListener("pointerdown", (e) => {
      if (e.button) return;
      c.setPointerCapture(e.pointerId);
      this.pointers.set(e.pointerId, { x: e.clientX, y: e.clientY });
      this.moved = 0;
    });
    c.addEventListener("pointermove", (e) => {
      const held = this.pointers.get(e.pointerId);
      if (!held) return this.hover(e, ...local(e));
      const before = [...this.pointers.values()].map((p) => ({ ...p }));
      const dx = e.clientX - held.x, dy = e.clientY - held.y;
      Object.assign(held, { x: e.clientX, y: e.clientY });
      this.moved += Math.abs(dx) + Math.abs(dy);
      if (this.moved < 4) return;
      c.classList.add("dragging");
      tl.tip.hidden = true;
      if (this.pointers.size === 2) {
        const after = [...this.pointers.values()];
        const spread = (ps) => Math.max(Math.hypot(ps[0].x - ps[1].x, ps[0].y - ps[1].y), 10);
        const middle = (after[0].x + after[1].x) / 2 - c.getBoundingClientRect().left;
        tl.zoom(spread(before) / spread(after), tl.time(middle));
        return;
      }
      tl.pan(-dx / tl.plot);
      if (e.pointerType !== "touch") this.scroller.scrollTop -= dy; // touches scroll by themselves
    });
    const release = (e) => {
      const clicked = e.type === "pointerup" && this.pointers.size === 1 && this.moved < 4;
      this.pointers.delete(e.pointerId);
      c.classList.remove("dragging");
      if (!clicked) return;
      const [x, y] = local(e), span = this.hit(x, y);
      tl.hide();
      if (span < 0) return;
      this.pinned = span;
      tl.cursor = tl.time(x);
      tl.show(this, span, e.clientX, e.clientY, true);
    };
    c.addEventListener("pointerup", release);
    c.addEventListener("pointercancel", release);
    c.addEventListener("pointerleave", () => {
      if (this.pinned >= 0) return;
      tl.hide();
    });
    c.addEventListener("dblclick", (e) => {
      const span = this.hit(...local(e));
      if (span >= 0) this.zoomTo(span);
    });
    c.addEventListener("keydown", (e) => this.key(e));
    c.addEventListener("blur", () => { this.focused = -1; tl.hide(); });
  }

  hover(e, x, y) {
    const tl = this.timeline;
    if (e.pointerType === "touch" || tl.panes.some((p) => p.pinned >= 0)) return;
    const span = this.hit(x, y);
    for (const p of tl.panes) p.hovered = -1;
    tl.cursor = x >= tl.gutter ? tl.time(x) : null;
    this.canvas.classList.toggle("over", span >= 0);
    this.hovered = span;
    if (span >= 0) tl.show(this, span, e.clientX, e.clientY, false);
    else tl.tip.hidden = true;
    tl.draw();
  }

  zoomTo(span) {
    const { start, end } = this.run, size = Math.max(end[span] - start[span], 1);
    this.timeline.setView(start[span] - size * 0.3, end[span] + size * 0.3);
  }

  // key moves the focus from span to span.
  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.shiftKey) return;
    const rows = this.stops();
    if (!rows.length) return;
    let r = rows.findIndex((row) => row.ids.includes(this.focused));
    let n = r < 0 ? -1 : rows[r].ids.indexOf(this.focused);
    const nearest = (row) => {
      const t = this.run.start[this.focused];
      return Math.min(lowerBound(row.ids, t, (i) => this.run.start[i]), row.ids.length - 1);
    };
    if (r < 0 && ["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "Home", "End"].includes(e.key)) {
      r = n = 0;
    } else {
      switch (e.key) {
        case "ArrowRight": n = Math.min(n + 1, rows[r].ids.length - 1); break;
        case "ArrowLeft": n = Math.max(n - 1, 0); break;
        case "ArrowDown": if (r + 1 < rows.length) { r++; n = nearest(rows[r]); } break;
        case "ArrowUp": if (r > 0) { r--; n = nearest(rows[r]); } break;
        case "Home": n = 0; break;
        case "End": n = rows[r].ids.length - 1; break;
        case "Enter": if (this.focused >= 0) this.zoomTo(this.focused); break;
        default: return;
      }
    }
    e.preventDefault();
    this.focus(rows[r], n);
  }

  // stops are the rows that the keys go through.
  stops() {
    return (this.lanes.stops ??= this.lanes.flatMap((lane, l) => [
      ...lane.rows.map((row) => ({ lane: l, ids: [...row.layers[0], ...(row.layers[0].length ? [] : row.layers[1])] })),
      { lane: l, ids: lane.idle },
    ]).filter((row) => row.ids.length));
  }

  focus(row, n) {
    const tl = this.timeline, span = (this.focused = row.ids[n]);
    const top = this.tops[row.lane], bottom = this.tops[row.lane + 1];
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (bottom > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = bottom - this.scroller.clientHeight;
    const { start, end } = this.run;
    if (end[span] < tl.view.from || start[span] > tl.view.to) {
      const half = (tl.view.to - tl.view.from) / 2, middle = (start[span] + end[span]) / 2;
      tl.setView(middle - half, middle + half);
    }
    tl.cursor = Math.max(start[span], tl.view.from);
    const box = this.canvas.getBoundingClientRect(), at = this.place(span);
    tl.show(this, span, box.left + Math.max(tl.x(start[span]), tl.gutter), box.top + (at ? at.y + at.h : 0), true);
    tl.draw();
  }
}

// reach notes how long the longest of some spans is.
function reach(run, ids) {
  ids.reach ??= ids.reduce((most, i) => Math.max(most, run.end[i] - run.start[i]), 0);
}

function fitText(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  const chars = [...text];
  let lo = 0, hi = chars.length;
  while (lo < hi) {
    const mid = (lo + hi + 1) >> 1;
    if (ctx.measureText(chars.slice(0, mid).join("") + "…").width <= width) lo = mid;
    else hi = mid - 1;
  }
  return chars.slice(0, lo).join("") + "…";
}
