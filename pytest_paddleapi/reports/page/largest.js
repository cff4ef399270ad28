// The cases that took longest, and those that took most memory.

const MOST_LISTED = 10;

// Rows with the largest of a value, without sorting all of them.
function top(size, value, number = MOST_LISTED) {
  let found = [];
  let least = -Infinity;
  for (let row = 0; row < size; row += 1) {
    const here = value(row);
    if (here !== null && here > least) {
      found.push(row);
      if (found.length >= 4 * number) {
        found = found.sort((a, b) => value(b) - value(a)).slice(0, number);
        least = value(found.at(-1));
      }
    }
  }
  return found.sort((a, b) => value(b) - value(a) || a - b).slice(0, number);
}

function caseLink(cases, row, open) {
  return el("button", {class: "link config", onclick: () => open(row)}, visible(cases.config[row]));
}

function showLargest(cases, open) {
  const slow = top(cases.size, (row) => cases.seconds[row] || null);
  if (slow.length) {
    section("slowest").append(smallTable("Slowest cases", [["time", "number"], ["case", "wide"]],
      slow.map((row) => [seconds(cases.seconds[row]), caseLink(cases, row, open)])));
  }
  const size = (row) => cases.peak_bytes[row] ?? cases.estimated_bytes[row];
  const big = top(cases.size, (row) => size(row) || null);
  if (big.length) {
    section("largest").append(smallTable("Largest cases",
      [["measured", "number"], ["estimated", "number"], ["case", "wide"]],
      big.map((row) => [bytes(cases.peak_bytes[row]), bytes(cases.estimated_bytes[row]), caseLink(cases, row, open)])));
  }
}
