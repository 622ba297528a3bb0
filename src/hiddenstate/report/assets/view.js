// One chart in its figure: drawn in the width there is, with legend, hover, zoom and keys.

const REACH = 36; // so many pixels from a point it still answers
let clips = 0;

/** One chart in its figure. */
class View {
  constructor(figure, chart) {
    this.figure = figure;
    this.hidden = new Set();
    this.caption = figure.querySelector("figcaption");
    this.legend = element("div", { class: "legend" }, figure);
    this.plot = shape("svg", { class: "plot", tabindex: 0, role: "img" }, figure);
    this.note = element("p", { class: "note" }, figure);
    this.tooltip = element("div", { class: "tooltip", role: "status", hidden: "" }, figure);
    this.tools = element("div", { class: "tools" }, figure);
    this.tool("+", "zoom in", () => this.zoomBy(0.5));
    this.tool("−", "zoom out", () => this.zoomBy(2));
    this.tool("⟲", "show all", () => this.reset()).classList.add("reset");
    this.listen();
    this.show(chart);
    let width = figure.clientWidth;
    new ResizeObserver(() => requestAnimationFrame(() => {
      if (figure.clientWidth && figure.clientWidth !== width) this.redraw();
      width = figure.clientWidth;
    })).observe(figure);
  }

  tool(sign, label, act) {
    const button = element("button", { type: "button", "aria-label": label, title: label }, this.tools, sign);
    button.addEventListener("click", act);
    return button;
  }

  /** Take a chart, as a slide does. */
  show(chart) {
    this.chart = chart;
    this.zoomed = { x: null, y: null };
    this.caption.textContent = chart.title;
    this.note.textContent = chart.note;
    this.note.hidden = !chart.note;
    const named = chart.layers.filter((layer) => layer.name).map((layer) => layer.name);
    this.plot.setAttribute("aria-label", `${chart.title}. ${chart.y} against ${chart.x}. ${named.join(", ")}`);
    this.mode = modeOf(chart);
    this.drawLegend();
    this.redraw();
  }

  // -- the legend: a click hides a layer ------------------------------------------------------------------------------

  /** The name that a layer is hidden by: its own, or that of the only named one of its colour. */
  keyOf(layer) {
    if (layer.name) return layer.name;
    const alike = this.chart.layers.filter((other) => other.name && other.colour === layer.colour);
    return alike.length === 1 ? alike[0].name : null;
  }

  get layers() {
    return this.chart.layers.filter((layer) => !this.hidden.has(this.keyOf(layer)));
  }

  drawLegend() {
    this.legend.replaceChildren();
    const named = new Map();
    for (const layer of this.chart.layers) if (layer.name && !named.has(layer.name)) named.set(layer.name, layer);
    for (const [name, layer] of named) {
      const button = element("button", { type: "button", "aria-pressed": !this.hidden.has(name), title: "show or hide" }, this.legend);
      drawKey(layer, button);
      button.append(name);
      button.addEventListener("click", () => {
        if (!this.hidden.delete(name)) this.hidden.add(name);
        button.setAttribute("aria-pressed", !this.hidden.has(name));
        this.redraw();
      });
    }
    this.legend.hidden = named.size === 0;
  }

  // -- drawing --------------------------------------------------------------------------------------------------------

  redraw() {
    this.unhover();
    const width = Math.max(this.figure.clientWidth, 240);
    const { chart } = this;
    const rows = chart.y_names?.length ?? 0;
    const height = rows ? Math.max(150, Math.min(640, 70 + 22 * rows)) : Math.min(350, Math.max(230, 0.58 * width));
    this.plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.plot.replaceChildren();
    this.frame(width, height);
    this.drawAxes(width, height);
    const clip = shape("clipPath", { id: `clip-${++clips}` }, shape("defs", {}, this.plot));
    const { X, Y } = this;
    shape("rect", { x: X.from, y: Y.to - 4, width: X.to - X.from, height: Y.from - Y.to + 8 }, clip);
    const group = shape("g", { class: "marks", "clip-path": `url(#clip-${clips})` }, this.plot);
    for (const layer of this.layers) draw[layer.kind](layer, group, X, Y, chart);
    this.over = shape("g", { class: "over" }, this.plot);
    this.plot.dataset.x = X.domain.join(" ");
    this.plot.dataset.y = Y.domain.join(" ");
    this.tools.querySelector(".reset").hidden = !this.zoomed.x && !this.zoomed.y;
  }

  /** The scales, in the room that the words beside the axes leave. */
  frame(width, height) {
    const { chart } = this;
    const bars = chart.layers.find((layer) => layer.kind === "bars");
    const xNames = chart.x_names ?? bars?.names ?? null;
    const heat = chart.layers.find((layer) => layer.kind === "heat");
    const [xDomain, yDomain] = this.domains(xNames, heat, bars);
    const xLog = chart.x_scale === "log", yLog = chart.y_scale === "log";
    const sketch = new Scale(yLog, chart.y_names, yDomain, height - 44, 24);
    const widest = Math.max(0, ...sketch.ticks(this.yCount(height)).map(([, words]) => textWidth(words)));
    const left = Math.min(widest, 0.35 * width) + 10;
    const right = width - 14 - (heat ? 52 : 0);
    this.turned = xNames !== null && Math.max(...xNames.map(textWidth)) + 8 > (right - left) / xNames.length;
    const foot = this.turned ? Math.min(96, 0.6 * Math.max(...xNames.map(textWidth)) + 34) : 44;
    this.X = new Scale(xLog, xNames, xDomain, left, right);
    this.Y = new Scale(yLog, chart.y_names, yDomain, height - foot, 24);
    this.X.whole = chart.whole;
    if (chart.equal) this.evenUp();
  }

  /** Widen the axis on which a unit is longer, about its middle, until it is as long on both. */
  evenUp() {
    const unit = (scale) => Math.abs(scale.to - scale.from) / (scale.high - scale.low);
    const least = Math.min(unit(this.X), unit(this.Y));
    for (const name of ["X", "Y"]) {
      const scale = this[name];
      const [middle, half] = [(scale.low + scale.high) / 2, Math.abs(scale.to - scale.from) / least / 2];
      this[name] = new Scale(false, null, [middle - half, middle + half], scale.from, scale.to);
    }
  }

  yCount(height) {
    return this.chart.y_names ? Math.floor(height / 15) : Math.max(3, Math.floor((height - 60) / 42));
  }

  domains(xNames, heat, bars) {
    const { chart } = this;
    const corners = [];
    const own = this.layers.length ? this.layers : chart.layers;
    for (const layer of own) eachCorner(layer, chart, (x, y) => corners.push([x, y]));
    const ends = (names) => [-0.5, names.length - 0.5];
    const side = heat ? 0 : this.mode === "near" ? 0.04 : 0.012;
    let x = this.zoomed.x;
    x ??= xNames ? ends(xNames) : domainOf(corners.map((c) => c[0]), chart.x_scale === "log", chart.x_limits, [side, side]);
    const seen = this.zoomed.x ? corners.filter((c) => c[0] === null || (c[0] >= x[0] && c[0] <= x[1])) : corners;
    const ys = seen.map((c) => c[1]);
    const flat = (values, sign) => bars && values.every((value) => value === null || sign * value >= 0);
    const room = heat ? [0, 0] : [flat(ys, 1) ? 0 : 0.06, flat(ys, -1) ? 0 : 0.06];
    let y = this.zoomed.y;
    y ??= chart.y_names ? ends(chart.y_names).reverse() : domainOf(ys, chart.y_scale === "log", chart.y_limits, room);
    return [x, y];
  }

  drawAxes(width, height) {
    const { chart, X, Y } = this;
    const axes = shape("g", { class: "axes" }, this.plot);
    const heat = this.layers.find((layer) => layer.kind === "heat");
    for (const [value, words] of Y.ticks(this.yCount(height))) {
      const y = Y.place(value);
      if (!heat) shape("line", { class: "grid", x1: X.from, x2: X.to, y1: y, y2: y }, axes);
      shape("text", { class: "tick", x: X.from - 7, y: y + 4, "text-anchor": "end" }, axes, shortened(words, X.from - 8));
    }
    if (this.turned) this.turnedNames(axes);
    else this.levelTicks(axes, heat);
    shape("line", { class: "axis", x1: X.from, x2: X.to, y1: Y.from, y2: Y.from }, axes);
    const room = (heat?.label ? 0.55 : 1) * width - 4;
    titled(shape("text", { x: 0, y: 12 }, axes), chart.y, room);
    titled(shape("text", { x: (X.from + X.to) / 2, y: height - 6, "text-anchor": "middle" }, axes), chart.x, X.to - X.from + 20);
    if (heat) drawHeatKey(heat, axes, width, Y);
  }

  levelTicks(axes, heat) {
    const { chart, X, Y } = this;
    const wide = X.names ? 0 : 8;
    let free = -Infinity;
    for (const [value, words] of X.ticks(Math.max(2, Math.floor((X.to - X.from) / 72)) * (X.names ? 9 : 1))) {
      const x = X.place(value);
      if (chart.y_names && !heat) shape("line", { class: "grid", x1: x, x2: x, y1: Y.from, y2: Y.to }, axes);
      const half = textWidth(words) / 2;
      const shown = Math.min(Math.max(x, half), X.to + 14 - half);
      if (x < X.from - 1 || x > X.to + 1 || shown - half < free) continue;
      shape("text", { class: "tick", x: shown, y: Y.from + 17, "text-anchor": "middle" }, axes, words);
      free = shown + half + wide;
    }
  }

  turnedNames(axes) {
    const { X, Y } = this;
    const gap = Math.abs(X.place(1) - X.place(0));
    const every = Math.max(1, Math.ceil(13 / gap));
    X.names.forEach((name, i) => {
      if (i % every) return;
      const [x, y] = [X.place(i) + 4, Y.from + 14];
      const look = { class: "tick", x, y, "text-anchor": "end", transform: `rotate(-32 ${x} ${y})` };
      titled(shape("text", look, axes), name, Math.min(110, (x - 2) / 0.85));
    });
  }

  // -- hover ----------------------------------------------------------------------------------------------------------

  listen() {
    const { plot } = this;
    plot.addEventListener("pointerdown", (event) => this.press(event));
    plot.addEventListener("pointermove", (event) => (this.pressed ? this.stretch(event) : this.hover(...this.pixel(event))));
    plot.addEventListener("pointerup", (event) => this.release(event));
    plot.addEventListener("pointercancel", () => this.unhover());
    plot.addEventListener("pointerleave", () => this.pressed || this.unhover());
    plot.addEventListener("dblclick", () => this.reset());
    plot.addEventListener("blur", () => this.unhover());
    plot.addEventListener("keydown", (event) => this.key(event));
  }

  pixel(event) {
    const box = this.plot.getBoundingClientRect();
    const scale = this.plot.viewBox.baseVal.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  hover(px, py) {
    this.unhover();
    const { X, Y } = this;
    if (px < X.from - 8 || px > X.to + 8 || py < Y.to - 8 || py > Y.from + 8) return;
    const found = lookup(this, px, py);
    if (!found || !found.rows.length) return;
    this.at = found.at;
    this.markHover(found);
    this.tooltip.replaceChildren();
    for (const words of [found.title, found.unit]) if (words) element("div", { class: "at" }, this.tooltip, words);
    for (const row of found.rows) {
      const line = element("div", { class: "row" }, this.tooltip);
      element("span", { class: "swatch", style: `background:${row.colour}` }, line);
      element("span", { class: "name" }, line, row.name);
      element("span", { class: "value" }, line, row.value);
    }
    this.tooltip.hidden = false;
    this.placeTooltip(found.at);
  }

  markHover({ at: [px, py], rows, cell, crossed }) {
    const { Y } = this;
    if (crossed) shape("line", { class: "cross", x1: px, x2: px, y1: Y.from, y2: Y.to }, this.over);
    if (cell) shape("rect", { class: "cell", ...cell }, this.over);
    for (const { spot, colour } of rows) {
      if (spot && spot[1] >= Y.to - 4 && spot[1] <= Y.from + 4) {
        shape("circle", { class: "dot", cx: spot[0], cy: spot[1], r: 4.5, style: `fill:${colour}` }, this.over);
      }
    }
  }

  placeTooltip([px, py]) {
    const box = this.plot.getBoundingClientRect();
    const outer = this.figure.getBoundingClientRect();
    const scale = box.width / this.plot.viewBox.baseVal.width;
    const { offsetWidth, offsetHeight } = this.tooltip;
    const x = box.left - outer.left + px * scale;
    const y = box.top - outer.top + py * scale;
    const left = x + 14 + offsetWidth <= outer.width ? x + 14 : x - 14 - offsetWidth;
    this.tooltip.style.left = `${Math.max(0, Math.min(left, outer.width - offsetWidth))}px`;
    this.tooltip.style.top = `${Math.max(0, y - offsetHeight / 2)}px`;
  }

  unhover() {
    this.tooltip.hidden = true;
    this.over?.replaceChildren();
  }

  // -- zoom -----------------------------------------------------------------------------------------------------------

  press(event) {
    if (event.pointerType === "touch" || event.button !== 0) return this.hover(...this.pixel(event));
    this.pressed = this.pixel(event);
    this.plot.setPointerCapture(event.pointerId);
  }

  stretch(event) {
    const [px, py] = this.pixel(event);
    const { X, Y, pressed } = this;
    this.unhover();
    const [left, right] = [pressed[0], px].map((x) => Math.min(Math.max(x, X.from), X.to)).sort((a, b) => a - b);
    const [top, bottom] = [pressed[1], py].map((y) => Math.min(Math.max(y, Y.to), Y.from)).sort((a, b) => a - b);
    const tall = this.zoomsUp(event);
    this.brush = { x: [left, right], y: tall ? [bottom, top] : null };
    shape("rect", { class: "brush", x: left, width: right - left, y: tall ? top : Y.to, height: tall ? bottom - top : Y.from - Y.to }, this.over);
  }

  zoomsUp(event) {
    return !this.chart.y_names && (event.shiftKey || this.mode === "near");
  }

  release(event) {
    const brush = this.brush;
    this.pressed = this.brush = null;
    if (!brush) return;
    const wide = (pixels) => pixels && Math.abs(pixels[1] - pixels[0]) > 6;
    if (wide(brush.x) && !this.X.names) this.zoomed.x = brush.x.map((pixel) => this.X.value(pixel));
    if (wide(brush.y)) this.zoomed.y = brush.y.map((pixel) => this.Y.value(pixel));
    this.redraw();
  }

  zoomBy(factor) {
    const { X } = this;
    if (X.names) return;
    const middle = this.at && this.at[0] > X.from && this.at[0] < X.to ? this.at[0] : (X.from + X.to) / 2;
    const ends = [X.from, X.to].map((edge) => X.value(middle + (edge - middle) * factor));
    this.zoomed.x = null;
    this.redraw();
    const [low, high] = this.X.domain;
    const within = [Math.max(low, ends[0]), Math.min(high, ends[1])];
    this.zoomed.x = within[0] <= low && within[1] >= high ? null : within;
    this.redraw();
  }

  reset() {
    this.zoomed = { x: null, y: null };
    this.at = null;
    this.redraw();
  }

  // -- keys -----------------------------------------------------------------------------------------------------------

  key(event) {
    const acts = {
      ArrowLeft: () => this.walk(-1, 0), ArrowRight: () => this.walk(1, 0),
      ArrowUp: () => this.walk(0, -1), ArrowDown: () => this.walk(0, 1),
      "+": () => this.zoomBy(0.5), "-": () => this.zoomBy(2), 0: () => this.reset(), Escape: () => this.reset(),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  }

  /** Go to the next value, point or cell in a direction. */
  walk(right, down) {
    const { X, Y } = this;
    const [px, py] = this.at ?? [right < 0 ? X.to + 1 : X.from - 1, (Y.from + Y.to) / 2];
    const spots = this.spots(py).filter(([x, y]) => (right ? right * (x - px) > 0.01 : down * (y - py) > 0.01));
    if (!spots.length) return;
    const [wide, tall] = right ? [1, 0.01] : [0.01, 1];
    const cost = ([x, y]) => wide * Math.abs(x - px) + tall * Math.abs(y - py);
    this.hover(...spots.reduce((best, spot) => (cost(spot) < cost(best) ? spot : best)));
  }

  /** Where there is something to read, in pixels. */
  spots(py) {
    const { X, Y } = this;
    const found = [];
    for (const layer of this.layers) {
      if (layer.kind === "heat") for (const y of layer.y) for (const x of layer.x) found.push([X.place(x), Y.place(y)]);
      else if (this.mode === "x") for (const x of xsOf(layer) ?? []) found.push([X.place(x), py]);
      else if (layer.y) layer.x.forEach((x, i) => found.push([X.place(x), Y.place(layer.y[i])]));
    }
    return found.filter(([x, y]) => X.shows(x) && Y.shows(y));
  }
}

