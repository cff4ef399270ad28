// What became of each case since an earlier run.

const CHANGES = [
  ["new", "failed", "fail, and did not before"],
  ["fixed", "passed", "pass, and failed before"],
  ["changed", "error", "have another verdict"],
  ["added", "skipped", "were not there before"],
  ["same", "skipped", "have the same verdict"],
];

function showComparison(data, cases, show) {
  if (!data.comparison) return;
  const place = section("comparison");
  const {comparison} = data;
  const numbers = cases.change.counts();
  const last = comparison.sessions.at(-1);
  place.append(el("p", {class: "note"}, "Compared with ", el("code", null, visible(comparison.folder)),
    last ? `, last written by a session of ${clock(last.started)}.` : ".", differing(data.sessions.at(-1), last)));
  place.append(el("ul", {class: "choices"}, CHANGES.map(([change, group, words]) => el("li", null,
    el("button", {onclick: () => show({change}), disabled: !numbers.get(change)},
      tag(change, group), el("b", null, count(numbers.get(change) ?? 0)), el("small", null, words))))));
  const gone = Object.entries(comparison.gone);
  if (gone.length) {
    const all = gone.reduce((sum, [, number]) => sum + number, 0);
    place.append(el("p", {class: "note"}, `${counted(all, "case")} of the earlier run are not in this one: ` +
      gone.map(([verdict, number]) => `${count(number)} ${verdict}`).join(", ") + "."));
  }
}

function differing(now, then) {
  if (!now || !then) return null;
  const names = {paddle: "Paddle", torch: "Torch", device_kind: "device", host: "host", plugin: "pytest-paddleapi"};
  const found = Object.keys(names).filter((name) => now[name] !== then[name])
    .map((name) => `${names[name]} was ${visible(String(then[name]))}`);
  if (JSON.stringify(now.options) !== JSON.stringify(then.options)) found.push("options that decide verdicts were others");
  return found.length ? ` Then ${found.join(", ")}.` : " Versions, device and deciding options are the same.";
}
