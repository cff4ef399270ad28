// What each device was promised, and what was measured, over the time of one session.

// As many steps as a wide screen can tell apart.
const STEPS = 600;
const HEIGHT = 64;
// Of the marks of reruns and failures: as high as there are many in a step.
const TICKS = 14;
const CURVES = [
  ["lease_bytes", "lease", "promised by the ledger"],
  ["estimated_bytes", "estimate", "estimated"],
  ["peak_bytes", "peak", "measured peaks"],
];

class Tries {
  constructor(data) {
    for (const [name, column] of Object.entries(data)) {
      this[name] = column !== null && column.index ? new Coded(column) : column;
    }
    this.size = this.start.length;
  }
}

// Attempts are in the order in which they ended. Of each step, the largest sum of what runs at once.
function sweep(tries, rows, from, to) {
  const width = Math.max(1, to - from) / STEPS;
  const step = (time) => Math.min(STEPS - 1, Math.floor((time - from) / width));
  const names = ["running", ...CURVES.map(([name]) => name)];
  const now = Object.fromEntries(names.map((name) => [name, 0]));
  const most = Object.fromEntries(names.map((name) => [name, new Float64Array(STEPS)]));
  const starts = [...rows].sort((a, b) => tries.start[a] - tries.start[b]);
  const ends = [...rows].sort((a, b) => tries.end[a] - tries.end[b]);
  let [at, busy, since] = [0, 0, from];
  const reach = (time) => {
    const last = step(time);
    for (; at < last; at += 1) for (const name of names) most[name][at + 1] = Math.max(most[name][at + 1], now[name]);
    if (now.running) busy += time - since;
    since = time;
  };
  const change = (row, sign) => {
    now.running += sign;
    for (const [name] of CURVES) now[name] += sign * (tries[name][row] ?? 0);
    for (const name of names) most[name][at] = Math.max(most[name][at], now[name]);
  };
  for (let s = 0, e = 0; e < ends.length;) {
    if (s < starts.length && tries.start[starts[s]] < tries.end[ends[e]]) {
      reach(tries.start[starts[s]]);
      change(starts[s++], 1);
    } else if (s <= e) {
      // An attempt that took no time at all.
      change(starts[s++], 1);
    } else {
      reach(tries.end[ends[e]]);
      change(ends[e++], -1);
    }
  }
  return {most, busy};
}

function outline(values, scale, closed) {
  let path = `M0 ${HEIGHT}`;
  let [last, y] = [0, HEIGHT];
  values.forEach((value, step) => {
    if (value !== last) {
      y = (HEIGHT - HEIGHT * 0.94 * value / scale).toFixed(1);
      path += `H${step}V${y}`;
      last = value;
    }
  });
  return `${path}H${STEPS}${closed ? `V${HEIGHT}Z` : ""}`;
}

function marks(tries, rows, from, to, chosen) {
  const width = Math.max(1, to - from) / STEPS;
  const steps = new Float64Array(STEPS);
  for (const row of rows) {
    if (chosen(tries.outcome.at(row))) steps[Math.min(STEPS - 1, Math.floor((tries.end[row] - from) / width))] += 1;
  }
  const most = Math.max(...steps);
  // One alone must be seen too.
  return Array.from(steps, (number, step) =>
    number ? `M${step + 0.5} ${TICKS}V${(TICKS - Math.max(3, TICKS * number / most)).toFixed(1)}` : "").join("");
}

function lane(device, tries, rows, from, to) {
  const {most, busy} = sweep(tries, rows, from, to);
  const scale = Math.max(...CURVES.map(([name]) => Math.max(...most[name])), 1);
  const chart = svg("svg", {viewBox: `0 0 ${STEPS} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true"},
    CURVES.filter(([name]) => most[name].some((value) => value)).map(([name, kind]) =>
      svg("path", {class: kind, d: outline(most[name], scale, kind === "lease")})));
  const ticks = svg("svg", {class: "ticks", viewBox: `0 0 ${STEPS} ${TICKS}`, preserveAspectRatio: "none", "aria-hidden": "true"},
    svg("path", {class: "rerun", d: marks(tries, rows, from, to, (outcome) => outcome === "rerun")}),
    svg("path", {class: "failed", d: marks(tries, rows, from, to, (outcome) => BAD.has(outcome))}));
  const number = (test) => rows.reduce((sum, row) => sum + (test(tries.outcome.at(row)) ? 1 : 0), 0);
  const slots = new Set(rows.map((row) => tries.slot.index[row]).filter((slot) => slot >= 0)).size;
  const largest = CURVES.map(([name, , words]) => [Math.max(...most[name]), words]).filter(([value]) => value)
    .map(([value, words]) => `${bytes(value)} ${words}`);
  const reruns = number((outcome) => outcome === "rerun");
  return el("figure", {class: "lane"},
    el("figcaption", null, el("strong", null, visible(device)), " ", [
      counted(rows.length, "attempt"), slots ? counted(slots, "slot") : null, `busy ${percent(busy, to - from) || "0 %"}`,
      `at most ${Math.max(...most.running)} at once`, reruns ? counted(reruns, "rerun") : null,
      largest.length ? `at most ${largest.join(", ")}` : null,
    ].filter(Boolean).join(" · ")), chart, ticks);
}

function drawSession(tries, session, place) {
  const rows = Array.from({length: tries.size}, (_, row) => row).filter((row) => tries.session[row] === session);
  place.replaceChildren();
  if (!rows.length) {
    place.append(el("p", {class: "note"}, "This session ran nothing."));
    return;
  }
  const [from, to] = rows.reduce(([a, b], row) => [Math.min(a, tries.start[row]), Math.max(b, tries.end[row])], [Infinity, 0]);
  const byDevice = new Map();
  for (const row of rows) {
    const device = tries.device.at(row) ?? "no device";
    if (!byDevice.has(device)) byDevice.set(device, []);
    byDevice.get(device).push(row);
  }
  const parts = [0, 1, 2, 3, 4].map((part) => elapsed((to - from) * part / 4));
  place.append(...[...byDevice].map(([device, found]) => lane(device, tries, found, from, to)),
    el("div", {class: "axis", "aria-hidden": "true"}, parts.map((words) => el("span", null, words))),
    ...(rows.every((row) => tries.exact[row]) ? []
      : [el("p", {class: "note"}, "Some starts were not kept; they are taken from how long the case itself took.")]));
}

function showTimeline(data) {
  const tries = new Tries(data.tries);
  if (!tries.size) return;
  const place = section("timeline");
  const lanes = el("div");
  const sessions = data.sessions.filter((session) => tries.session.includes(session.id));
  const legend = el("p", {class: "legend"}, CURVES.map(([, kind, words]) =>
    el("span", null, el("i", {class: kind}), words)), el("span", null, el("i", {class: "rerun"}), "rerun"),
    el("span", null, el("i", {class: "failed"}), "failure"));
  place.append(el("p", {class: "note"}, "Memory of the attempts that run at the same time, added up. A measured peak is drawn " +
    "as if it was held from start to end."));
  if (sessions.length > 1) {
    const choice = el("select", {onchange: (event) => drawSession(tries, Number(event.target.value), lanes)},
      sessions.map((session) => el("option", {value: session.id}, `${session.id}: ${clock(session.started)}`)));
    choice.value = sessions.at(-1).id;
    place.append(el("label", null, "Session ", choice));
  }
  place.append(legend, lanes);
  drawSession(tries, sessions.at(-1).id, lanes);
}
