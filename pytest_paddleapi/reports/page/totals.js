// The head of the page, and verdicts by count.

function showConditions(data, cases) {
  const last = data.sessions.at(-1);
  const line = document.getElementById("conditions");
  if (!last) {
    line.append("No session has written to ", data.folder, " yet.");
    return;
  }
  const devices = last.devices.length ? `${[...new Set(last.devices)].join(", ")} (${last.device_kind})` : last.device_kind;
  const first = data.sessions[0];
  const took = last.ended === null ? "still running, or killed" : `took ${elapsed((last.ended - last.started) * 1000)}`;
  const parts = [
    [...new Set(data.sessions.map((session) => session.mode))].join(", "), devices, `host ${last.host}`,
    `Paddle ${last.paddle}`, `Torch ${last.torch}`, `pytest-paddleapi ${last.plugin}`,
    data.sessions.length > 1
      ? `${data.sessions.length} sessions since ${clock(first.started)}, the last ${took}` : `${clock(last.started)}, ${took}`,
  ];
  line.append(...parts.flatMap((part) => [el("span", null, visible(part)), " "]));
  document.title = `${counted(count_(cases, (row) => cases.isBad(row)), "failure")} in ${counted(cases.size, "case")} · ` +
    "Paddle API cases";
}

function count_(cases, test) {
  let found = 0;
  for (let row = 0; row < cases.size; row += 1) found += test(row) ? 1 : 0;
  return found;
}

function showTotals(cases, show) {
  const place = section("totals");
  const bad = count_(cases, (row) => cases.isBad(row));
  const reruns = count_(cases, (row) => cases.attempts[row] > 1);
  place.append(el("p", {class: "headline"},
    el("strong", null, counted(cases.size, "case")), ", ",
    bad ? el("strong", {class: "failed"}, `${count(bad)} failed`) : "none failed",
    bad ? ` (${percent(bad, cases.size)})` : "",
    reruns ? [", ", el("button", {class: "link", onclick: () => show({reruns: "1"})}, `${count(reruns)} run more than once`)]
      : null));
  const groups = GROUPS.map((group) => [group, count_(cases, (row) => cases.group(row) === group)]);
  const bar = el("div", {class: "bar", role: "img", "aria-label":
    groups.filter(([, number]) => number).map(([group, number]) => `${count(number)} ${GROUP_WORDS[group]}`).join(", ")});
  for (const [group, number] of groups) {
    if (number) {
      const part = el("span", {class: group});
      part.style.flexGrow = number;
      bar.append(part);
    }
  }
  const verdicts = [...cases.verdict.counts()].map(([verdict, number]) => {
    const row = cases.verdict.index.indexOf(cases.verdict.code(verdict));
    return [verdict, number, cases.group(row)];
  }).sort((a, b) => GROUPS.indexOf(a[2]) - GROUPS.indexOf(b[2]) || b[1] - a[1]);
  place.append(bar, el("ul", {class: "choices"}, verdicts.map(([verdict, number, group]) => el("li", null,
    el("button", {onclick: () => show({verdict}), title: `show the cases whose verdict is ${verdict}`},
      tag(verdict, group), el("b", null, count(number)), el("small", null, percent(number, cases.size)))))));
}
