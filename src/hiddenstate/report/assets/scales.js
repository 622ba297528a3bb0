// From numbers to places and words: elements, number formats and scales.

// -- elements ---------------------------------------------------------------------------------------------------------

function element(tag, attributes = {}, parent = null, text = null) {
  const made = document.createElement(tag);
  return placed(made, attributes, parent, text);
}

function shape(tag, attributes = {}, parent = null, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return placed(made, attributes, parent, text);
}

function placed(made, attributes, parent, text) {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

const pen = document.createElement("canvas").getContext("2d");

function textWidth(text) {
  pen.font = "12px system-ui, sans-serif";
  return pen.measureText(text).width;
}

function shortened(text, width) {
  if (textWidth(text) <= width) return text;
  let kept = text;
  while (kept.length > 1 && textWidth(kept + "…") > width) kept = kept.slice(0, -1);
  return kept.trimEnd() + "…";
}

// -- numbers in words -------------------------------------------------------------------------------------------------

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

function powerOfTen(value, digits) {
  const [mantissa, exponent] = value.toExponential(digits).split("e");
  const raised = "10" + [...String(Number(exponent))].map((c) => RAISED[c]).join("");
  const factor = String(Number(mantissa)).replace("-", "−");
  return factor === "1" ? raised : factor === "−1" ? "−" + raised : factor + "×" + raised;
}

function grouped(text) {
  const [whole, rest] = text.replace("-", "−").split(".");
  const apart = whole.replace("−", "").length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole;
  return rest === undefined ? apart : apart + "." + rest;
}

/** A number for reading, with five digits that count. */
function spoken(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e9) return grouped(String(value));
  if (size >= 1e7 || size < 1e-4) return powerOfTen(value, 3);
  return grouped(String(Number(value.toPrecision(5))));
}

function tickWords(value, step) {
  const size = Math.max(Math.abs(value), Math.abs(step));
  if (value !== 0 && (size >= 1e7 || size < 1e-4)) return powerOfTen(value, Math.max(0, Math.min(4, orderOf(value) - orderOf(step))));
  return value === 0 ? "0" : grouped(value.toFixed(Math.max(0, -orderOf(step))));
}

function orderOf(value) {
  return Math.floor(Math.log10(Math.abs(value)) + 1e-9);
}

// -- scales -----------------------------------------------------------------------------------------------------------

/** From values of an axis to pixels and back: linear, logarithmic, or names at 0, 1, 2, ... */
class Scale {
  constructor(logarithmic, names, domain, from, to) {
    Object.assign(this, { logarithmic, names, domain, from, to });
    [this.low, this.high] = domain.map((value) => this.inner(value));
  }

  inner(value) {
    return this.logarithmic ? Math.log10(value) : value;
  }

  /** The pixel of a value; NaN where there is none. */
  place(value) {
    if (value === null || value === undefined || (this.logarithmic && value <= 0)) return NaN;
    return this.from + ((this.inner(value) - this.low) / (this.high - this.low)) * (this.to - this.from);
  }

  /** As `place`, with what lies below a logarithmic axis at its edge. */
  clamped(value) {
    return this.logarithmic && value !== null && value <= 0 ? this.from : this.place(value);
  }

  value(pixel) {
    const inner = this.low + ((pixel - this.from) / (this.to - this.from)) * (this.high - this.low);
    return this.logarithmic ? 10 ** inner : inner;
  }

  /** Whether a pixel is between the ends of the axis. */
  shows(pixel) {
    return pixel >= Math.min(this.from, this.to) - 1 && pixel <= Math.max(this.from, this.to) + 1;
  }

  words(value) {
    return this.names ? this.names[Math.round(value)] ?? "" : spoken(value);
  }

  /** Values with words along the axis, at most about `count`, and two where they can be had. */
  ticks(count) {
    if (this.names) return this.nameTicks(count);
    return this.logarithmic && this.high - this.low > 0.7 ? this.decades(count) : this.even(count);
  }

  nameTicks(count) {
    const every = Math.max(1, Math.ceil(this.names.length / Math.max(count, 1)));
    return this.names.map((name, i) => [i, name]).filter(([i]) => i % every === 0);
  }

  even(count) {
    const [low, high] = this.domain;
    const rough = (high - low) / Math.max(count, 2);
    const unit = 10 ** orderOf(rough);
    const usual = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough * 0.999);
    const step = this.whole ? Math.max(1, usual) : usual;
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
    if (found.length < 2 && !this.whole && high > low && count < 32) return this.even(Math.max(count, 2) * 2);
    return found.map((value) => [value, tickWords(value, step)]);
  }

  decades(count) {
    const [first, last] = [Math.ceil(this.low - 1e-9), Math.floor(this.high + 1e-9)];
    const every = Math.max(1, Math.ceil((last - first + 1) / Math.max(count, 2)));
    const factors = (last - first + 1) * 3 <= count + 2 ? [1, 2, 5] : [1];
    const found = [];
    for (let order = first - 1; order <= last; order++) {
      if (factors.length === 1 && (order - first) % every !== 0) continue;
      for (const factor of factors) {
        const value = Number((factor * 10 ** order).toPrecision(3));
        const inner = Math.log10(value);
        if (inner >= this.low - 1e-9 && inner <= this.high + 1e-9) found.push([value, decadeWords(value)]);
      }
    }
    return found.length > 1 ? found : this.even(count);
  }
}

function decadeWords(value) {
  return value >= 1e5 || value < 1e-3 ? powerOfTen(value, 0) : grouped(String(value));
}
