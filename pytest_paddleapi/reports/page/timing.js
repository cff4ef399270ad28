// Other numbers that cases were measured by, such as times of kernels.

// From here on a change of a time is listed: less is noise on a machine that does other things too.
const SLOWER = 1.1;

function median(values) {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function showTiming(cases, measure, open) {
  if (!cases.extra.size) return;
  const place = section("timing");
  const old = cases.oldExtra;
  const columns = [["property", ""], ["cases", "number"], ["median", "number"], ["largest", "number"]];
  if (old) columns.push(["median of now / before", "number"]);
  place.append(el("p", {class: "note"}, "Properties of cases, with their unit in the name. Choose one to sort the cases by it."),
    smallTable("Measurements", columns, [...cases.extra].map(([name, column]) => {
      const values = column.filter((value) => value !== null);
      const cells = [el("button", {class: "link", onclick: () => measure(name)}, visible(name)),
        count(values.length), plain(median(values)), plain(values.reduce((a, b) => Math.max(a, b)))];
      if (old) cells.push(plain(median(ratios(column, old.get(name))) || null));
      return cells;
    })));
  if (old) slowed(cases, place, open);
}

function ratios(now, before) {
  return before ? now.map((value, row) => value !== null && before[row] > 0 ? value / before[row] : null) : [];
}

function slowed(cases, place, open) {
  const found = [...cases.extra].filter(([name]) => name.endsWith("_ms")).flatMap(([name, column]) => {
    const ratio = ratios(column, cases.oldExtra.get(name));
    return top(ratio.length, (row) => ratio[row] >= SLOWER ? ratio[row] : null).map((row) => [name, row, ratio[row]]);
  }).sort((a, b) => b[2] - a[2]).slice(0, MOST_LISTED);
  if (!found.length) return;
  place.append(el("h3", null, "Slower than before"), smallTable("Slower than before",
    [["now / before", "number"], ["before", "number"], ["now", "number"], ["property", ""], ["case", "wide"]],
    found.map(([name, row, ratio]) => [plain(ratio), plain(cases.oldExtra.get(name)[row]), plain(cases.extra.get(name)[row]),
      visible(name), caseLink(cases, row, open)])));
}
