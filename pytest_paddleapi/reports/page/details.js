// One case, whole: what it said, how to run it again, and everything that was measured.

class Details {
  constructor(cases) {
    this.cases = cases;
    this.dialog = document.getElementById("details");
    this.step = () => null;
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    // The browser gives the focus back to what had it, which a step in the table has replaced.
    this.dialog.addEventListener("close", () => this.back?.());
    this.dialog.addEventListener("keydown", (event) => {
      if (event.target.closest("pre")) return;
      if (event.key === "ArrowRight" || event.key === "j") this.step(1);
      if (event.key === "ArrowLeft" || event.key === "k") this.step(-1);
    });
  }

  // `step` shows the case that many places on in the table, and `back` returns to it, where it was opened from there.
  show(row, step = null, back = null) {
    this.back = back;
    const {cases, dialog} = this;
    this.step = step ?? (() => null);
    const command = cases.command(row);
    const text = cases.text.at(row);
    dialog.replaceChildren(...present([
      el("div", {class: "dialog-head"},
        el("h2", {id: "details-head", tabindex: "-1"}, tag(cases.verdict.at(row), cases.group(row)), " ", visible(cases.api.at(row))),
        step ? el("button", {onclick: () => step(-1), "aria-label": "Previous case", title: "Previous case (k)"}, "↑") : null,
        step ? el("button", {onclick: () => step(1), "aria-label": "Next case", title: "Next case (j)"}, "↓") : null,
        el("button", {onclick: () => dialog.close(), "aria-label": "Close", title: "Close (Esc)"}, "✕")),
      el("h3", null, "Config"), pre(cases.config[row], "Config"),
      text === null ? null : [el("h3", null, "What it said"), pre(text, "What it said")],
      el("h3", null, "Run it again"),
      el("div", {class: "command"}, pre(command, "Command"), el("button", {onclick: (event) => copy(command, event.target)}, "Copy")),
      el("h3", null, "Measured"), el("dl", null, facts(cases, row).filter(([, value]) => value !== "" && value !== null)
        .map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value)))),
    ]));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    dialog.querySelector("h2").focus();
  }
}

function pre(text, label) {
  return el("pre", {tabindex: "0", role: "region", "aria-label": label}, visible(text));
}

function facts(cases, row) {
  const session = cases.sessions.get(cases.session[row]);
  const compared = ["output", "gradient", "element"].map((name) => [name, cases[`compared_${name}s`][row]])
    .filter(([, number]) => number).map(([name, number]) => counted(number, name)).join(", ");
  const found = [
    ["From", `${visible(cases.file.at(row))}:${cases.line[row]}`],
    ["pytest's outcome", cases.outcome.at(row)],
    ["Mode", cases.mode.at(row)],
    ["Attempts", cases.attempts[row] ? `${cases.attempts[row]}` : "never ran"],
    ["Time", seconds(cases.seconds[row])],
    ["Memory estimated", bytes(cases.estimated_bytes[row])],
    ["Memory promised", bytes(cases.lease_bytes[row])],
    ["Memory measured", bytes(cases.peak_bytes[row])],
    ["Compared", compared],
    ["Largest absolute difference", difference(cases.max_abs_diff[row])],
    ["Largest relative difference", difference(cases.max_rel_diff[row])],
    ["Tolerance", visible(cases.tolerance.at(row) ?? "")],
    ["Difference ÷ tolerance", difference(cases.excess[row])],
    ["Device", visible(cases.device.at(row) ?? "")],
    ["Slot", visible(cases.slot.at(row) ?? "")],
    ["Session", session ? `${session.id}: ${clock(session.started)}` : ""],
    ["Notes", visible(cases.notes.at(row) ?? "")],
  ];
  for (const [name, column] of cases.extra) {
    const before = cases.oldExtra?.get(name)?.[row];
    found.push([visible(name), column[row] === null ? "" : plain(column[row]) + (before ? ` (before: ${plain(before)})` : "")]);
  }
  if (cases.change) {
    found.push(["Verdict before", cases.oldVerdict.at(row) ?? "none: it was not there"],
      ["Time before", seconds(cases.comparison.seconds[row])]);
  }
  return found;
}

async function copy(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Not allowed for this page: the older way, which needs something selected.
    const area = el("textarea", {readonly: true, class: "unseen"});
    area.value = text;
    button.after(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = done ? "Copied" : "Select it and press Ctrl-C";
  document.getElementById("status").textContent = done ? "The command is copied." : "It could not be copied.";
  setTimeout(() => {
    button.textContent = "Copy";
  }, 2000);
}
