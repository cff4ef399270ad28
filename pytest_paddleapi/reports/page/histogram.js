// How the differences of compared cases lie against what their tolerance allows.

// Upper ends of the steps, as powers of ten; before them "identical", after them "further" and "NaN or infinite".
const DECADES = [-6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6];
const IDENTICAL = 0;
const FURTHER = DECADES.length + 1;
const INFINITE = DECADES.length + 2;

// -1 for a case in which nothing was measured.
function bucketOf(excess) {
  if (excess === null) return -1;
  if (typeof excess === "string") return INFINITE;
  if (excess === 0) return IDENTICAL;
  const found = DECADES.findIndex((decade) => excess <= 10 ** decade);
  return found < 0 ? FURTHER : found + 1;
}

function bucketWords(bucket) {
  if (bucket === IDENTICAL) return "identical";
  if (bucket === INFINITE) return "∞ or NaN";
  if (bucket === FURTHER) return `> ${power(DECADES.at(-1))}`;
  return `≤ ${power(DECADES[bucket - 1])}`;
}

function power(exponent) {
  if (exponent >= -1 && exponent <= 3) return String(10 ** exponent);
  return "10" + String(exponent).replace(/./g, (char) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(char)]);
}

function showHistogram(cases, show) {
  const buckets = Array.from({length: INFINITE + 1}, () => ({all: 0, bad: 0}));
  for (let row = 0; row < cases.size; row += 1) {
    const bucket = bucketOf(cases.excess[row]);
    if (bucket >= 0) {
      buckets[bucket].all += 1;
      if (cases.isBad(row)) buckets[bucket].bad += 1;
    }
  }
  const most = Math.max(...buckets.map((bucket) => bucket.all));
  if (!most) return;
  const place = section("histogram");
  const first = 1 + buckets.slice(1).findIndex((bucket) => bucket.all);
  const last = buckets.findLastIndex((bucket) => bucket.all);
  const limit = DECADES.indexOf(0) + 1;
  const shown = buckets.map((bucket, number) => [bucket, number]).filter(([, number]) =>
    number === IDENTICAL || (first && number >= Math.min(first, limit) && number <= Math.max(last, limit + 1)));
  place.append(el("table", {class: "histogram"},
    el("caption", null, "Worst difference of each case as a multiple of its tolerance: the smaller of absolute difference / " +
      "atol and relative difference / rtol. Up to 1 all elements pass, and a failing case is above 1."),
    el("thead", {class: "unseen"}, el("tr", null, ["multiple", "share", "cases"].map((head) => el("th", {scope: "col"}, head)))),
    el("tbody", null, shown.map(([bucket, number]) => el("tr", {class: number === limit ? "limit" : null},
      el("th", {scope: "row"}, bucketWords(number)),
      el("td", null, lengths(bucket, most)),
      el("td", {class: "number"}, bucket.all
        ? el("button", {class: "link", onclick: () => show({excess: String(number)}), "aria-label":
          `${count(bucket.all)} cases, ${count(bucket.bad)} of them failed: show them`}, count(bucket.all)) : "0"))))));
}

function lengths({all, bad}, most) {
  const bar = el("div", {class: "length"});
  for (const [kind, number] of [["passed", all - bad], ["failed", bad]]) {
    if (number) {
      const part = el("span", {class: kind});
      part.style.width = `max(3px, ${100 * number / most}%)`;
      bar.append(part);
    }
  }
  return bar;
}
