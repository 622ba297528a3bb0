// What a chart tells at a place: the values of all layers at one x, the nearest point, or a cell.

/** How a chart answers: all layers at one x, or the nearest point or cell. */
function modeOf(chart) {
  const kinds = new Set(chart.layers.map((layer) => layer.kind));
  if (kinds.has("heat") || kinds.has("arrows")) return "near";
  if (kinds.has("bars")) return "x";
  const runs = chart.layers.filter((layer) => layer.kind === "line" || layer.kind === "band");
  return runs.length && runs.every((layer) => isSorted(layer.x)) ? "x" : "near";
}

/** What there is at a pixel: where exactly, a title, and rows of names and values; null where there is nothing. */
function lookup(view, px, py) {
  if (view.mode === "x") return lookupAlong(view, px, py);
  return lookupNear(view, px, py) ?? lookupCell(view, px, py);
}

/** The values of all layers at the nearest x. */
function lookupAlong(view, px, py) {
  const { X, chart } = view;
  const entries = view.layers.filter((layer) => layer.kind !== "rule").map((layer) => nearestEntry(layer, X, px));
  const best = entries.filter(Boolean).sort((a, b) => a.far - b.far)[0];
  if (!best) return null;
  const rows = view.layers
    .filter((layer) => layer.kind !== "rule")
    .map((layer) => nearestEntry(layer, X, best.place))
    .filter((entry) => entry && entry.far < 4)
    .map(({ layer, i }) => rowOf(view, layer, i))
    .filter((row) => row.value !== "–");
  const unit = rows.some((row) => row.name !== chart.y) ? chart.y : "";
  return { at: [best.place, py], rows, title: `${chart.x}: ${X.words(best.x)}`, unit, crossed: true };
}

/** The nearest point. */
function lookupNear(view, px, py) {
  const { X, Y, chart } = view;
  let best = null;
  for (const layer of view.layers) {
    if (!layer.x || !layer.y || layer.kind === "heat") continue;
    layer.x.forEach((x, i) => {
      const spot = [X.place(x), Y.place(layer.y[i])];
      const far = Math.hypot(spot[0] - px, spot[1] - py);
      if (X.shows(spot[0]) && Y.shows(spot[1]) && far < (best?.far ?? REACH)) best = { far, layer, i, spot };
    });
  }
  if (!best || (best.far > 10 && chart.layers.some((layer) => layer.kind === "heat"))) return null;
  const { layer, i, spot } = best;
  const row = rowOf(view, layer, i);
  const across = { ...row, name: chart.x, value: withError(X.words(layer.x[i]), layer.x_errors?.[i]), spot: null };
  const said = [across, { ...row, name: chart.y }];
  if (layer.values) said.push({ colour: row.colour, name: "value", value: spoken(layer.values[i]) });
  return { at: spot, rows: said, title: [layer.name, layer.labels?.[i]].filter(Boolean).join(", "), crossed: false };
}

/** The cell of a heat map. */
function lookupCell(view, px, py) {
  const { X, Y, chart } = view;
  const layer = view.layers.find((one) => one.kind === "heat");
  if (!layer) return null;
  const columns = edgesOf(layer.x, X.logarithmic).map((x) => X.place(x));
  const rows = edgesOf(layer.y, Y.logarithmic).map((y) => Y.place(y));
  const within = (edges, pixel) => edges.slice(1).findIndex((edge, i) => (pixel - edges[i]) * (pixel - edge) <= 0);
  const [c, r] = [within(columns, px), within(rows, py)];
  if (c < 0 || r < 0) return null;
  const [low, high] = heatLimits(layer);
  const value = layer.values[r][c];
  const share = Math.min(1, Math.max(0, (value - low) / (high - low || 1)));
  const row = { colour: value === null ? "none" : shade(share, layer.signed), name: layer.label || "value", value: spoken(value) };
  const [y, height] = [Math.min(rows[r], rows[r + 1]), Math.abs(rows[r + 1] - rows[r])];
  const cell = { x: columns[c], width: columns[c + 1] - columns[c], y, height };
  const title = `${chart.x}: ${X.words(layer.x[c])}, ${chart.y ? chart.y + ": " : ""}${Y.words(layer.y[r])}`;
  return { at: [cell.x + cell.width / 2, y + height / 2], rows: [row], title, cell };
}

const xsOf = (layer) => (layer.kind === "bars" ? layer.names.map((_, i) => i) : layer.x);

/** The entry of a layer that is nearest to a pixel among those that are shown; null where there is none. */
function nearestEntry(layer, X, px) {
  let best = null;
  xsOf(layer).forEach((x, i) => {
    const place = X.place(x);
    const far = Math.abs(place - px);
    if (X.shows(place) && far < (best?.far ?? Infinity)) best = { layer, i, x, place, far };
  });
  return best;
}

const withError = (words, error) => (error ? `${words} ± ${spoken(Number(error.toPrecision(2)))}` : words);

/** What one entry of a layer says, and where its dot is. */
function rowOf(view, layer, i) {
  const { X, Y, chart } = view;
  const colour = colourOf(layer);
  const name = [view.keyOf(layer) || chart.y, layer.kind === "points" && layer.labels?.[i]].filter(Boolean).join(", ");
  if (layer.kind === "band") {
    const known = layer.low[i] !== null && layer.high[i] !== null;
    return { colour, name, value: known ? `${spoken(layer.low[i])} to ${spoken(layer.high[i])}` : "–", spot: null };
  }
  const value = layer.kind === "bars" ? layer.values[i] : layer.y[i];
  const words = value === null ? "–" : Y.names ? Y.words(value) : withError(spoken(value), layer.errors?.[i]);
  const spot = value === null || layer.kind === "bars" ? null : [X.place(layer.x[i]), Y.place(value)];
  return { colour, name, value: words, spot: spot && !Number.isNaN(spot[1]) ? spot : null };
}
