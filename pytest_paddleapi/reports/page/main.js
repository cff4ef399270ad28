// Puts the parts together.

const SEARCH_PAUSE = 120;

function select(label, name, values, filters) {
  const choice = el("select", {"data-choice": name, onchange: (event) => filters.choose({[name]: event.target.value})},
    el("option", {value: ""}, `any ${label}`),
    values.map(([value, words]) => el("option", {value}, visible(words ?? value))));
  return el("label", null, el("span", {class: "unseen"}, label), choice);
}

function counts(column) {
  return [...column.counts()].sort((a, b) => (a[0] < b[0] ? -1 : 1)).map(([value, number]) => [value, `${value} (${count(number)})`]);
}

function showCases(cases, filters, details) {
  const place = section("cases");
  const table = new CaseTable(cases, (row, from) => openFrom(row, from));
  const openFrom = (row, from) => details.show(row, (by) => {
    const to = Math.max(0, Math.min(table.found.length - 1, from + by));
    table.focus(to);
    openFrom(table.found[to], to);
  }, () => table.focus(table.active));
  const search = el("input", {type: "search", id: "search", placeholder: "Search configs and messages", "aria-label":
    "Search configs, verdicts and messages; a word with a minus before it must not be there", autocomplete: "off", spellcheck: "false"});
  let timer = 0;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => filters.search(search.value), SEARCH_PAUSE);
  });
  const groups = GROUPS.filter((group) => cases.groupCode.includes(GROUPS.indexOf(group)));
  const choices = [
    select("outcome", "group", groups.map((group) => [group, GROUP_WORDS[group]]), filters),
    select("verdict", "verdict", counts(cases.verdict), filters),
    select("API", "api", counts(cases.api), filters),
    select("dtype", "dtype", counts(cases.dtype), filters),
    cases.mode.values.length > 1 ? select("mode", "mode", counts(cases.mode), filters) : null,
    cases.device.values.length > 1 ? select("device", "device", counts(cases.device), filters) : null,
    cases.change ? select("change", "change", counts(cases.change), filters) : null,
  ];
  const told = el("p", {id: "shown", role: "status"});
  const chips = el("span");
  const clear = el("button", {onclick: () => {
    filters.clear();
    search.focus();
  }}, "Clear");
  place.append(el("div", {class: "filters", role: "search"}, search, choices, clear),
    el("div", {class: "told"}, told, chips), table.scroller,
    el("p", {class: "note"}, "Keys: / searches; arrows, Page Up and Down, Home and End move; Enter opens a case; j and k step on."));
  const update = () => {
    const rows = filters.rows();
    told.textContent = filters.active ? `${count(rows.length)} of ${counted(cases.size, "case")}` : counted(cases.size, "case");
    if (rows.length > MOST_ROWS) told.textContent += `, of which the first ${count(MOST_ROWS)} are listed`;
    chips.replaceChildren(...["excess", "reruns"].filter((name) => filters.chosen.has(name)).map((name) =>
      el("button", {class: "chip", onclick: () => filters.choose({[name]: null})},
        name === "reruns" ? "run more than once" : `difference ÷ tolerance ${bucketWords(Number(filters.chosen.get(name)))}`, " ✕")));
    clear.hidden = !filters.active;
    if (search.value !== filters.words) search.value = filters.words;
    for (const choice of place.querySelectorAll("select")) choice.value = filters.chosen.get(choice.dataset.choice) ?? "";
    table.set(rows);
  };
  filters.listen(update);
  update();
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.target.closest("input, select, textarea, dialog")) {
      event.preventDefault();
      search.focus();
    }
  });
  return table;
}

function showContents() {
  const names = [["totals", "Verdicts"], ["comparison", "Changes"], ["map", "APIs"], ["histogram", "Differences"],
    ["slowest", "Slowest"], ["largest", "Largest"], ["timing", "Measurements"], ["timeline", "Devices"], ["cases", "Cases"]];
  document.getElementById("contents").append(...names.filter(([id]) => !document.getElementById(id).hidden)
    .map(([id, words]) => el("a", {href: `#${id}`}, words)));
}

async function main() {
  const status = document.getElementById("status");
  try {
    const data = await unpacked(document.getElementById("data"));
    const cases = new Cases(data);
    const filters = new Filters(cases);
    const details = new Details(cases);
    const goToCases = () => {
      const place = document.getElementById("cases");
      place.scrollIntoView();
      place.focus({preventScroll: true});
    };
    const show = (choices) => {
      filters.words = "";
      filters.choose(choices, true);
      goToCases();
    };
    showConditions(data, cases);
    if (cases.size) {
      showTotals(cases, show);
      showComparison(data, cases, show);
      showMap(cases, show);
      showHistogram(cases, show);
      showLargest(cases, (row) => details.show(row));
      const table = showCases(cases, filters, details);
      showTiming(cases, (name) => {
        table.measure(name);
        goToCases();
      }, (row) => details.show(row));
      showTimeline(data);
      status.textContent = "";
    } else {
      status.textContent = `There is no case in ${visible(data.folder)}.`;
    }
    showContents();
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    status.textContent = `This report cannot be shown: ${error}. It needs a browser of 2023 or later.`;
    document.documentElement.dataset.ready = "failed";
    throw error;
  }
}

main();
