// Elements are made, never parsed: no text of a case can become markup.

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

// Children without the places of those that do not apply.
function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined);
}

function el(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

function svg(tag, properties, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function section(id) {
  const found = document.getElementById(id);
  found.hidden = false;
  return found;
}

// A verdict or an outcome with the colour of its group; the word itself says it too.
function tag(word, group) {
  return el("span", {class: `tag ${group}`}, word);
}

// A table of a few rows: columns are [head, class].
function smallTable(caption, columns, rows) {
  return el("div", {class: "sideways", tabindex: "0", role: "region", "aria-label": caption},
    el("table", {class: "small"},
      el("caption", {class: "unseen"}, caption),
      el("thead", null, el("tr", null, columns.map(([head, kind]) => el("th", {scope: "col", class: kind}, head)))),
      el("tbody", null, rows.map((cells) => el("tr", null,
        cells.map((cell, place) => el("td", {class: columns[place][1]}, cell)))))));
}
