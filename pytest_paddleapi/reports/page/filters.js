// Which cases are shown: words to search for, and one choice a property.

class Filters {
  constructor(cases) {
    this.cases = cases;
    this.words = "";
    this.chosen = new Map();
    this.listeners = [];
    this.low = null;
    // By name: which rows a choice lets through.
    this.tests = {
      group: (value) => {
        const code = GROUPS.indexOf(value);
        return (row) => cases.groupCode[row] === code;
      },
      verdict: (value) => equals(cases.verdict, value),
      api: (value) => equals(cases.api, value),
      dtype: (value) => equals(cases.dtype, value),
      device: (value) => equals(cases.device, value),
      mode: (value) => equals(cases.mode, value),
      change: (value) => equals(cases.change, value),
      excess: (value) => (row) => bucketOf(cases.excess[row]) === Number(value),
      reruns: () => (row) => cases.attempts[row] > 1,
    };
  }

  listen(listener) {
    this.listeners.push(listener);
  }

  search(words) {
    this.words = words;
    this.changed();
  }

  // Choices replace those of the same names; null takes one away.
  choose(choices, only = false) {
    if (only) this.chosen.clear();
    for (const [name, value] of Object.entries(choices)) {
      if (value === null || value === "") this.chosen.delete(name);
      else this.chosen.set(name, value);
    }
    this.changed();
  }

  clear() {
    this.words = "";
    this.chosen.clear();
    this.changed();
  }

  get active() {
    return this.chosen.size > 0 || this.words.trim() !== "";
  }

  changed() {
    for (const listener of this.listeners) listener();
  }

  rows() {
    const tests = [...this.chosen].map(([name, value]) => this.tests[name](value));
    tests.push(...this.words.toLowerCase().split(/\s+/).filter((word) => word && word !== "-").map((w) => this.word(w)));
    const found = [];
    for (let row = 0; row < this.cases.size; row += 1) {
      if (tests.every((test) => test(row))) found.push(row);
    }
    return found;
  }

  // A word stands in the config, the verdict or what was said; with a minus before it, in none of them.
  word(word) {
    const {cases} = this;
    if (word.startsWith("-")) {
      const test = this.word(word.slice(1));
      return (row) => !test(row);
    }
    this.low ??= {
      config: cases.config.map((text) => text.toLowerCase()),
      verdict: cases.verdict.values.map((text) => text.toLowerCase()),
      text: cases.text.values.map((text) => text.toLowerCase()),
    };
    const {config} = this.low;
    const verdicts = this.low.verdict.map((text) => text.includes(word));
    const texts = this.low.text.map((text) => text.includes(word));
    return (row) => config[row].includes(word) || verdicts[cases.verdict.index[row]] || texts[cases.text.index[row]];
  }
}

function equals(column, value) {
  const code = column.code(value);
  return (row) => column.index[row] === code;
}
