// A page comes to life: charts, slides, tables that can be sorted, and themes.

const charts = JSON.parse(document.getElementById("charts").textContent);

function connectSlides(box, views) {
  const [slider, words] = [box.querySelector("input"), box.querySelector("output")];
  const labels = JSON.parse(box.dataset.labels);
  slider.addEventListener("input", () => {
    const chosen = Number(slider.value);
    words.textContent = labels[chosen];
    slider.setAttribute("aria-valuetext", labels[chosen]);
    views.forEach((view, i) => view.show(charts[Number(box.dataset.first) + chosen * views.length + i]));
  });
}

function sortBy(heading) {
  const table = heading.closest("table");
  const column = [...heading.parentElement.children].indexOf(heading);
  const turn = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", turn === 1 ? "ascending" : "descending");
  const body = table.tBodies[0];
  const valueOf = (row) => {
    const cell = row.cells[column];
    return cell.classList.contains("number") ? Number(cell.dataset.value ?? NaN) : cell.textContent;
  };
  const order = (a, b) => {
    if (typeof a === "string") return turn * a.localeCompare(b, undefined, { numeric: true });
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return turn * (a - b);
  };
  body.append(...[...body.rows].map((row) => [valueOf(row), row]).sort((a, b) => order(a[0], b[0])).map(([, row]) => row));
}

function switchTheme() {
  const { dataset } = document.documentElement;
  const dark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = dark ? "light" : "dark";
}

const views = new Map();
for (const figure of document.querySelectorAll(".chart")) views.set(figure, new View(figure, charts[Number(figure.dataset.chart)]));
for (const box of document.querySelectorAll(".slides")) connectSlides(box, [...box.querySelectorAll(".chart")].map((figure) => views.get(figure)));
for (const heading of document.querySelectorAll("thead th")) heading.querySelector("button").addEventListener("click", () => sortBy(heading));
document.querySelector(".theme").addEventListener("click", switchTheme);
