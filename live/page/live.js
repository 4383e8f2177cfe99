// The page of package live. Everything that is shown was written by other processes, so it becomes text, never markup.

const $ = (id) => document.getElementById(id);

/** make returns an element with attributes, and with children that are elements or text. */
function make(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== false && value != null) e.setAttribute(key, value);
  }
  e.append(...children.filter((c) => c != null));
  return e;
}

// ---------------------------------------------------------------- what the server has told

const keyOf = (store, path) => store + "\n" + path;
const locks = new Map(); // by key
let head = null; // of the last frame: stores, deadlocks, seen, pace
let allowed = false;
let offset = 0; // of this clock from the server's, in milliseconds
let heard = 0; // when the last event came, by this clock
let stuck = new Set(); // keys of the locks in deadlocks

const now = () => Date.now() + offset; // by the server's clock

/** unread reports whether a Store may have locks that are not shown. */
const unread = (s) => Boolean(s.error || s.more);

function take(frame, whole) {
  if (whole) locks.clear();
  for (const at of frame.gone ?? []) locks.delete(keyOf(at.store, at.path));
  for (const lock of frame.locks) {
    lock.key = keyOf(lock.store, lock.path);
    lock.text = [lock.path, ...lock.participants.flatMap((p) => [p.holder, p.token, p.note ?? "", p.waitsFor ?? ""]),
      ...(lock.callers ?? []).flatMap((c) => [c.function, c.file])].join("\n").toLowerCase();
    lock.holders = lock.participants.filter((p) => p.held);
    lock.waiters = lock.participants.filter((p) => !p.held);
    lock.begun = Math.min(...lock.holders.map((p) => p.heldSince ?? p.since ?? Infinity));
    lock.exact = lock.holders.length > 0 && lock.holders.every((p) => p.heldSince);
    lock.waited = Math.min(...lock.waiters.map((p) => p.since ?? Infinity));
    locks.set(lock.key, lock);
  }
  head = frame;
  offset = frame.seen - Date.now();
  heard = Date.now();
  stuck = new Set(frame.deadlocks.flatMap((d) => d.steps.map((s) => keyOf(s.store, s.path))));
  const open = panel && locks.get(panel.key);
  if (panel && (whole || !open || frame.locks.includes(open))) tellMore();
  openLinked();
  show();
}

// ---------------------------------------------------------------- links: #path=/a&filter=ci

let linked = null; // the lock that the address names, until there is a frame

function readAddress() {
  const says = new URLSearchParams(location.hash.slice(1));
  $("filter").value = says.get("filter") ?? "";
  linked = says.get("path") ? { store: says.get("store"), path: says.get("path") } : null;
  if (!linked && panel) leave();
  openLinked();
}

/** openLinked opens the lock that the address names. A link of a page with one Store names none. */
function openLinked() {
  if (!linked || !head?.stores.length) return;
  const { store, path } = linked;
  linked = null;
  const at = store ?? [...locks.values()].find((lock) => lock.path === path)?.store ?? head.stores[0].name;
  if (panel?.key !== keyOf(at, path)) choose(keyOf(at, path));
}

function writeAddress() {
  const says = new URLSearchParams();
  if (panel) {
    const [store, path] = panel.key.split("\n");
    if (head.stores.length > 1) says.set("store", store);
    says.set("path", path);
  }
  if ($("filter").value) says.set("filter", $("filter").value);
  const hash = says.toString().replaceAll("%2F", "/");
  history.replaceState(null, "", location.pathname + location.search + (hash && "#" + hash));
}

addEventListener("hashchange", () => { readAddress(); show(); });

// ---------------------------------------------------------------- the stream

let stream = null;
let off = 0; // since when there is no connection, 0 while there is one
let again = 0; // the timer of another attempt

function connect() {
  clearTimeout(again);
  stream?.close();
  stream = new EventSource("events");
  stream.addEventListener("hello", (e) => {
    allowed = JSON.parse(e.data).allowed;
    off = 0;
    heard = Date.now();
  });
  stream.addEventListener("all", (e) => take(JSON.parse(e.data), true));
  stream.addEventListener("some", (e) => take(JSON.parse(e.data), false));
  stream.onerror = () => {
    off ||= Date.now();
    // The browser tries again by itself, unless the server has said no.
    if (stream.readyState === EventSource.CLOSED) again = setTimeout(connect, 2000);
    show();
  };
}

// A tab in the background is not looked at.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return connect();
  clearTimeout(again);
  stream?.close();
});

// ---------------------------------------------------------------- words

const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function long(milliseconds) {
  let rest = Math.max(0, Math.floor(milliseconds / 1000));
  const words = [];
  for (const [size, unit] of units) {
    const n = Math.floor(rest / size);
    if (n > 0 || (size === 1 && words.length === 0)) words.push(`${n} ${unit}`);
    rest -= n * size;
    if (words.length === 2 || (words.length === 1 && n > 2)) break; // seconds matter beside a minute, not beside an hour
  }
  return words.join(" ");
}

const clock = (time) => new Date(time).toLocaleTimeString([], { hour12: false });
const moment = (time) => (now() - time < 43200000 ? clock(time) : new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }));
const many = (n, one, more) => `${n.toLocaleString("en")} ${n === 1 ? one : more}`;
const nameOf = (p) => p.holder || "unnamed";
const kinds = { mutex: "", rwmutex: "read/write", semaphore: "semaphore", election: "election" };
const age = (since) => (Number.isFinite(since) ? long(now() - since) : "");
const held = (lock) => (lock.held && Number.isFinite(lock.begun) ? (lock.exact ? "" : "≤ ") + age(lock.begun) : "");

/** lasting returns a time that goes on, since a moment. Sign says that it is a bound. */
const lasting = (sign, since) => make("span", { "data-since": since, "data-sign": sign }, sign + age(since));

/** middle returns a text without its middle, if it has more characters than that: paths and holders differ at their ends. */
function middle(text, most) {
  const chars = [...text];
  if (chars.length <= most) return text;
  const end = Math.max(1, Math.ceil((most - 1) * 0.6));
  return chars.slice(0, Math.max(0, most - 1 - end)).join("") + "…" + chars.slice(-end).join("");
}

const pen = document.createElement("canvas").getContext("2d");

/** fitting returns how many characters of a text have room, without its middle. */
function fitting(text, room, font) {
  pen.font = font;
  let [least, most] = [3, [...text].length];
  if (pen.measureText(text).width <= room) return most;
  while (least < most) {
    const n = Math.ceil((least + most) / 2);
    if (pen.measureText(middle(text, n)).width <= room) least = n;
    else most = n - 1;
  }
  return least;
}

function roleOf(lock, p) {
  if (lock.kind === "semaphore") return many(p.units, "unit", "units");
  return { read: "reads", write: "writes", foreign: "another program" }[p.kind] ?? "";
}

const unitsHeld = (lock) => lock.unitsHeld ?? 0; // a row has not all holders

// ---------------------------------------------------------------- the table

const table = $("locks");
const body = table.tBodies[0];
const above = spaceRow();
const below = spaceRow();
body.append(above.row, below.row);
const rows = new Map(); // by key: those that are in the document
let list = []; // the locks to show, in order

function spaceRow() {
  const cell = make("td", { colspan: 5 });
  return { row: make("tr", { class: "space", "aria-hidden": "true" }, cell), cell };
}

const byPath = (a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : a.store < b.store ? -1 : 1);
const orders = {
  path: byPath,
  wait: (a, b) => a.waited - b.waited || byPath(a, b),
  waiting: (a, b) => b.waiting - a.waiting || byPath(a, b),
  held: (a, b) => a.begun - b.begun || byPath(a, b),
};

function arrange() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const waited = $("waited").checked;
  list = [];
  for (const lock of locks.values()) {
    if ((!waited || lock.waiting > 0) && words.every((w) => lock.text.includes(w))) list.push(lock);
  }
  // Infinity less Infinity is no number, and no order: equal ones go by path.
  const order = orders[$("order").value];
  list.sort((a, b) => order(a, b) || byPath(a, b));
}

function newRow(lock) {
  const cell = (name) => make("td", { role: "cell", class: name });
  const cells = ["path", "held", "for", "waiting", "longest"].map(cell);
  const row = make("tr", { role: "row" }, ...cells);
  return { row, cells, lock: null };
}

function fill(r, lock) {
  const [path, by, , waiting] = r.cells;
  const button = path.firstChild ?? make("button", { type: "button" });
  button.onclick = () => choose(lock.key);
  button.title = lock.path;
  button.cut = (most) => {
    const shown = middle(lock.path, most);
    const cut = shown.lastIndexOf("/") + 1;
    button.replaceChildren(make("span", { class: "dir" }, shown.slice(0, cut)), make("b", {}, shown.slice(cut)));
  };
  button.cut(Infinity);
  const tags = [];
  if (lock.kind === "semaphore") tags.push(`${unitsHeld(lock)} of ${lock.error ? "?" : lock.size} units`);
  else if (kinds[lock.kind]) tags.push(kinds[lock.kind]);
  if (head.stores.length > 1) tags.push(lock.store);
  path.replaceChildren(button, ...tags.flatMap((t) => [" ", make("span", { class: "tag" }, t)]));

  by.replaceChildren();
  if (lock.held > 1) by.append(make("span", { class: "several" }, String(lock.held)), " ");
  by.append(...lock.holders.slice(0, 3).flatMap((p) => [make("span", { class: "who" },
    named(p), lock.kind === "semaphore" ? ` ×${p.units}` : "", p.heldSince ? make("span", { class: "mine" }, " this process") : null,
    p.waitsFor ? make("span", { class: "mine" }, " waits") : null, p.left ? make("span", { class: "mine" }, " is gone") : null), " "]));
  if (lock.held > 3) by.append(make("span", { class: "more" }, `+${lock.held - 3}`));
  if (lock.held === 0) by.append(make("span", { class: "none" }, "not held"));
  by.title = lock.holders.slice(0, 20).map((p) => nameOf(p) + (p.waitsFor ? " waits for " + p.waitsFor : "")).join("\n");

  waiting.replaceChildren();
  if (lock.waiting > 0) {
    waiting.append(make("span", { class: "count" }, String(lock.waiting)), " ");
    lock.waiters.slice(0, 3).forEach((p, i) => waiting.append(make("span", { class: "who" }, make("i", {}, `${i + 1}.`), " ", named(p)), " "));
    if (lock.waiting > 3) waiting.append(make("span", { class: "more" }, `+${lock.waiting - 3}`));
  }
  waiting.title = lock.waiters.slice(0, 20).map((p, i) => `${i + 1}. ${nameOf(p)}`).join("\n");
  r.lock = lock;
  r.room = "";
}

/** named returns the name of a participant for a cell that may have too little room for it. */
function named(p) {
  const name = make("span", {}, nameOf(p));
  name.cut = (most) => { name.textContent = middle(nameOf(p), most); };
  return name;
}

/** squeeze cuts what is too wide for its cell. It looks at all rows before it changes any. */
function squeeze(all) {
  const inner = (cell) => {
    const style = getComputedStyle(cell);
    return cell.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  };
  const jobs = [];
  for (const r of all) {
    const [path, by, , waiting] = r.cells;
    const room = [path, by, waiting].map(inner);
    if (r.room === room.join()) continue;
    r.room = room.join();
    const button = path.firstChild;
    const tags = [...path.querySelectorAll(".tag")].reduce((sum, tag) => sum + 10 + tag.offsetWidth, 0);
    jobs.push([button, r.lock.path, Math.max(60, room[0] - tags), button]);
    for (const [cell, list, width] of [[by, r.lock.holders, room[1]], [waiting, r.lock.waiters, room[2]]]) {
      const names = [...cell.querySelectorAll(".who > span:not(.mine)")];
      names.forEach((name, i) => {
        // What stands beside it in the line: a number of all, what is said of it, and the gap behind it.
        const beside = 14 + (i === 0 ? name.parentNode.offsetLeft - (cell.firstElementChild?.offsetLeft ?? 0) : 0) + name.parentNode.offsetWidth - name.offsetWidth;
        jobs.push([name, nameOf(list[i]), Math.max(60, width - beside), cell]);
      });
    }
  }
  const fonts = new Map();
  for (const [e, text, room, of] of jobs) {
    const kind = of.className + of.tagName;
    if (!fonts.has(kind)) {
      const style = getComputedStyle(of); // whose font is empty where a variant is set
      fonts.set(kind, `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`);
    }
    e.cut(fitting(text, room, fonts.get(kind)));
  }
}

function tick(r) {
  const set = (cell, text) => { if (cell.textContent !== text) cell.textContent = text; };
  set(r.cells[2], held(r.lock));
  set(r.cells[4], age(r.lock.waited));
  r.row.classList.toggle("stuck", stuck.has(r.lock.key));
  r.row.classList.toggle("chosen", panel?.key === r.lock.key);
}

let height = 0; // of a row

/** draw puts the rows into the document that are in the window, or near it. The others are room above and below. */
function draw() {
  height = rows.size > 0 ? rows.values().next().value.row.offsetHeight || height : height;
  const size = height || 34;
  const top = -body.getBoundingClientRect().top;
  const extra = 12;
  const from = Math.max(0, Math.min(list.length, Math.floor(top / size) - extra));
  const to = Math.min(list.length, Math.ceil((top + innerHeight) / size) + extra);
  const wanted = new Set();
  for (let i = from; i < to; i++) wanted.add(list[i].key);
  for (const [key, r] of rows) {
    if (!wanted.has(key)) {
      r.row.remove();
      rows.delete(key);
    }
  }
  let at = above.row;
  for (let i = from; i < to; i++) {
    const lock = list[i];
    let r = rows.get(lock.key);
    if (!r) rows.set(lock.key, (r = newRow(lock)));
    if (r.lock !== lock) fill(r, lock);
    tick(r);
    r.row.setAttribute("aria-rowindex", i + 2);
    if (at.nextSibling !== r.row) at.after(r.row); // one that stays where it is keeps the focus
    at = r.row;
  }
  above.cell.style.height = from * size + "px";
  below.cell.style.height = (list.length - to) * size + "px";
  above.row.hidden = from === 0;
  below.row.hidden = to === list.length;
  table.setAttribute("aria-rowcount", list.length + 1);
  squeeze(rows.values());
}

// ---------------------------------------------------------------- what is above the table

function showHead() {
  $("stores").replaceChildren(...head.stores.map((s) => {
    const late = s.error || s.state !== "connected";
    if (off) return make("li", { class: "unknown" }, make("b", {}, s.name));
    return make("li", { class: s.error ? "failed" : s.state }, make("b", {}, s.name), " ",
      s.error ? "does not answer" : s.state, late ? "" : ` · ${s.took} ms`);
  }));
  let holders = 0, waiters = 0;
  for (const lock of locks.values()) {
    holders += lock.held;
    waiters += lock.waiting;
  }
  $("counts").textContent = `${many(locks.size, "lock", "locks")} · ${holders.toLocaleString("en")} held · ${waiters.toLocaleString("en")} waiting` +
    (head.stores.some(unread) ? ", as far as is known" : "");
  const deadlocks = head.deadlocks.length;
  document.title = (deadlocks ? "Deadlock · " : waiters ? `${waiters} waiting · ` : "") + "farsync";
}

function showLink() {
  const link = $("link");
  const silent = Date.now() - heard;
  let [state, words] = ["", head ? `live · ${clock(head.seen)}` : "looking…"];
  if (off) [state, words] = ["off", "connection lost"];
  else if (head && silent > 2 * head.pace + 8000) [state, words] = ["late", `no news for ${long(silent)}`];
  if (link.textContent !== words) link.textContent = words;
  link.className = state;
  document.body.classList.toggle("off", Boolean(off));
}

/** sentences say of a cycle who holds what and waits for what: one for each that waits. */
function sentences(steps) {
  const code = (step) => {
    const b = make("button", { type: "button" }, step.path);
    b.onclick = () => choose(keyOf(step.store, step.path));
    return b;
  };
  const list = [];
  steps.forEach((step, i) => {
    if (step.held) return;
    const next = steps[(i + 1) % steps.length];
    const before = steps[(i + steps.length - 1) % steps.length];
    const words = [make("b", {}, nameOf(step))];
    // The one before is what its caller holds, or another that waits behind it.
    if (before.held) words.push(" holds ", code(before), " and");
    words.push(" waits for ", code(step), next.held ? ", held by " : ", behind ", make("b", {}, nameOf(next)), ".");
    list.push(make("li", {}, ...words));
  });
  return list;
}

const known = new Map(); // banners by what they say, so that they are not read out again each second

function banner(id, kind, build) {
  if (!known.has(id)) known.set(id, make("div", { class: "alarm " + kind, role: kind === "deadlock" ? "alert" : null }, ...build()));
  return known.get(id);
}

function showAlarms() {
  const list = [];
  if (off) {
    list.push(banner("off " + off, "lost", () => [make("h2", {}, `No connection since ${clock(off)}`),
      make("p", {}, head ? `What is below was so at ${clock(head.seen)}, and may have changed. Trying again.` : "Trying again.")]));
  }
  for (const s of head?.stores ?? []) {
    if (s.error) {
      list.push(banner("error " + s.name + s.seen + s.error, "failed", () => [make("h2", {}, `${s.name} does not answer`),
        make("p", {}, s.seen ? `Its locks are shown as they were at ${clock(s.seen)}. ` : "", s.error)]));
    }
    if (s.notBefore && !s.error) {
      list.push(banner("silence " + s.name + clock(s.notBefore), "more", () => [make("h2", {}, `${s.name} grants nothing before ${clock(s.notBefore)}`),
        make("p", {}, `So that all who held a lock before can stop: ${s.why}. What waits is granted then.`)]));
    }
    if (s.more) {
      list.push(banner("more " + s.name + s.moreText, "more", () => [make("h2", {}, `${s.name} has more locks than are shown`),
        make("p", {}, s.moreText ? "The list ends where the entries have too much text to be kept. Look who writes so much into them, or add a narrower prefix to see the others."
          : "The list ends at the limit. Add a narrower prefix to see the others.")]));
    } else if (s.moreText) {
      list.push(banner("text " + s.name, "more", () => [make("h2", {}, `${s.name} has more text than is shown`),
        make("p", {}, "Its last lock has entries without their notes, what they wait for and what they hold. Look who writes so much into them.")]));
    }
  }
  for (const d of head?.deadlocks ?? []) {
    const id = "deadlock " + d.steps.map((s) => s.id).join(" ");
    list.push(banner(id, "deadlock", () => [
      make("h2", {}, "Deadlock", make("span", {}, ` · since ${clock(d.since)}`)),
      make("ul", {}, ...sentences(d.steps)),
      make("p", { class: "hint" }, "None of them can go on. Break one of the leases; to prevent it, take the locks together with a MultiMutex."),
    ]));
  }
  for (const [id, one] of known) if (!list.includes(one)) known.delete(id);
  const alarms = $("alarms");
  list.forEach((one, i) => { if (alarms.children[i] !== one) alarms.insertBefore(one, alarms.children[i] ?? null); });
  while (alarms.children.length > list.length) alarms.lastChild.remove();
  alarms.hidden = list.length === 0;
}

function showEmpty() {
  const empty = $("empty");
  table.hidden = list.length === 0;
  empty.hidden = list.length > 0 || (!head && Boolean(off));
  $("shown").textContent = head && list.length < locks.size ? `${list.length.toLocaleString("en")} of ${locks.size.toLocaleString("en")} shown` : "";
  if (empty.hidden) return;
  let words = ["Looking…", "The first survey is under way."];
  if (head && locks.size > 0) words = ["Nothing matches", `${many(locks.size, "lock is", "locks are")} not shown: clear the filter to see them.`];
  else if (head?.stores.some(unread)) words = ["It is not known what is locked", "A Store has not been read, or not all of it. Above it says why."];
  else if (head) words = ["All is free", "No lock is held here, and none is waited for. One that is locked appears within seconds."];
  if (empty.textContent !== words.join("")) empty.replaceChildren(make("b", {}, words[0]), words[1]);
}

// ---------------------------------------------------------------- waits between locks

const svg = (name, attributes = {}, ...children) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
};

/** edgesOf returns an edge for each lock that is held by one that waits for another. */
function edgesOf() {
  const owners = new Map(); // locks by the IDs of their holders' entries
  for (const lock of locks.values()) for (const p of lock.holders) owners.set(p.id, lock);
  const edges = new Map();
  for (const lock of locks.values()) {
    for (const p of lock.waiters) {
      for (const id of p.under ?? []) {
        const from = owners.get(id);
        if (!from) continue;
        const key = from.key + "\n\n" + lock.key;
        const edge = edges.get(key) ?? { from, to: lock, by: [], stuck: stuck.has(from.key) && stuck.has(lock.key) };
        edge.by.push(nameOf(p));
        edges.set(key, edge);
      }
    }
  }
  return [...edges.values()].sort((a, b) => byPath(a.from, b.from) || byPath(a.to, b.to));
}

/** layersOf gives each lock a column to the right of those that wait for it; an edge that closes a cycle goes back. */
function layersOf(edges) {
  const nodes = new Map();
  const out = (lock) => edges.filter((e) => e.from === lock);
  const visit = (lock, depth, on) => {
    if (on.has(lock) || (nodes.get(lock) ?? -1) >= depth) return;
    nodes.set(lock, depth);
    on.add(lock);
    for (const e of out(lock)) visit(e.to, depth + 1, on);
    on.delete(lock);
  };
  const targets = new Set(edges.map((e) => e.to));
  for (const e of edges) if (!targets.has(e.from)) visit(e.from, 0, new Set());
  for (const e of edges) if (!nodes.has(e.from)) visit(e.from, 0, new Set());
  return nodes;
}

const mostEdges = 100;
let drawn = "";

function showNested() {
  const edges = edgesOf();
  const nested = $("nested");
  nested.hidden = edges.length === 0;
  $("edges").textContent = edges.length.toLocaleString("en");
  if (!nested.open || nested.hidden) return;
  const says = JSON.stringify(edges.map((e) => [e.from.key, e.to.key, e.by, e.stuck]));
  if (says === drawn) return;
  drawn = says;
  $("edgelist").replaceChildren(...edges.slice(0, mostEdges).map((e) => make("li", {}, make("code", {}, e.from.path), " → ", make("code", {}, e.to.path),
    ": ", e.by.slice(0, 5).join(", ") + (e.by.length > 5 ? ` and ${e.by.length - 5} more` : ""), " holds the first and waits for the second", e.stuck ? ": deadlock" : "")));
  $("graph").replaceChildren(edges.length <= mostEdges ? picture(edges) : make("p", { class: "none" }, "Too many to draw."));
}

function picture(edges) {
  const [w, h, gapX, gapY] = [210, 32, 190, 34];
  const layers = layersOf(edges);
  const columns = [];
  const at = new Map();
  for (const [lock, depth] of layers) {
    const column = (columns[depth] ??= []);
    at.set(lock, { x: 2 + depth * (w + gapX), y: 34 + column.length * (h + gapY) });
    column.push(lock);
  }
  const wide = columns.length * (w + gapX) - gapX + 4;
  const high = 34 + Math.max(...columns.map((c) => c?.length ?? 0)) * (h + gapY) + 20;
  const marker = (id, name) => svg("marker", { id, class: name, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
    svg("path", { d: "M0 0 8 4 0 8z" }));
  const drawing = svg("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": "Locks, and which holder waits for which; the list below says the same" },
    svg("defs", {}, marker("arrow", ""), marker("arrow-stuck", "stuck")));
  const texts = [];
  for (const e of edges) {
    const [a, b] = [at.get(e.from), at.get(e.to)];
    const forth = b.x > a.x;
    const [x1, y1, x2, y2] = forth ? [a.x + w, a.y + h / 2, b.x, b.y + h / 2] : [a.x + w / 2, a.y + h, b.x + w / 2, b.y + h];
    const down = Math.max(y1, y2) + 34;
    const d = forth ? `M${x1} ${y1}C${x1 + 70} ${y1} ${x2 - 70} ${y2} ${x2} ${y2}` : `M${x1} ${y1}C${x1} ${down} ${x2} ${down} ${x2} ${y2}`;
    drawing.append(svg("path", { d, class: e.stuck ? "stuck" : "", "marker-end": e.stuck ? "url(#arrow-stuck)" : "url(#arrow)" }));
    const by = e.by[0].length > 24 ? e.by[0].slice(0, 23) + "…" : e.by[0];
    texts.push(svg("text", { class: "by", x: (x1 + x2) / 2, y: forth ? (y1 + y2) / 2 - 7 : down + 6, "text-anchor": "middle" }, by + (e.by.length > 1 ? ` +${e.by.length - 1}` : "")));
  }
  for (const [lock, p] of at) {
    const text = lock.path.length > 27 ? "…" + lock.path.slice(-26) : lock.path;
    drawing.append(svg("g", { class: stuck.has(lock.key) ? "stuck" : "" }, svg("rect", { x: p.x, y: p.y, width: w, height: h, rx: 5 }),
      svg("text", { x: p.x + w / 2, y: p.y + 20, "text-anchor": "middle" }, text)));
  }
  drawing.append(...texts);
  return drawing;
}

// ---------------------------------------------------------------- one lock

let panel = null; // the key of the lock that is open, its history, and whether its Store and prefix are shown here: a link may name any
const aside = $("lock");

function choose(key) {
  panel = { key, holds: [], shown: false, sure: null, said: null };
  aside.hidden = false;
  writeAddress();
  tellMore();
  showPanel();
  aside.focus();
  draw();
}

function leave() {
  const key = panel?.key;
  panel = null;
  aside.hidden = true;
  writeAddress();
  draw();
  rows.get(key)?.cells[0].firstChild.focus();
}

addEventListener("keydown", (e) => { if (e.key === "Escape" && panel) leave(); });

async function tellMore() {
  const of = panel;
  const [store, path] = of.key.split("\n");
  try {
    const answer = await fetch("history?" + new URLSearchParams({ store, path }));
    if (answer.ok) ({ holds: of.holds, shown: of.shown } = await answer.json());
  } catch {
    return; // the stream says that there is no connection
  }
  if (panel === of) showPanel();
}

async function change(what, form) {
  const of = panel;
  of.sure = null;
  of.said = [what === "ask" ? "Asking…" : "Breaking…", ""];
  showPanel();
  try {
    const answer = await fetch(what, { method: "POST", body: new URLSearchParams(form) });
    of.said = answer.ok ? [what === "ask" ? "Asked. Whether it is given back is up to the holder." : "Broken.", ""] : [await answer.text(), "failed"];
  } catch (error) {
    of.said = [String(error.message), "failed"];
  }
  if (panel === of) showPanel();
}

function showPanel() {
  const [store, path] = panel.key.split("\n");
  const lock = locks.get(panel.key);
  const typing = aside.querySelector("form.sure input");
  const why = typing?.value ?? "";
  const inside = aside.contains(document.activeElement) ? document.activeElement : null;
  const again = inside?.dataset?.name;
  const close = make("button", { type: "button", class: "close", "aria-label": "Close", "data-name": "close" }, "×");
  close.onclick = leave;
  const parts = [close, make("h2", { id: "lock-path", class: "mono" }, path)];
  const what = lock ? [kinds[lock.kind] || "mutex", lock.kind === "semaphore" ? `${unitsHeld(lock)} of ${lock.error ? "?" : lock.size} units held` : ""]
    : [panel.shown && head.stores.some((s) => s.name === store && !unread(s)) ? "free" : "not shown"];
  parts.push(make("p", { class: "kind" }, [...what, "on " + store].filter(Boolean).join(" · ")));
  if (panel.said) parts.push(make("p", { class: "said " + panel.said[1], role: "status" }, panel.said[0]));
  if (lock?.error) parts.push(make("p", { class: "said" }, lock.error));
  if (lock) {
    if (allowed && lock.held) parts.push(action("ask", "Ask for it back", "", () => change("ask", { store, path })));
    parts.push(make("h3", {}, lock.held ? `Holding: ${lock.held}` : "Not held"));
    parts.push(make("ul", {}, ...lock.holders.map((p) => participant(lock, p, store, path, why))));
    if (lock.waiting) {
      parts.push(make("h3", {}, `Waiting: ${lock.waiting}`));
      parts.push(make("ol", {}, ...lock.waiters.map((p, i) => participant(lock, p, store, path, why, i + 1))));
    }
    if (lock.held + lock.waiting > lock.participants.length) {
      parts.push(make("p", { class: "said" }, `${many(lock.held + lock.waiting - lock.participants.length, "more is", "more are")} in `,
        make("a", { href: "snapshot?" + new URLSearchParams({ path }) }, "the snapshot"), "."));
    }
    if (lock.callers) {
      parts.push(make("h3", {}, "Called by this process"));
      parts.push(make("ul", { class: "callers" }, ...lock.callers.map(caller)));
    }
  }
  const ended = panel.holds.filter((h) => h.to);
  if (ended.length) {
    parts.push(make("h3", {}, "Before, as far as it was seen here"));
    parts.push(make("ul", {}, ...ended.reverse().map((h) => make("li", {}, make("span", { class: "time" }, `${clock(h.from)} · ${lasted(h)}`), make("span", {}, h.holder || "unnamed")))));
  }
  aside.replaceChildren(...parts);
  if (inside && inside !== aside) ((again && aside.querySelector(`[data-name="${CSS.escape(again)}"]`)) || aside).focus();
}

/** lasted says for how long a hold lasted at least. It may have gone on after the last look at it. */
const lasted = (h) => (h.last > h.from ? "≥ " + long(h.last - h.from) : "seen once");

/** caller says of a place of the program how many of its calls hold, or wait. */
function caller(c) {
  const since = c.held ? `held since ${moment(c.since)} · ` : `waiting since ${moment(c.since)} · `;
  return make("li", {}, make("span", { class: "time" }, since, lasting("", c.since)), make("code", {}, c.function),
    c.count > 1 ? make("span", { class: "tag" }, many(c.count, "call", "calls")) : null, make("div", { class: "mono" }, c.file));
}

/** noted returns a note, as a link if it names a trace that can be looked at. */
function noted(p) {
  return p.traceURL ? make("a", { href: p.traceURL, target: "_blank", rel: "noopener noreferrer", "data-name": "note " + p.token }, p.note) : p.note;
}

/** under returns what an entry stands under: of locks that are not shown here, how many. */
const under = (p) => [...p.under ?? [], ...p.underOthers ? [many(p.underOthers, "entry", "entries") + " not shown here"] : []].join(" ");

function action(name, words, kind, run) {
  const b = make("button", { type: "button", class: "act " + kind, "data-name": name }, words);
  b.onclick = run;
  return b;
}

function participant(lock, p, store, path, why, place) {
  const rows = [["left behind", p.left], ["waits for", p.waitsFor], ["token", p.token], ["entry", p.id], ["session", p.session], ["note", noted(p)], ["under", under(p)]];
  const since = [];
  if (p.heldSince) since.push(`held since ${moment(p.heldSince)} · `, lasting("", p.heldSince));
  else if (p.since) since.push(`joined ${moment(p.since)} · `, lasting(p.held ? "≤ " : "", p.since));
  const item = make("li", {},
    make("span", { class: "time" }, ...since),
    make("span", { class: "name" }, (place ? place + ". " : "") + nameOf(p)),
    roleOf(lock, p) ? make("span", { class: "tag" }, roleOf(lock, p)) : null,
    p.heldSince ? make("span", { class: "mine" }, " this process") : null,
    make("dl", {}, ...rows.filter(([, v]) => v).flatMap(([k, v]) => [make("dt", {}, k), make("dd", {}, v)])));
  if (!allowed || !p.held) return item;
  if (panel.sure !== p.token) {
    item.append(action("break " + p.token, "Break this lease…", "danger", () => { panel.sure = p.token; showPanel(); aside.querySelector("form.sure input")?.focus(); }));
    return item;
  }
  const reason = make("input", { type: "text", maxlength: 200, "data-name": "why", "aria-label": "Why, for the holder and the logs", placeholder: "why, for the holder and the logs" });
  reason.value = why;
  const sure = make("form", { class: "sure" }, make("p", {}, "Its holder is told first, and its work ends as after any loss. Then the next holds."), reason,
    make("button", { type: "submit", class: "act danger", "data-name": "sure" }, "Break it"),
    action("keep", "Keep it", "", () => { panel.sure = null; showPanel(); }));
  sure.onsubmit = (e) => {
    e.preventDefault();
    change("break", { store, path, token: p.token, why: reason.value });
  };
  item.append(sure);
  return item;
}

// ---------------------------------------------------------------- when to draw

let due = false;

/** show draws all, once before the browser paints next. */
function show() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    showLink();
    showAlarms();
    if (head) {
      showHead();
      arrange();
      showNested();
    }
    showEmpty();
    draw();
  });
}

addEventListener("scroll", () => draw(), { passive: true });
addEventListener("resize", show);
$("filter").addEventListener("input", () => { show(); writeAddress(); });
$("waited").addEventListener("change", show);
$("order").addEventListener("change", show);
$("nested").addEventListener("toggle", show);
setInterval(() => {
  showLink();
  for (const r of rows.values()) tick(r);
  squeeze(rows.values()); // a longer time leaves less room beside it
  for (const e of aside.querySelectorAll("[data-since]")) e.textContent = e.dataset.sign + age(Number(e.dataset.since));
}, 1000);

readAddress();
show();
connect();
