// The paint: colours, patterns and shapes. Kinds of spans differ in shape and
// pattern as well as in colour: synthesis is a hatched bar, a wait a thin line,
// a proof a pale box with the device's phases solid inside, CPU work in it is
// ruled, an idle gap is cross-hatched, and what has no end known is dotted.

// A Theme holds the style sheet's colours, and the patterns made of them.
class Theme {
  constructor() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue("--" + name).trim();
    for (const name of ["bg", "panel", "ink", "muted", "line", "accent", "synthesis", "synthesis-ink", "gpu", "gpu-soft", "wait", "idle", "fail"]) {
      this[name] = get(name);
    }
    this.shades = [1, 2, 3, 4, 5, 6].map((n) => get("gpu-" + n));
    this.font = getComputedStyle(document.body).fontFamily;
    this.patterns = new Map();
  }

  // pattern returns a fill of lines or dots, drawn once for each colour.
  pattern(ctx, shape, color, ground) {
    const key = shape + color + ground;
    let p = this.patterns.get(key);
    if (p) return p;
    const r = window.devicePixelRatio || 1, n = Math.round(6 * r);
    const tile = document.createElement("canvas");
    tile.width = tile.height = n;
    const c = tile.getContext("2d");
    if (ground) { c.fillStyle = ground; c.fillRect(0, 0, n, n); }
    c.strokeStyle = c.fillStyle = color;
    c.lineWidth = Math.max(1, r);
    const stroke = (...points) => {
      c.beginPath();
      for (let i = 0; i < points.length; i += 4) { c.moveTo(points[i] * n, points[i + 1] * n); c.lineTo(points[i + 2] * n, points[i + 3] * n); }
      c.stroke();
    };
    const diagonal = [-0.25, 0.25, 0.25, -0.25, -0.25, 1.25, 1.25, -0.25, 0.75, 1.25, 1.25, 0.75];
    switch (shape) {
      case "diagonal": stroke(...diagonal); break;
      case "cross": stroke(...diagonal, -0.25, 0.75, 0.25, 1.25, -0.25, -0.25, 1.25, 1.25, 0.75, -0.25, 1.25, 0.25); break;
      case "upright": stroke(0.25, 0, 0.25, 1, 0.75, 0, 0.75, 1); break;
      case "level": stroke(0, 0.25, 1, 0.25, 0, 0.75, 1, 0.75); break;
      case "dots":
        c.fillRect(n / 6, n / 6, n / 4, n / 4);
        c.fillRect((n * 4) / 6, (n * 4) / 6, n / 4, n / 4);
    }
    p = ctx.createPattern(tile, "repeat");
    this.patterns.set(key, p);
    return p;
  }

  // phase returns the fill of the device's n-th kind of phase.
  phase(ctx, n, fine) {
    const shade = this.shades[n % this.shades.length];
    if (!fine) return shade;
    const shape = ["", "level", "dots", "", "upright", "dots"][n % 6];
    return shape ? this.pattern(ctx, shape, this["gpu-soft"], shade) : shade;
  }
}

// paintSpan draws a span of a kind, with its detail, into a box.
function paintSpan(ctx, theme, kind, detail, x, y, w, h) {
  const fine = h >= 8 && w >= 5;
  const middle = (size) => Math.round(y + (h - size) / 2);
  switch (kind) {
    case Kind.synthesis:
      ctx.fillStyle = fine ? theme.pattern(ctx, "diagonal", theme["synthesis-ink"], theme.synthesis) : theme.synthesis;
      ctx.fillRect(x, y, w > 4 ? w - 1 : w, h); // apart from the next one
      break;
    case Kind.step:
      // One under the other, so that the steps of a synthesis differ in height.
      ctx.fillStyle = theme["synthesis-ink"];
      ctx.fillRect(x, y + h - Math.max(1, h * (detail % 2 ? 0.5 : 0.25)), w, Math.max(1, h * (detail % 2 ? 0.5 : 0.25)));
      break;
    case Kind.queue: {
      const size = h >= 12 ? 2 : 1;
      ctx.fillStyle = theme.wait;
      ctx.fillRect(x, middle(size), w, size);
      break;
    }
    case Kind.admission: {
      const size = h >= 12 ? 2 : 1;
      ctx.fillStyle = theme.wait;
      for (let at = x; at < x + w; at += 5) ctx.fillRect(at, middle(size), Math.min(2, x + w - at), size);
      break;
    }
    case Kind.prove: // solid where nothing is known of what is inside
      ctx.fillStyle = detail ? theme["gpu-soft"] : theme.gpu;
      ctx.fillRect(x, y, w, h);
      if (w >= 4 && h >= 4) {
        ctx.fillStyle = detail ? theme.gpu : theme.panel;
        ctx.fillRect(x, y, 1, h);
        ctx.fillRect(x + w - 1, y, 1, h);
      }
      break;
    case Kind.device:
      ctx.fillStyle = theme.phase(ctx, detail, fine);
      ctx.fillRect(x, y, w, h);
      break;
    case Kind.cpu: {
      // CPU work beside the device's: ruled, along the foot of the box.
      const size = Math.max(1, Math.round(h * 0.4));
      ctx.fillStyle = h >= 8 && w >= 3 ? theme.pattern(ctx, "upright", theme.gpu, theme["gpu-soft"]) : theme.gpu;
      ctx.fillRect(x, y + h - size, w, size);
      break;
    }
    case Kind.wait:
      ctx.fillStyle = theme.gpu;
      for (let at = x; at < x + w; at += 4) ctx.fillRect(at, middle(1), Math.min(2, x + w - at), 1);
      break;
    case Kind.idle:
      ctx.fillStyle = w >= 3 ? theme.pattern(ctx, "cross", theme.idle, "") : theme.idle;
      ctx.fillRect(x, y, w, h);
      if (w >= 3) {
        ctx.strokeStyle = theme.idle;
        ctx.lineWidth = 1;
        ctx.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
      }
      break;
    case Kind.verify:
      ctx.fillStyle = fine ? theme.pattern(ctx, "level", theme.panel, theme.muted) : theme.muted;
      ctx.fillRect(x, y, w, h);
      break;
    case Kind.unfinished:
      ctx.fillStyle = theme.pattern(ctx, "dots", theme.wait, "");
      ctx.fillRect(x, y, w, h);
  }
}

// paintFailure marks where a partition failed.
function paintFailure(ctx, theme, x, y, h) {
  const r = Math.max(3, Math.min(6, h / 2)), cy = y + h / 2;
  for (const [color, width] of [[theme.panel, 4], [theme.fail, 2]]) {
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.moveTo(x - r, cy - r); ctx.lineTo(x + r, cy + r);
    ctx.moveTo(x - r, cy + r); ctx.lineTo(x + r, cy - r);
    ctx.stroke();
  }
}

// paintSkipped marks where a partition was given up with its sector.
function paintSkipped(ctx, theme, x, y, h) {
  const r = Math.max(2, Math.min(4, h / 2 - 0.5));
  ctx.fillStyle = theme.panel;
  ctx.strokeStyle = theme.muted;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.arc(x, y + h / 2, r, 0, 2 * Math.PI);
  ctx.fill();
  ctx.stroke();
}

// paintSteps draws a step function as an area or as a line: of each pixel the
// largest value.
function paintSteps(ctx, steps, top, view, box, color, area) {
  if (!steps.at.length || !top) return;
  const perPixel = (view.to - view.from) / box.w;
  const y = (v) => box.y + box.h - (v / top) * (box.h - 1);
  let i = lowerBound(steps.at, view.from), value = i > 0 ? steps.value[i - 1] : 0;
  ctx.beginPath();
  ctx.moveTo(box.x, y(area ? 0 : value));
  for (let px = 0; px < box.w; px++) {
    let most = value;
    for (const until = view.from + (px + 1) * perPixel; i < steps.at.length && steps.at[i] < until; i++) {
      value = steps.value[i];
      most = Math.max(most, value);
    }
    ctx.lineTo(box.x + px, y(most));
    ctx.lineTo(box.x + px + 1, y(most));
  }
  if (area) {
    ctx.lineTo(box.x + box.w, y(0));
    ctx.fillStyle = color;
    ctx.fill();
  } else {
    ctx.strokeStyle = color;
    ctx.lineWidth = 1.25;
    ctx.stroke();
  }
}

// paintCurve draws values that hold for a stretch of time each.
function paintCurve(ctx, curve, view, box, color) {
  const scale = box.w / (view.to - view.from);
  const y = (v) => box.y + box.h - (v / (curve.top || 1)) * (box.h - 1);
  ctx.strokeStyle = ctx.fillStyle = color;
  ctx.lineWidth = 1.25;
  ctx.beginPath();
  let last = null, lastX = -Infinity;
  for (const [from, to, value] of curve.points) {
    if (to < view.from || from > view.to) continue;
    const x0 = box.x + (from - view.from) * scale, x1 = box.x + (to - view.from) * scale;
    if (x1 - lastX < 0.5) continue;
    if (last === null || x0 - lastX > 24) ctx.moveTo(x0, y(value));
    else ctx.lineTo(Math.max(x0, lastX), y(value));
    ctx.lineTo(x1, y(value));
    last = value;
    lastX = x1;
  }
  ctx.stroke();
}

// lowerBound returns the first place in sorted values that is not below v.
function lowerBound(values, v, of = (x) => x) {
  let lo = 0, hi = values.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (of(values[mid]) < v) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

const roundSteps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1.5e4, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5];

// stepFor returns the smallest round step whose labels have room.
function stepFor(extent, width, room) {
  const least = (extent / width) * room;
  return roundSteps.find((s) => s >= least) ?? Math.ceil(least / 864e5) * 864e5;
}
