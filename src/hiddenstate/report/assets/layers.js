// Every layer that report/charts.py describes, as SVG, and what it spans. Colours are CSS variables, so that themes and
// printing need no drawing anew.

const LEVELS = 48; // shades of a heat map
const COLOURS = 12;
const BAND = 0.2; // how opaque a band is

// How lines, points and bars of the same colour differ, one for each mark.
const DASHES = ["", "5 3", "1.5 2.5", "8 3 1.5 3", "12 4"];
const SHAPES = ["dot", "diamond", "square", "triangle"];
const HATCHES = ["", "M-1 1l2-2M0 6l6-6M5 7l2-2", "M0 3h6", "M-1 5l2 2M0 0l6 6M5-1l2 2"];

// -- what a chart spans -----------------------------------------------------------------------------------------------

/** The edges of cells around their centres. */
function edgesOf(centres, logarithmic) {
  const inner = logarithmic ? centres.map(Math.log10) : centres;
  const last = inner.length - 1;
  const gap = (i) => (last > 0 ? inner[i + 1] - inner[i] : 1);
  const edges = [inner[0] - gap(0) / 2];
  for (let i = 0; i < last; i++) edges.push((inner[i] + inner[i + 1]) / 2);
  edges.push(inner[last] + gap(Math.max(0, last - 1)) / 2);
  return logarithmic ? edges.map((value) => 10 ** value) : edges;
}

/** Calls back with pairs (x, y) that must fit on the chart; null where a layer says nothing of an axis. */
function eachCorner(layer, chart, tell) {
  const error = (errors, i) => errors?.[i] ?? 0;
  const corners = {
    line: () => layer.x.forEach((x, i) => around(x, layer.y[i], 0, error(layer.errors, i))),
    band: () => layer.x.forEach((x, i) => (tell(x, layer.low[i]), tell(x, layer.high[i]))),
    points: () => layer.x.forEach((x, i) => around(x, layer.y[i], error(layer.x_errors, i), error(layer.errors, i))),
    bars: () => layer.values.forEach((value, i) => (around(i, value, 0, error(layer.errors, i)), tell(i, 0))),
    rule: () => (layer.axis === "y" ? tell(null, layer.at) : tell(layer.at, null)),
    heat: () => {
      for (const x of edgesOf(layer.x, chart.x_scale === "log")) tell(x, null);
      for (const y of edgesOf(layer.y, chart.y_scale === "log")) tell(null, y);
    },
    arrows: () => layer.x.forEach((x, i) => (tell(x, layer.y[i]), tell(x + layer.dx[i], layer.y[i] + layer.dy[i]))),
  };
  const around = (x, y, dx, dy) => {
    if (x === null || y === null) return;
    tell(x - dx, y - dy);
    tell(x + dx, y + dy);
  };
  corners[layer.kind]();
}

/** The lowest and highest value on an axis, with room at the ends. */
function domainOf(values, logarithmic, limits, room) {
  const ends = [Infinity, -Infinity];
  for (const value of values) {
    if (value === null || (logarithmic && value <= 0)) continue;
    ends[0] = Math.min(ends[0], value);
    ends[1] = Math.max(ends[1], value);
  }
  if (ends[0] > ends[1]) ends.splice(0, 2, logarithmic ? 0.1 : 0, 1);
  let [low, high] = logarithmic ? ends.map(Math.log10) : ends;
  const span = high - low || (logarithmic ? 1 : Math.abs(high) || 1);
  if (high === low) [low, high] = [low - span / 2, high + span / 2];
  low -= room[0] * span;
  high += room[1] * span;
  const padded = logarithmic ? [10 ** low, 10 ** high] : [low, high];
  return [limits[0] ?? padded[0], limits[1] ?? padded[1]];
}

// -- layers -----------------------------------------------------------------------------------------------------------

function colourOf(layer) {
  if (layer.colour === "ink" || layer.colour === "grey") return `var(--${layer.colour})`;
  return `var(--c${layer.colour % COLOURS})`;
}

function shade(share, signed) {
  const percent = (100 * Math.abs(signed ? 2 * share - 1 : share)).toFixed(1);
  const end = signed && share < 0.5 ? "--heat-negative" : "--heat-high";
  return `color-mix(in oklab, var(${end}) ${percent}%, var(--heat-low))`;
}

function scaleColour(share) {
  const [from, to, rest] = share < 0.5 ? ["low", "middle", 2 * share] : ["middle", "high", 2 * share - 1];
  return `color-mix(in oklab, var(--scale-${to}) ${(100 * rest).toFixed(1)}%, var(--scale-${from}))`;
}

function isSorted(xs) {
  return xs.every((x, i) => i === 0 || x === null || xs[i - 1] === null || x >= xs[i - 1]);
}

/** Points that belong together, apart where something is missing. */
function runsOf(points) {
  const runs = [];
  let open = false;
  for (const point of points) {
    const known = point.every((value) => !Number.isNaN(value));
    if (known && open) runs.at(-1).push(point);
    else if (known) runs.push([point]);
    open = known;
  }
  return runs;
}

/** Of many points in one column of pixels the first, lowest, highest and last: what is drawn looks the same. */
function thinned(points) {
  if (points.length < 3000) return points;
  const kept = [];
  for (let start = 0; start < points.length; ) {
    const column = Math.round(points[start][0]);
    let [stop, low, high] = [start, start, start];
    while (stop < points.length && Math.round(points[stop][0]) === column) {
      if (points[stop][1] < points[low][1]) low = stop;
      if (points[stop][1] > points[high][1]) high = stop;
      stop++;
    }
    for (const i of new Set([start, Math.min(low, high), Math.max(low, high), stop - 1])) kept.push(points[i]);
    start = stop;
  }
  return kept;
}

const joined = (points) => points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
const dots = (points) => points.map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join("");

/** The dashes of a line by its mark, as a style: those of rules are never solid. */
function dashesOf(layer) {
  const least = layer.kind === "rule" ? 1 : 0;
  const number = layer.dashed ? Math.max(layer.mark, 1) : layer.mark;
  const dashes = DASHES[least + (number % (DASHES.length - least))];
  return dashes ? `;stroke-dasharray:${dashes}` : "";
}

/** Points of a shape other than a dot, as a path. */
const OUTLINES = {
  diamond: ([x, y], r) => `M${x} ${y - 1.3 * r}l${1.3 * r} ${1.3 * r}l${-1.3 * r} ${1.3 * r}l${-1.3 * r} ${-1.3 * r}z`,
  square: ([x, y], r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
  triangle: ([x, y], r) => `M${x} ${y - 1.2 * r}l${1.25 * r} ${2.1 * r}h${-2.5 * r}z`,
};

/** Stripes of the colour of the paper over bars, by their mark. */
function drawHatch(layer, parent, place) {
  const hatch = HATCHES[layer.mark % HATCHES.length];
  if (!hatch) return;
  const id = `hatch-${layer.mark % HATCHES.length}`;
  if (!document.getElementById(id)) {
    const sheet = shape("svg", { width: 0, height: 0, style: "position:absolute", "aria-hidden": "true" }, document.body);
    const pattern = shape("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, sheet);
    shape("path", { d: hatch, style: "fill:none;stroke:var(--paper);stroke-width:1.6" }, pattern);
  }
  shape("rect", { ...place, style: `fill:url(#${id})` }, parent);
}

function drawDots(group, points, colour, size, mark = 0) {
  const once = points.length > 3000 ? [...new Map(points.map((p) => [p.map(Math.round).join(), p])).values()] : points;
  const outline = OUTLINES[SHAPES[mark % SHAPES.length]];
  if (outline && once.length) return shape("path", { d: once.map((p) => outline(p, size / 2)).join(""), style: `fill:${colour}` }, group);
  const look = `fill:none;stroke:${colour};stroke-width:${size};stroke-linecap:round`;
  if (once.length) shape("path", { d: dots(once), style: look }, group);
}

function drawErrors(group, layer, X, Y) {
  const bars = [];
  layer.x.forEach((x, i) => {
    const [px, py] = [X.place(x), Y.place(layer.y[i])];
    const [up, side] = [layer.errors?.[i], layer.x_errors?.[i]];
    if (Number.isNaN(px + py)) return;
    if (up) bars.push(`M${px} ${Y.clamped(layer.y[i] - up)}V${Y.place(layer.y[i] + up)}`);
    if (side) bars.push(`M${X.clamped(x - side)} ${py}H${X.place(x + side)}`);
  });
  if (bars.length) shape("path", { d: bars.join(""), style: `fill:none;stroke:${colourOf(layer)};stroke-width:1.3` }, group);
}

const draw = {
  line(layer, group, X, Y) {
    const points = layer.x.map((x, i) => [X.place(x), Y.place(layer.y[i])]);
    const sorted = isSorted(layer.x);
    const runs = runsOf(points).map((run) => (sorted ? thinned(run) : run));
    const path = runs.filter((run) => run.length > 1).map((run) => "M" + joined(run)).join("");
    const look = `fill:none;stroke:${colourOf(layer)};stroke-width:1.8;stroke-linejoin:round${dashesOf(layer)}`;
    if (path) shape("path", { d: path, style: look }, group);
    drawErrors(group, layer, X, Y);
    drawDots(group, layer.marks ? runs.flat() : runs.filter((run) => run.length === 1).flat(), colourOf(layer), 6);
  },

  band(layer, group, X, Y) {
    const points = layer.x.map((x, i) => [X.place(x), Y.clamped(layer.high[i]), Y.clamped(layer.low[i])]);
    const path = runsOf(points).map((run) => {
      const top = thinned(run.map(([x, high]) => [x, high]));
      const bottom = thinned(run.map(([x, , low]) => [x, low])).reverse();
      return `M${joined(top)}L${joined(bottom)}Z`;
    });
    if (path.length) shape("path", { d: path.join(""), style: `fill:${colourOf(layer)};fill-opacity:${BAND}` }, group);
  },

  points(layer, group, X, Y) {
    const points = layer.x.map((x, i) => [X.place(x), Y.place(layer.y[i])]);
    const size = points.length > 2000 ? 3 : points.length > 300 ? 4.5 : 6.5;
    drawErrors(group, layer, X, Y);
    const known = (point) => !Number.isNaN(point[0] + point[1]);
    if (!layer.values) return drawDots(group, points.filter(known), colourOf(layer), size, layer.mark);
    const [low, high] = domainOf(layer.values, false, [null, null], [0, 0]);
    const shades = Array.from({ length: 24 }, () => []);
    points.forEach((point, i) => {
      if (known(point) && layer.values[i] !== null) shades[Math.round((23 * (layer.values[i] - low)) / (high - low))].push(point);
    });
    shades.forEach((some, i) => drawDots(group, some, scaleColour(i / 23), size));
  },

  bars(layer, group, X, Y, chart) {
    const sides = chart.layers.filter((other) => other.kind === "bars");
    const whole = Math.abs(X.place(1) - X.place(0)) * 0.7;
    const width = whole / sides.length;
    const zero = Y.clamped(0);
    layer.values.forEach((value, i) => {
      if (value === null) return;
      const left = X.place(i) - whole / 2 + sides.indexOf(layer) * width;
      const top = Y.place(value);
      const place = { x: left + 0.5, width: Math.max(width - 1, 1), y: Math.min(top, zero), height: Math.abs(top - zero) };
      shape("rect", { ...place, style: `fill:${colourOf(layer)}` }, group);
      drawHatch(layer, group, place);
      const error = layer.errors?.[i];
      const ends = `M${left + width / 2} ${Y.clamped(value - error)}V${Y.place(value + error)}`;
      if (error) shape("path", { d: ends, style: "stroke:var(--ink);stroke-width:1.3" }, group);
    });
  },

  rule(layer, group, X, Y) {
    const path = layer.axis === "y" ? `M${X.from} ${Y.place(layer.at)}H${X.to}` : `M${X.place(layer.at)} ${Y.from}V${Y.to}`;
    if (!path.includes("NaN")) shape("path", { d: path, style: `stroke:${colourOf(layer)};stroke-width:1.3${dashesOf(layer)}` }, group);
  },

  heat(layer, group, X, Y, chart) {
    const [low, high] = heatLimits(layer);
    const columns = edgesOf(layer.x, X.logarithmic).map((x) => X.place(x));
    const rows = edgesOf(layer.y, Y.logarithmic).map((y) => Y.place(y));
    const paths = Array.from({ length: LEVELS + 1 }, () => []);
    const level = (value) => Math.round(LEVELS * Math.min(1, Math.max(0, (value - low) / (high - low || 1))));
    layer.values.forEach((row, r) => {
      const [top, height] = [Math.min(rows[r], rows[r + 1]), Math.abs(rows[r + 1] - rows[r])];
      for (let start = 0; start < row.length; ) {
        if (row[start] === null) { start++; continue; }
        const shown = level(row[start]);
        let stop = start + 1;
        while (stop < row.length && row[stop] !== null && level(row[stop]) === shown) stop++;
        const [left, right] = [columns[start], columns[stop]].map((x) => x.toFixed(2));
        paths[shown].push(`M${left} ${top.toFixed(2)}H${right}v${height.toFixed(2)}H${left}z`);
        start = stop;
      }
    });
    paths.forEach((path, i) => {
      const look = { d: path.join(""), style: `fill:${shade(i / LEVELS, layer.signed)}`, "shape-rendering": "crispEdges" };
      if (path.length) shape("path", look, group);
    });
  },

  arrows(layer, group, X, Y) {
    const paths = layer.x.map((x, i) => {
      const [px, py] = [X.place(x), Y.place(layer.y[i])];
      const [ex, ey] = [X.place(x + layer.dx[i]), Y.place(layer.y[i] + layer.dy[i])];
      const [angle, head] = [Math.atan2(ey - py, ex - px), Math.min(5, 0.4 * Math.hypot(ex - px, ey - py))];
      const barb = (turn) => `${(ex - head * Math.cos(angle + turn)).toFixed(1)} ${(ey - head * Math.sin(angle + turn)).toFixed(1)}`;
      return `M${joined([[px, py], [ex, ey]])}M${barb(0.45)}L${ex.toFixed(1)} ${ey.toFixed(1)}L${barb(-0.45)}`;
    });
    const look = `fill:none;stroke:${colourOf(layer)};stroke-width:1.1`;
    shape("path", { d: paths.filter((path) => !path.includes("NaN")).join(""), style: look }, group);
  },
};

function heatLimits(layer) {
  if (layer.limits) return layer.limits;
  const [low, high] = domainOf(layer.values.flat(), false, [null, null], [0, 0]);
  const most = Math.max(Math.abs(low), Math.abs(high));
  return layer.signed ? [-most, most] : [low, high];
}

// -- small drawings ---------------------------------------------------------------------------------------------------

function titled(text, words, width) {
  text.textContent = shortened(words, width);
  if (text.textContent !== words) shape("title", {}, text, words);
}

/** The sign of a layer in the legend. */
function drawKey(layer, parent) {
  const sign = shape("svg", { width: 18, height: 10, viewBox: "0 0 18 10", "aria-hidden": "true" }, parent);
  const colour = layer.kind === "points" && layer.values ? "var(--scale-middle)" : colourOf(layer);
  const opacity = (1 - (1 - BAND) ** ((layer.within ?? 0) + 1)).toFixed(3);
  if (layer.kind === "band") shape("rect", { width: 18, height: 10, rx: 2, style: `fill:${colour};fill-opacity:${opacity}` }, sign);
  else if (layer.kind === "bars" || layer.kind === "heat") {
    const place = { x: 4, width: 10, height: 10, rx: 2 };
    shape("rect", { ...place, style: `fill:${colour}` }, sign);
    if (layer.kind === "bars") drawHatch(layer, sign, place);
  } else if (layer.kind !== "points") shape("path", { d: "M0 5H18", style: `stroke:${colour};stroke-width:2${dashesOf(layer)}` }, sign);
  if (layer.kind === "points" || layer.marks) drawDots(sign, [[9, 5]], colour, 6.4, layer.kind === "points" ? layer.mark : 0);
}

/** What the colours of a heat map stand for. */
function drawHeatKey(layer, parent, width, Y) {
  const [low, high] = heatLimits(layer);
  const [x, top, tall, parts] = [width - 52, Y.to, Y.from - Y.to, 24];
  const key = shape("g", { class: "key" }, parent);
  for (let i = 0; i < parts; i++) {
    const share = 1 - (i + 0.5) / parts;
    const look = { x, width: 9, y: top + (i * tall) / parts, height: tall / parts + 0.5, style: `fill:${shade(share, layer.signed)}` };
    shape("rect", { ...look, "shape-rendering": "crispEdges" }, key);
  }
  for (const [y, value] of [[top + 8, high], [top + tall / 2 + 4, (low + high) / 2], [top + tall, low]]) {
    shape("text", { class: "tick", x: x + 13, y }, key, spoken(Number(value.toPrecision(2))));
  }
  titled(shape("text", { x: width, y: 12, "text-anchor": "end" }, key), layer.label, 0.45 * width);
}
