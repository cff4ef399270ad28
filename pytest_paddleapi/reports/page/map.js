// Verdicts by API and dtype.

const MAP_ROWS = 25;
const DTYPES = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128", "int8", "int16", "int32", "int64",
  "uint8", "bool", "float8_e4m3fn", "float8_e5m2", "none"];

function tally(cases) {
  const width = cases.dtype.values.length;
  const cells = new Map();
  const apis = cases.api.values.map((name, code) => ({name, code, all: 0, bad: 0, passed: 0}));
  for (let row = 0; row < cases.size; row += 1) {
    const [api, key] = [apis[cases.api.index[row]], cases.api.index[row] * width + cases.dtype.index[row]];
    if (!cells.has(key)) cells.set(key, {all: 0, bad: 0, passed: 0});
    for (const sum of [api, cells.get(key)]) {
      sum.all += 1;
      if (cases.isBad(row)) sum.bad += 1;
      else if (cases.group(row) === "passed") sum.passed += 1;
    }
  }
  return {apis, cell: (api, dtype) => cells.get(api * width + dtype)};
}

// Shares of failures from which on a cell is darker; few steps, so that two shades can be told apart.
const SHADES = [0.05, 0.2, 0.5];

function shade({all, bad, passed}) {
  if (bad) return `bad${1 + SHADES.filter((share) => bad / all >= share).length}`;
  return passed ? "fine" : "nothing";
}

function showMap(cases, show) {
  const place = section("map");
  const {apis, cell} = tally(cases);
  const dtypes = cases.dtype.values.map((name, code) => [name, code]).sort((a, b) => order(a[0]) - order(b[0]));
  apis.sort((a, b) => b.bad - a.bad || b.all - a.all || (a.name < b.name ? -1 : 1));
  const body = el("tbody");
  place.append(el("p", {class: "note", id: "map-note"}, "Each cell: how many failed of how many cases, or how many there " +
    "are if none failed. The dtype is that of the first floating or complex tensor of a call, else of its first tensor. " +
    "Arrow keys move."));
  const table = el("table", {class: "map", "aria-labelledby": "map-head", "aria-describedby": "map-note"},
    el("thead", null, el("tr", null, el("th", {scope: "col"}, "API"),
      dtypes.map(([name]) => el("th", {scope: "col"}, el("span", null, name))))), body);
  const draw = (rows) => body.append(...rows.map((api) => el("tr", null,
    el("th", {scope: "row", title: visible(api.name)},
      el("button", {class: "link", tabindex: "-1", onclick: () => show({api: api.name})}, visible(shortApi(api.name)))),
    dtypes.map(([name, code]) => el("td", null, mapCell(api, name, cell(api.code, code), show))))));
  draw(apis.slice(0, MAP_ROWS));
  place.append(el("div", {class: "sideways"}, table));
  if (apis.length > MAP_ROWS) {
    place.append(el("button", {onclick: (event) => {
      event.target.remove();
      draw(apis.slice(MAP_ROWS));
    }}, `Show all ${count(apis.length)} APIs`));
  }
  table.querySelector("tbody button")?.setAttribute("tabindex", "0");
  table.addEventListener("keydown", moveInMap);
}

function order(dtype) {
  const found = DTYPES.indexOf(dtype);
  return found < 0 ? DTYPES.length : found;
}

function shortApi(name) {
  return name.replace(/^paddle\./, "");
}

function mapCell(api, dtype, sum, show) {
  if (!sum) return null;
  const words = sum.bad ? `${count(sum.bad)} of ${count(sum.all)} failed`
    : `${count(sum.all)} cases, ${sum.passed === sum.all ? "all pass" : `${count(sum.passed)} pass, none failed`}`;
  return el("button", {
    class: shade(sum), tabindex: "-1", title: `${visible(api.name)}, ${dtype}: ${words}`,
    "aria-label": `${visible(api.name)}, ${dtype}: ${words}`, onclick: () => show({api: api.name, dtype}),
  }, sum.bad ? `${sum.bad}/${sum.all}` : `${sum.all}`);
}

// One stop for Tab; arrows, Home and End move among the cells that have something.
function moveInMap(event) {
  const step = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0]}[event.key];
  if (!step || event.target.tagName !== "BUTTON") return;
  event.preventDefault();
  const rows = [...event.currentTarget.tBodies[0].rows];
  let cell = event.target.closest("td, th");
  let [row, column] = [rows.indexOf(cell.parentNode), cell.cellIndex];
  for (;;) {
    row += step[0];
    column += step[1];
    cell = rows[row]?.cells[column];
    if (!cell) return;
    const button = cell.querySelector("button");
    if (button) {
      event.target.setAttribute("tabindex", "-1");
      button.setAttribute("tabindex", "0");
      button.focus();
      return;
    }
  }
}
