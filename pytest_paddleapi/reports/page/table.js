// The table of cases: only the rows in sight exist.

// Beyond this a browser cannot scroll through a column of rows any more.
const MOST_ROWS = 500000;
// Rows kept above and below what is in sight.
const SPARE = 12;

function columnsOf(cases) {
  const text = (column) => {
    const sorted = column.values.map((value, code) => [value, code]).sort((a, b) => (a[0] < b[0] ? -1 : 1));
    const rank = new Int32Array(sorted.length);
    sorted.forEach(([, code], place) => {
      rank[code] = place;
    });
    return (row) => (column.index[row] < 0 ? null : rank[column.index[row]]);
  };
  const value = (entry) => (entry === "inf" ? Infinity : entry === "nan" ? Number.MAX_VALUE : entry);
  const verdict = text(cases.verdict);
  const found = [
    {name: "verdict", head: "Verdict", key: (row) => cases.groupCode[row] * 1000 + verdict(row),
      cell: (row) => tag(cases.verdict.at(row), cases.group(row))},
    {name: "config", head: "Config", words: cases.config, cell: null},
    {name: "dtype", head: "Dtype", key: text(cases.dtype), cell: (row) => cases.dtype.at(row)},
    {name: "excess", head: "Diff. ÷ tol.", number: true, key: (row) => value(cases.excess[row]),
      cell: (row) => difference(cases.excess[row]), title: "worst difference as a multiple of the tolerance"},
    {name: "seconds", head: "Time", number: true, key: (row) => cases.seconds[row], cell: (row) => seconds(cases.seconds[row])},
    {name: "memory", head: "Memory", number: true, key: (row) => cases.peak_bytes[row] ?? cases.estimated_bytes[row],
      cell: (row) => bytes(cases.peak_bytes[row] ?? cases.estimated_bytes[row]), title: "measured peak, or else the estimate"},
    {name: "attempts", head: "Tries", number: true, key: (row) => cases.attempts[row], cell: (row) => `${cases.attempts[row]}`},
  ];
  if (cases.change) {
    found.splice(1, 0, {name: "change", head: "Change", key: text(cases.change), cell: (row) => cases.change.at(row)});
  }
  return found;
}

class CaseTable {
  constructor(cases, open) {
    this.cases = cases;
    this.open = open;
    this.columns = columnsOf(cases);
    this.sort = {name: "verdict", down: false};
    this.found = [];
    this.active = 0;
    this.ranks = new Map();
    this.head = el("tr", {role: "row", "aria-rowindex": "1"});
    this.body = el("tbody", {role: "rowgroup"});
    this.table = el("table", {class: "cases", role: "table", "aria-labelledby": "cases-head"},
      el("thead", {role: "rowgroup"}, this.head), this.body);
    this.scroller = el("div", {class: "scroller"}, this.table);
    this.scroller.addEventListener("scroll", () => {
      this.frame ??= requestAnimationFrame(() => {
        this.frame = null;
        this.draw();
      });
    }, {passive: true});
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => {
      const place = event.target.closest("tr")?.dataset.place;
      if (place !== undefined && !window.getSelection().toString()) this.openAt(Number(place));
    });
    const narrow = window.matchMedia("(max-width: 640px)");
    const measure = () => {
      this.height = narrow.matches ? 54 : 28;
      this.shown = null;
      this.draw();
    };
    narrow.addEventListener("change", measure);
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    measure();
    this.drawHead();
  }

  // Show one measurement as a column, sorted by it.
  measure(name) {
    const {cases} = this;
    this.columns = columnsOf(cases);
    const column = cases.extra.get(name);
    const before = cases.oldExtra?.get(name);
    this.columns.push({name, head: visible(name), number: true, extra: true, key: (row) => column[row],
      cell: (row) => plain(column[row])});
    if (before) {
      this.columns.push({name: "ratio", head: "Now ÷ before", number: true, extra: true,
        key: (row) => ratios([column[row]], [before[row]])[0],
        cell: (row) => plain(ratios([column[row]], [before[row]])[0])});
    }
    this.ranks.clear();
    this.sort = {name, down: true};
    this.drawHead();
    this.set(this.found);
  }

  drawHead() {
    this.table.setAttribute("aria-colcount", this.columns.length);
    this.head.replaceChildren(...this.columns.map((column) => {
      const sorted = this.sort.name === column.name;
      const arrow = sorted ? (this.sort.down ? " ↓" : " ↑") : "";
      return el("th", {
        scope: "col", role: "columnheader", class: this.kind(column), title: column.title,
        "aria-sort": sorted ? (this.sort.down ? "descending" : "ascending") : "none",
      }, el("button", {onclick: () => this.sortBy(column)}, column.head, el("span", {"aria-hidden": "true"}, arrow)));
    }));
  }

  kind(column) {
    return `${column.name} ${column.number ? "number" : ""} ${column.extra ? "extra" : ""}`;
  }

  sortBy(column) {
    const again = this.sort.name === column.name;
    this.sort = {name: column.name, down: again ? !this.sort.down : Boolean(column.number)};
    this.drawHead();
    const place = [...this.head.cells].find((cell) => cell.classList.contains(column.name));
    place?.querySelector("button").focus();
    this.set(this.found);
  }

  // By row, its key as a number, worked out once.
  rank(column) {
    if (!this.ranks.has(column.name)) {
      const {size} = this.cases;
      const keys = new Float64Array(size);
      if (column.words) {
        const {words} = column;
        const order = Array.from({length: size}, (_, row) => row).sort((a, b) => (words[a] < words[b] ? -1 : words[a] > words[b] ? 1 : 0));
        order.forEach((row, place) => {
          keys[row] = place;
        });
      } else {
        for (let row = 0; row < size; row += 1) keys[row] = column.key(row) ?? NaN;
      }
      this.ranks.set(column.name, keys);
    }
    return this.ranks.get(column.name);
  }

  set(rows) {
    const keys = this.rank(this.columns.find((column) => column.name === this.sort.name));
    const sign = this.sort.down ? -1 : 1;
    // What has no value comes last, both ways.
    const place = (row) => (Number.isNaN(keys[row]) ? Infinity : sign * keys[row]);
    this.found = [...rows].sort((a, b) => {
      const [x, y] = [place(a), place(b)];
      return x < y ? -1 : x > y ? 1 : a - b;
    });
    this.active = 0;
    this.shown = null;
    this.table.setAttribute("aria-rowcount", this.found.length + 1);
    this.scroller.scrollTop = 0;
    this.draw();
  }

  draw() {
    const size = Math.min(this.found.length, MOST_ROWS);
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / this.height) - SPARE);
    const last = Math.min(size, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / this.height) + SPARE);
    const shown = `${first} ${last}`;
    if (shown === this.shown) return;
    this.shown = shown;
    const focused = this.body.contains(document.activeElement);
    const rows = [];
    for (let place = first; place < last; place += 1) rows.push(this.row(place));
    this.body.replaceChildren(this.space(first), ...rows, this.space(size - last));
    if (this.active < first || this.active >= last) {
      // Tab must find its way in wherever the table was scrolled to.
      this.body.querySelector("button")?.setAttribute("tabindex", "0");
    }
    if (focused) this.button(this.active)?.focus({preventScroll: true});
  }

  space(rows) {
    const cell = el("td", {colspan: this.columns.length});
    cell.style.height = `${rows * this.height}px`;
    return el("tr", {class: "space", "aria-hidden": "true"}, cell);
  }

  row(place) {
    const row = this.found[place];
    return el("tr", {role: "row", "aria-rowindex": place + 2, "data-place": place, class: this.cases.group(row)},
      this.columns.map((column) => el("td", {role: "cell", class: this.kind(column)},
        column.cell ? column.cell(row)
          : el("button", {class: "link config", tabindex: place === this.active ? "0" : "-1"}, visible(this.cases.config[row])))));
  }

  button(place) {
    return this.body.querySelector(`tr[data-place="${place}"] button`);
  }

  openAt(place) {
    this.active = place;
    this.open(this.found[place], place);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.height) - 2);
    const end = Math.min(this.found.length, MOST_ROWS) - 1;
    const here = Number(event.target.closest("tr")?.dataset.place ?? this.active);
    const to = {ArrowDown: here + 1, ArrowUp: here - 1, PageDown: here + page, PageUp: here - page, Home: 0, End: end}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.focus(Math.max(0, Math.min(end, to)));
  }

  focus(place) {
    this.button(this.active)?.setAttribute("tabindex", "-1");
    this.active = place;
    const [top, bottom] = [place * this.height, (place + 1) * this.height];
    const room = this.scroller.clientHeight - this.head.parentNode.offsetHeight;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (bottom > this.scroller.scrollTop + room) this.scroller.scrollTop = bottom - room;
    this.draw();
    const button = this.button(place);
    button?.setAttribute("tabindex", "0");
    button?.focus({preventScroll: true});
  }
}
