// Values as people read them.

// Characters that do not show, or that change how their neighbours show: controls, bidi marks, invisible ones, and
// lone surrogates. Line breaks and tabs are left to the caller.
const UNSEEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f" +
  "\\ufeff\\ufff9-\\ufffb]|[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]", "g");

function escaped(char) {
  return "\\u" + char.charCodeAt(0).toString(16).padStart(4, "0");
}

function visible(text) {
  return text.replace(UNSEEN, escaped);
}

// A word of a POSIX shell. What does not show is written as an escape that bash, zsh and ksh read, so that a command
// that is pasted is the command that was seen.
function shellWord(word) {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (word.search(UNSEEN) < 0 && !/[\n\t]/.test(word)) return "'" + word.replaceAll("'", "'\"'\"'") + "'";
  const safe = word.replace(/[\\']/g, "\\$&").replaceAll("\n", "\\n").replaceAll("\t", "\\t");
  return "$'" + visible(safe) + "'";
}

function count(number) {
  return number.toLocaleString("en-GB");
}

function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

function percent(part, whole) {
  if (!whole) return "";
  const share = 100 * part / whole;
  if (part && share < 0.1) return "< 0.1 %";
  if (part < whole && share > 99.9) return "> 99.9 %";
  return `${share.toFixed(share < 10 || share > 99 ? 1 : 0)} %`;
}

function seconds(value) {
  if (value === null) return "";
  if (value >= 3600) return `${(value / 3600).toFixed(1)} h`;
  if (value >= 100) return `${value.toFixed(0)} s`;
  return value >= 1 ? `${value.toFixed(2)} s` : `${(value * 1000).toPrecision(3).replace(/\.0+$/, "")} ms`;
}

function bytes(value) {
  if (value === null) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toPrecision(3) : value.toFixed(0)} ${units[unit]}`;
}

function difference(value) {
  if (value === null || typeof value === "string") return value === "inf" ? "∞" : value ?? "";
  if (value === 0) return "0";
  return value >= 1e-3 && value < 1e5 ? Number(value.toPrecision(3)).toString() : value.toExponential(1);
}

function plain(value) {
  return value === null || value === undefined ? "" : Number(value.toPrecision(4)).toString();
}

function clock(unix) {
  return unix === null ? "" : new Date(unix * 1000).toLocaleString("en-GB", {dateStyle: "medium", timeStyle: "short"});
}

function elapsed(milliseconds) {
  const whole = Math.round(milliseconds / 1000);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (hours) return `${hours} h ${String(minutes).padStart(2, "0")} min`;
  if (minutes) return `${minutes} min ${String(rest).padStart(2, "0")} s`;
  return milliseconds < 10000 ? `${(milliseconds / 1000).toFixed(1)} s` : `${whole} s`;
}
