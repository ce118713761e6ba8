"use strict";
// Filters, sorts and opens what the page holds already. Every text is put in by textContent: labels
// in a ledger are only ever texts. Nothing is loaded and nothing leaves the page.
(async () => {
  const $ = (what, where = document) => where.querySelector(what);
  const $$ = (what, where = document) => [...where.querySelectorAll(what)];
  const byId = (id) => document.getElementById(id);
  const SVG = $("svg")?.namespaceURI;

  function element(tag, text, kind, more = {}) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    for (const [name, value] of Object.entries(more)) made.setAttribute(name, value);
    return made;
  }

  function drawn(tag, attributes, ...inside) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...inside);
    return made;
  }

  async function inflated(text) {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  async function block(id) {
    const held = JSON.parse(byId(id).textContent);
    return held.deflated ? JSON.parse(new TextDecoder().decode(await inflated(held.deflated))) : held;
  }

  // Rounded up, as everywhere: a reader never sees less than was spent.
  function upward(value, digits) {
    const [lead, power] = value.toExponential(digits - 1).split("e");
    if (Number(`${lead}e${power}`) >= value) return Number(`${lead}e${power}`);
    const whole = Number(lead.replace(".", "")) + 1;
    return Number(`${whole}e${Number(power) - digits + 1}`);
  }

  const number = (value) => (typeof value === "string" ? value : String(upward(value, 4)));

  function percent(share) {
    const value = 100 * share;
    if (value < 1 && value !== 0) return `${upward(value, 2)} %`;
    const nearest = value.toFixed(1);
    return `${Number(nearest) / 100 >= share ? nearest : ((Math.round(value * 10) + 1) / 10).toFixed(1)} %`;
  }

  const book = await block("data");
  const people = await block("spends");
  const [NAME, CELLS, KEYS, HUE, FLAG, CLAIM, PLAN, PATH, SPOT, FACTS, ANSWERS] = Array(11).keys();
  const grants = book.grants || [];
  const most = grants.reduce((top, one) => Math.max(top, one[KEYS][2]), 0);
  const heads = $$("#grants thead th");
  const columns = heads.map((head) => ({ name: head.textContent, kind: head.className, key: Number(head.dataset.key) }));
  const cells = $$(".cell");
  const byPath = new Map(cells.map((cell) => [cell.dataset.path, cell]));
  let path = "";
  let sort = { column: 0, down: true };
  let limit = 100;
  let found = grants;

  // ---- the table of grants

  function swatch(hue) {
    return drawn("svg", { class: "sw", width: 10, height: 10, "aria-hidden": "true" },
      drawn("rect", { class: `k${hue}`, width: 10, height: 10, rx: 2 }));
  }

  function facts(pairs) {
    const list = element("dl", undefined, "kv");
    for (const [name, value] of pairs) list.append(element("dt", name), element("dd", value));
    return list;
  }

  function opened(one) {
    const row = element("tr", undefined, "more");
    const cell = element("td", undefined, "", { colspan: columns.length });
    const two = element("div", undefined, "two");
    const right = element("div");
    right.append(element("h3", "Plan, fixed before any data was read"), element("pre", book.plans[one[PLAN]]));
    if (one[ANSWERS].length) {
      const list = element("ul", undefined, "small");
      list.append(...one[ANSWERS].map((text) => element("li", text)));
      right.append(element("h3", "Answers released"), list);
    }
    two.append(facts([...one[FACTS], ...columns.map((column, place) => [column.name, one[CELLS][place]])]), right);
    cell.append(two);
    row.append(cell);
    return row;
  }

  function opener(one, text) {
    const button = element("button", text, "open", { type: "button", "aria-expanded": "false", "aria-label": `${text}, details of ${one[CELLS][2]}` });
    button.addEventListener("click", () => {
      const row = button.closest("tr");
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) row.nextSibling.remove();
      else row.after(opened(one));
    });
    return button;
  }

  function line(one) {
    const row = element("tr", undefined, "", { "data-grant": one[NAME] });
    one[CELLS].forEach((text, place) => {
      const cell = element("td", undefined, columns[place].kind);
      if (place === 0) cell.append(opener(one, text));
      else if (columns[place].kind === "b nw") {
        const width = `${most ? (100 * one[KEYS][2]) / most : 0}%`;
        cell.append(drawn("svg", { width: 76, height: 10, "aria-hidden": "true" },
          drawn("rect", { class: "track", width: "100%", height: 10, rx: 2 }), drawn("rect", { class: `k${one[HUE]}`, width, height: 10, rx: 2 })), text);
      } else if (columns[place].name === "Status" && one[FLAG]) cell.append(element("span", text, "flag"));
      else cell.append(...(place === 1 ? [swatch(one[HUE])] : []), text);
      if (place === 2) {
        if (one[CLAIM]) cell.append(" ", element("a", "unverified", "flag todo", { href: "#claims" }));
        const table = element("span", undefined, "sub");
        table.append(swatch(one[HUE]), one[CELLS][1]);
        cell.append(table);
      }
      row.append(cell);
    });
    return row;
  }

  function value(one, place) {
    const key = columns[place].key;
    return key < 0 ? one[CELLS][place].toLowerCase() : one[KEYS][key] === "infinite" ? Infinity : one[KEYS][key];
  }

  const under = (one) => !path || one[PATH] === path || one[PATH].startsWith(`${path}/`);

  function choose() {
    const words = ($("#q")?.value || "").toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = $$(".tools select").filter((select) => select.value).map((select) => [Number(select.dataset.column), select.value]);
    found = grants.filter((one) => under(one) && wanted.every(([place, text]) => one[CELLS][place] === text)
      && words.every((word) => one[NAME].toLowerCase().includes(word) || one[CELLS].some((text) => text.toLowerCase().includes(word))));
    const order = sort.down ? -1 : 1;
    found.sort((a, b) => {
      const [x, y] = [value(a, sort.column), value(b, sort.column)];
      return (x < y ? -1 : x > y ? 1 : 0) * order;
    });
  }

  function draw() {
    choose();
    $("#grants tbody").replaceChildren(...found.slice(0, limit).map(line));
    const all = found.length === grants.length;
    const share = found.reduce((sum, one) => sum + one[KEYS][2], 0);
    const sum = byId("sum");
    if (!all || sum.dataset.was) {
      sum.dataset.was = "1";
      sum.replaceChildren(element("b", `${found.length} ${found.length === 1 ? "grant" : "grants"}`), `${all ? "" : ` of ${grants.length}`}: ${percent(share)} of the budget `);
      if (!all) {
        const button = element("button", "Clear filters", "", { type: "button" });
        button.addEventListener("click", () => { clear(); $("#q")?.focus(); });
        sum.append(button);
      }
    }
    const foot = byId("foot");
    foot.replaceChildren();
    if (found.length > limit) {
      const button = element("button", "Show 200 more", "", { type: "button" });
      button.addEventListener("click", () => { limit += 200; draw(); });
      foot.append(button, `${limit} of ${found.length} drawn. Search and sort use all of them.`);
    }
    heads.forEach((head, place) => head.setAttribute("aria-sort", place !== sort.column ? "none" : sort.down ? "descending" : "ascending"));
    dots(all);
  }

  // Marks of what is not chosen fade; where there are too many for marks, the chosen get theirs.
  function dots(all) {
    const group = byId("dots");
    if (!group) return;
    for (const extra of $$(".extra", group)) extra.remove();
    const names = new Set(found.map((one) => one[NAME]));
    const there = new Set();
    for (const dot of $$(".dot", group)) {
      there.add(dot.dataset.grant);
      dot.classList.toggle("dim", !all && !names.has(dot.dataset.grant));
    }
    if (all || found.length > 150) return;
    for (const one of found) {
      if (!one[SPOT] || there.has(one[NAME])) continue;
      group.append(drawn("circle", { class: `extra ring k${one[HUE]}`, cx: `${one[SPOT][0]}%`, cy: one[SPOT][1], r: 5 },
        drawn("title", {}, `${one[CELLS][0]}: ${one[CELLS][2]}`)));
    }
  }

  function clear() {
    for (const field of $$(".tools[role=search] input, .tools[role=search] select")) field.value = "";
    limit = 100;
    zoom("");
  }

  // To the row of a grant, opened.
  function follow(name) {
    clear();
    const place = found.findIndex((one) => one[NAME] === name);
    if (place < 0) return;
    if (place >= limit) {
      limit = place + 1;
      draw();
    }
    const button = $$("#grants tbody tr[data-grant]")[place].querySelector(".open");
    if (button.getAttribute("aria-expanded") === "false") button.click();
    button.focus();
    button.scrollIntoView({ block: "center" });
  }

  // ---- the icicle: cells lie in percent, so that a zoom moves and scales them and draws nothing

  const shown = (cell) => cell.getAttribute("display") !== "none";

  function place(cell, x, width) {
    cell.setAttribute("x", `${x}%`);
    cell.setAttribute("width", `${Math.max(0, width)}%`);
    if (width >= 0.35 && x > -0.01 && x < 99.99) cell.removeAttribute("display");
    else cell.setAttribute("display", "none");
  }

  function zoom(to, focus) {
    path = to;
    limit = 100;
    const origin = byPath.get(path) || byPath.get("");
    if (origin) {
      const [start, whole] = [Number(origin.dataset.x), Number(origin.dataset.w)];
      const at = (cell) => [(100 * (cell.dataset.x - start)) / whole, (100 * cell.dataset.w) / whole];
      const ends = new Map();
      for (const cell of cells) {
        const own = cell.dataset.path;
        if (cell.dataset.of) continue;
        if (own === "" || own === path || path.startsWith(`${own}/`)) place(cell, 0, 100);
        else place(cell, ...at(cell));
        cell.setAttribute("aria-pressed", String(own !== "" && (own === path || path.startsWith(`${own}/`))));
        if (!shown(cell) || own === "") continue;
        const parent = own.includes("/") ? own.slice(0, own.lastIndexOf("/")) : "";
        const [x, width] = at(cell);
        const [end, many] = ends.get(parent) || [-1, 0];
        ends.set(parent, [Math.max(end, x + width), many + 1]);
      }
      for (const cell of cells) {
        if (!cell.dataset.of) continue;
        const parent = cell.dataset.path.includes("/") ? cell.dataset.path.slice(0, cell.dataset.path.lastIndexOf("/")) : "";
        const above = byPath.get(parent);
        const [x, width] = at(above);
        const [end, many] = ends.get(parent) || [x, 0];
        const inside = parent === "" || parent === path || parent.startsWith(`${path}/`) || path === "";
        place(cell, end, inside && many < cell.dataset.of ? x + width - end : 0);
        $("p", cell).dataset.name = `${cell.dataset.of - many} smaller`;
      }
      for (const cell of cells) cell.setAttribute("tabindex", -1);
      const home = byPath.get(path);
      if (home) home.setAttribute("tabindex", 0);
      if (focus && home) home.focus({ preventScroll: true });
      crumbs();
    }
    draw();
  }

  function crumbs() {
    const steps = path ? path.split("/") : [];
    const list = byId("crumbs");
    list.replaceChildren(...["", ...steps.map((_, place) => steps.slice(0, place + 1).join("/"))].map((one, depth) => {
      const text = depth === 0 ? "All grants" : $("p", byPath.get(one)).dataset.name;
      const button = element("button", text, "", { type: "button", ...(one === path ? { "aria-current": "true" } : {}) });
      button.addEventListener("click", () => zoom(one));
      const item = element("li");
      item.append(button);
      return item;
    }));
  }

  function walk(event) {
    const cell = event.target.closest(".cell");
    if (!cell) return;
    const level = (one) => Number(one.getAttribute("y"));
    const left = (one) => Number.parseFloat(one.getAttribute("x"));
    const open = cells.filter((one) => shown(one) && !one.dataset.of);
    const row = open.filter((one) => level(one) === level(cell)).sort((a, b) => left(a) - left(b));
    const here = row.indexOf(cell);
    const own = cell.dataset.path;
    const moves = {
      ArrowRight: () => row[here + 1],
      ArrowLeft: () => row[here - 1],
      Home: () => row[0],
      End: () => row[row.length - 1],
      ArrowUp: () => (own === "" ? undefined : byPath.get(own.includes("/") ? own.slice(0, own.lastIndexOf("/")) : "")),
      ArrowDown: () => open.filter((one) => level(one) === level(cell) + 34 && (own === "" || one.dataset.path.startsWith(`${own}/`)))[0],
    };
    if (event.key === "Escape") zoom("", true);
    else if (event.key === "Enter" || event.key === " ") select(cell);
    else if (moves[event.key]) {
      const to = moves[event.key]();
      if (to) {
        for (const one of cells) one.setAttribute("tabindex", -1);
        to.setAttribute("tabindex", 0);
        to.focus();
      }
    } else return;
    event.preventDefault();
  }

  // The selected block leads one step up.
  function select(cell) {
    const own = cell.dataset.path;
    if (cell.dataset.of) return;
    zoom(own && own === path ? own.split("/").slice(0, -1).join("/") : own, true);
  }

  // ---- single records

  const vectors = new Map();

  // High bytes, then low bytes.
  async function vector(text) {
    if (!vectors.has(text)) vectors.set(text, await inflated(text));
    return vectors.get(text);
  }

  async function lines(one, row) {
    const known = one.top.find((top) => top[0] === row);
    if (known) return { total: known[1], step: 0, parts: known[2] };
    if (one.total) {
      const bytes = await vector(one.total);
      const step = one.cap / one.levels;
      return { total: (bytes[row] * 256 + bytes[one.records + row]) * step, step, parts: null };
    }
    if (!one.sources.length || !one.sources[0][4]) return null;
    let total = one.alike;
    let step = 0;
    const parts = [];
    for (const [at, [, cap, , length, spent, took]] of one.sources.entries()) {
      if (row >= length) {
        parts.push([at, 0, -1]);
        continue;
      }
      const [amounts, rounds] = [await vector(spent), await vector(took)];
      const amount = (amounts[row] * 256 + amounts[length + row]) * cap / one.levels;
      parts.push([at, amount, rounds[row] * 256 + rounds[length + row]]);
      total += amount;
      step += cap / one.levels;
    }
    return { total, step, parts };
  }

  async function answer(which, row) {
    const one = people[which];
    const box = byId(`answer${which}`);
    if (!Number.isInteger(row) || row < 0 || row >= one.records) {
      box.replaceChildren(element("p", `There is no ${one.who} at that position.`));
      return;
    }
    const name = `${one.who === "person" ? "Person" : "Record"} ${row}`;
    const said = await lines(one, row);
    if (!said) {
      box.replaceChildren(element("p", `${name} is not in this page: run privledger record LEDGER ${row}, or make the page with --include-records.`));
      return;
    }
    const rounded = said.step ? ` (rounded up to steps of ${number(said.step)})` : "";
    const parts = [element("p", `${name} of ${one.data} spent ${number(said.total)} ${book.unit}, ${percent(one.cap ? said.total / one.cap : 0)} of at most ${number(one.cap)}${rounded}. CONFIDENTIAL.`)];
    parts.push(said.parts ? sources(one, row, said.parts) : element("p", `On what is not in this page, because too many grants counted: run privledger record LEDGER ${row}.`));
    if (one.alikeGrants) parts.push(element("p", `Of it, ${number(one.alike)} ${book.unit} is from grants that charge every ${one.who} the same.`));
    box.replaceChildren(...parts);
  }

  function sources(one, row, parts) {
    const made = element("table");
    made.append(element("caption", `On what ${one.who} ${row} spent it`));
    const head = element("tr");
    for (const [name, kind] of [["Grant", ""], [book.unit, "r"], ["Of its cap", "r"], ["Rounds", "r"]]) head.append(element("th", name, kind, { scope: "col" }));
    const top = element("thead");
    top.append(head);
    const body = element("tbody");
    for (const [at, amount, rounds] of parts) {
      const [grant, cap, many] = one.sources[at];
      const entry = grants[grant];
      const name = element("td");
      const button = element("button", entry ? `${entry[CELLS][2]}, ${entry[CELLS][0]}` : "a grant", "link", { type: "button" });
      if (entry) button.addEventListener("click", () => follow(entry[NAME]));
      name.append(button);
      const line = element("tr");
      line.append(name, element("td", number(amount), "r"), element("td", percent(cap ? amount / cap : 0), "r"),
        element("td", rounds < 0 ? "not in the table yet" : `${rounds} of ${many}`, "r"));
      body.append(line);
    }
    made.append(top, body);
    const box = element("div", undefined, "scroll", { role: "region", tabindex: 0, "aria-label": `Sources of ${one.who} ${row}` });
    box.append(made);
    return box;
  }

  // As privledger spells ids (docs/people.md), but for rare letters: those are not found here.
  function spelled(id) {
    let text = id;
    for (let turn = 0; turn < 2; turn += 1) {
      text = text.replace(/\ufeff/gu, "").normalize("NFKD").toUpperCase().toLowerCase().normalize("NFKC")
        .replace(/[\s\x1c-\x1f\x85\u2800]/gu, " ")
        .replace(/[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, "")
        .replace(/[\u058a\u2010-\u2015\u2212\u2e3a\u2e3b]/gu, "-")
        .replace(/[\u02b9\u02bb\u02bc\u2018-\u201b\u2032]/gu, "'")
        .replace(/\u03c2/gu, "\u03c3").replace(/i\u0307|\u0131/gu, "i");
    }
    text = text.split(" ").filter(Boolean).join(" ");
    const whole = /^([+-]?)0*([0-9]+)(?:\.0*)?$/.exec(text);
    if (!whole) return text;
    return whole[1] === "-" && whole[2] !== "0" ? `-${whole[2]}` : whole[2];
  }

  // The key and the id stay in this function: what is compared is a digest.
  async function placeOf(one, id, key) {
    const bytes = Uint8Array.from(key.trim().match(/../g), (pair) => Number.parseInt(pair, 16));
    const made = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    const said = new TextEncoder().encode(`privledger person 1:${spelled(id)}`);
    const mark = String.fromCharCode(...new Uint8Array(await crypto.subtle.sign("HMAC", made, said)).slice(0, 16));
    const held = atob(one.digests);
    for (let at = held.indexOf(mark); at >= 0; at = held.indexOf(mark, at + 1)) {
      if (at % 16 === 0) return at / 16;
    }
    return -1;
  }

  async function search(which, id, key) {
    const box = byId(`answer${which}`);
    if (!/^[0-9a-f]{64}$/.test(key.trim())) {
      box.replaceChildren(element("p", "That is no key: a key has 64 letters and digits."));
      return;
    }
    const at = await placeOf(people[which], id, key);
    if (at < 0) box.replaceChildren(element("p", "No person here has that id under that key. privledger record LEDGER --person ID --people-key FILE asks the ledger itself."));
    else answer(which, at);
  }

  // ---- folds and words

  function unfold() {
    const to = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
    for (let node = to; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    if (to) to.scrollIntoView();
  }

  function explain() {
    const tip = element("div", "", "", { id: "tip", role: "tooltip", hidden: "" });
    document.body.append(tip);
    for (const word of $$("a.term")) {
      const said = byId(`${word.hash.slice(1)}-d`);
      word.setAttribute("aria-describedby", said.id);
      const tell = () => {
        tip.textContent = said.textContent;
        tip.hidden = false;
        const box = word.getBoundingClientRect();
        tip.style.left = `${Math.max(12, Math.min(box.left, innerWidth - 312)) + scrollX}px`;
        tip.style.top = `${box.bottom + scrollY + 6}px`;
      };
      for (const [on, off] of [["mouseenter", "mouseleave"], ["focus", "blur"]]) {
        word.addEventListener(on, tell);
        word.addEventListener(off, () => { tip.hidden = true; });
      }
    }
    addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
  }

  // ---- start

  if (grants.length) {
    heads.forEach((head, column) => {
      const button = element("button", columns[column].name, "", { type: "button" });
      head.replaceChildren(button, element("span", columns[column].name, "on-paper"));
      button.addEventListener("click", () => {
        sort = { column, down: sort.column === column ? !sort.down : columns[column].key >= 0 };
        draw();
      });
    });
    for (const select of $$(".tools select")) {
      const texts = [...new Set(grants.map((one) => one[CELLS][Number(select.dataset.column)]))].sort();
      select.append(...texts.map((text) => element("option", text)));
      select.addEventListener("change", () => { limit = 100; draw(); });
    }
    let typed;
    $("#q")?.addEventListener("input", () => {
      clearTimeout(typed);
      typed = setTimeout(() => { limit = 100; draw(); }, 90);
    });
    $("svg.cells")?.addEventListener("keydown", walk);
    $("svg.cells")?.addEventListener("click", (event) => {
      const cell = event.target.closest(".cell");
      if (cell) select(cell);
    });
    if (byId("crumbs")) crumbs();
    draw();
  }
  for (const form of $$("form.tools")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const fields = $$("input", form);
      const which = Number(form.dataset.people);
      if (form.classList.contains("person")) search(which, fields[0].value, fields[1].value);
      else if (form.classList.contains("record")) answer(which, fields[0].valueAsNumber);
    });
  }
  for (const button of $$("button[data-row]")) {
    button.addEventListener("click", () => answer(Number(button.dataset.people), Number(button.dataset.row)));
  }
  for (const button of $$("button[data-go]")) button.addEventListener("click", () => follow(button.dataset.go));
  explain();
  unfold();
  addEventListener("hashchange", unfold);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) unfold();
  });
  let shut = [];
  addEventListener("beforeprint", () => {
    for (const one of $$("details:not([open])")) {
      shut.push(one);
      one.open = true;
    }
    if (grants.length > limit) {
      limit = Math.max(limit, 500);
      draw();
    }
  });
  addEventListener("afterprint", () => {
    for (const one of shut) one.open = false;
    shut = [];
  });
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
