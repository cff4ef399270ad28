// The data of the report: columns, unpacked once.

const FORMAT = 1;
const BAD = new Set(["failed", "error"]);
// What a person looks for first comes first.
const GROUPS = ["failed", "error", "known", "rerun", "skipped", "passed"];
const GROUP_OF = {
  failed: "failed", error: "error", skipped: "skipped", passed: "passed", xfailed: "known", xpassed: "known", rerun: "rerun",
};
const GROUP_WORDS = {
  failed: "failed", error: "error", known: "known", rerun: "to be run again", skipped: "skipped", passed: "passed",
};

async function unpacked(element) {
  const binary = atob(element.textContent.trim());
  element.remove();
  const packed = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) packed[i] = binary.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = await new Response(stream).json();
  if (data.format !== FORMAT) throw new Error(`the data has format ${data.format}, and the script knows ${FORMAT}`);
  return data;
}

// A column of indices into its different values.
class Coded {
  constructor(data) {
    this.values = data.values;
    this.index = Int32Array.from(data.index);
  }

  at(row) {
    return this.index[row] < 0 ? null : this.values[this.index[row]];
  }

  code(value) {
    return this.values.indexOf(value);
  }

  // How often each value occurs, among the rows for which `test` holds.
  counts(test = () => true) {
    const found = new Map();
    for (let row = 0; row < this.index.length; row += 1) {
      if (this.index[row] >= 0 && test(row)) {
        found.set(this.index[row], (found.get(this.index[row]) ?? 0) + 1);
      }
    }
    return new Map([...found].map(([code, number]) => [this.values[code], number]));
  }
}

class Cases {
  constructor(data) {
    for (const [name, column] of Object.entries(data.cases)) {
      this[name] = Array.isArray(column) ? column : new Coded(column);
    }
    this.size = this.config.length;
    this.notes = new Coded(data.notes);
    this.extra = new Map(Object.entries(data.extra).map(([name, found]) => [name, spread(found, this.size)]));
    this.sessions = new Map(data.sessions.map((session) => [session.id, session]));
    this.comparison = data.comparison;
    if (data.comparison) {
      this.change = new Coded(data.comparison.change);
      this.oldVerdict = new Coded(data.comparison.verdict);
      this.oldExtra = new Map(
        Object.entries(data.comparison.extra).map(([name, found]) => [name, spread(found, this.size)]));
    }
    const groups = this.outcome.values.map((outcome) => GROUPS.indexOf(GROUP_OF[outcome] ?? "skipped"));
    this.groupCode = Uint8Array.from(this.outcome.index, (code) => groups[code]);
  }

  group(row) {
    return GROUPS[this.groupCode[row]];
  }

  isBad(row) {
    return this.groupCode[row] < 2;
  }

  // The command that runs a case alone, as it was run.
  command(row) {
    const prefix = this.prefix.at(row);
    return this.takes_config[row] ? `${prefix} ${shellWord(`--paddleapi-config=${this.config[row]}`)}` : visible(prefix);
  }
}

function spread(found, size) {
  const column = new Array(size).fill(null);
  found.cases.forEach((row, place) => {
    column[row] = found.values[place];
  });
  return column;
}
