"use strict";
// The tree and the answers about single records. Every text is put in by textContent: labels in a
// ledger are only ever texts. Nothing is loaded and nothing leaves the page.
(() => {
  const byId = (id) => document.getElementById(id);
  const people = JSON.parse(byId("people").textContent);
  const vectors = new Map();
  let book = null;
  let grants = null;

  function element(tag, text, kind) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  async function inflated(text) {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // High bytes, then low bytes.
  async function vector(text) {
    if (!vectors.has(text)) vectors.set(text, await inflated(text));
    return vectors.get(text);
  }

  // Rounded up, as everywhere: a reader never sees less than was spent.
  function upward(value, digits) {
    const [lead, power] = value.toExponential(digits - 1).split("e");
    if (Number(`${lead}e${power}`) >= value) return Number(`${lead}e${power}`);
    const whole = Number(lead.replace(".", "")) + 1;
    return Number(`${whole}e${Number(power) - digits + 1}`);
  }

  function number(value) {
    if (value === null || value === undefined) return "no price of its own";
    return typeof value === "string" ? value : String(upward(value, 4));
  }

  function percent(share) {
    const value = 100 * share;
    if (value < 1 && value !== 0) return `${upward(value, 2)} %`;
    const nearest = value.toFixed(1);
    return `${Number(nearest) / 100 >= share ? nearest : ((Math.round(value * 10) + 1) / 10).toFixed(1)} %`;
  }

  function facts(pairs) {
    const list = element("dl", undefined, "facts");
    for (const [name, value] of pairs) {
      if (value === "" || value === null) continue;
      list.append(element("dt", name));
      const held = element("dd");
      held.append(value);
      list.append(held);
    }
    return list;
  }

  // A part that is filled when it is opened for the first time.
  function lazy(title, more, fill) {
    const details = element("details");
    const summary = element("summary", title + (more ? " " : ""));
    if (more) summary.append(element("span", more, "soft"));
    details.append(summary);
    let filled = false;
    const held = {
      details,
      item: () => null,
      open() {
        details.open = true;
        held.ready();
      },
      ready() {
        if (filled) return;
        filled = true;
        fill(details, held);
      },
    };
    details.addEventListener("toggle", () => { if (details.open) held.ready(); });
    return held;
  }

  // A list; a long one in pieces.
  function listing(length, make, word) {
    const list = element("ul");
    const items = new Map();
    const pieces = [];
    const size = Math.max(100, Math.ceil(Math.sqrt(length)));
    function put(parent, place) {
      const held = make(place);
      const item = element("li");
      item.append(held.details);
      items.set(place, held);
      parent.append(item);
    }
    if (length <= size) {
      for (let place = 0; place < length; place++) put(list, place);
    } else {
      for (let start = 0; start < length; start += size) {
        const end = Math.min(length, start + size);
        const piece = lazy(`${word} ${start + 1} to ${end}`, "", (details) => {
          const inner = element("ul");
          for (let place = start; place < end; place++) put(inner, place);
          details.append(inner);
        });
        pieces.push(piece);
        const item = element("li");
        item.append(piece.details);
        list.append(item);
      }
    }
    return {
      list,
      item(place) {
        if (pieces.length) pieces[Math.floor(place / size)].open();
        return items.get(place);
      },
    };
  }

  function node(row, many, times, charge) {
    const [kind, parameters, below, repeats, amount, epsilon, other, size] = book.nodes[row];
    const words = book.words;
    const title = (many > 1 ? `${many} × ` : "") + words[kind];
    const cost = epsilon === null ? "" : ` · epsilon ${number(epsilon)}`;
    return lazy(title, `${words[parameters]}${cost}`, (details, held) => {
      details.append(facts([
        ["parameters", words[parameters] || "none of its own"],
        ["runs in this plan", times > 1 ? `${times} times` : "once"],
        ["cost of one run", amount === null ? "no price of its own" : `${number(amount)} ${book.unit}`],
        ["epsilon by itself", epsilon === null ? "" : `${number(epsilon)} at delta ${book.at}, ${book.relation}`],
        ["under replace_one", book.relation !== "add_remove" ? ""
          : other === null ? "no price" : `epsilon ${number(other)} at delta ${book.at}`],
        ["asked by", `${words[charge[2]] || "(no name)"}, ${charge[0]}`],
        ["nodes below", size > 1 ? String(size - 1) : ""],
      ]));
      if (!below.length) return;
      const made = listing(below.length / 2, (place) =>
        node(below[2 * place], below[2 * place + 1], times * repeats * below[2 * place + 1], charge), "members");
      held.item = made.item;
      details.append(made.list);
    });
  }

  function charge(place) {
    const one = book.charges[place];
    const words = book.words;
    const [name, position, learner, data, time, status, note, isolation, share, epsilon, row, releases, asked, drew, lines] = one;
    const who = [words[learner], words[data] && `on ${words[data]}`].filter(Boolean).join(" ");
    return lazy(name, `${who} · epsilon ${number(epsilon)} · ${words[status]}`, (details, held) => {
      let from = "";
      if (drew >= 0) {
        from = element("button", `paid for by ${book.charges[drew][0]}`, "link");
        from.type = "button";
        from.addEventListener("click", () => follow(String(drew)));
      }
      details.append(facts([
        ["request", [position < 0 ? "" : `entry ${position}`, time, words[asked]].filter(Boolean).join("; ")],
        ["asked by", words[learner] || (words[status] === "scope" ? "" : "(no name)")],
        ["data set", words[data]],
        ["charged", drew >= 0 ? from : `${percent(share)} of the budget; epsilon ${number(epsilon)} by itself at delta ${book.at}`],
        ["status", words[status] + (words[note] ? ": " + words[note] : "")],
        ["isolation", words[isolation]],
        ["released", releases ? `${releases} answer${releases === 1 ? "" : "s"}` : ""],
      ]));
      if (lines.length) {
        const table = element("table");
        const wide = element("div", undefined, "scroll");
        wide.tabIndex = 0;
        wide.setAttribute("role", "region");
        wide.setAttribute("aria-label", `Released under ${name}`);
        wide.append(table);
        table.append(element("caption", "Released"));
        for (const [mechanism, question, count, cells, asserted] of lines) {
          const line = element("tr");
          line.append(element("td", `${count} ×`, "n"), element("td", words[mechanism]),
            element("td", words[question] + (cells > 1 ? `, ${cells} cells` : "") + (asserted ? " (unverified claim)" : "")));
          table.append(line);
        }
        details.append(wide);
      }
      const made = listing(1, () => node(row, 1, 1, one), "plan");
      held.item = made.item;
      details.append(made.list);
    });
  }

  function show(places) {
    const made = listing(places.length, (place) => charge(places[place]), "grants");
    made.list.className = "tree";
    const where = new Map(places.map((place, at) => [place, at]));
    grants = { item: (place) => (where.has(place) ? made.item(where.get(place)) : null) };
    byId("tree").replaceChildren(made.list);
  }

  function all() {
    return book.charges.map((_, place) => place);
  }

  // Open everything on the way to a node; a path is a grant and then members, "3/0/1".
  function follow(path) {
    const steps = path.split("/").map(Number);
    let held = grants.item(steps[0]);
    if (!held) {
      show(all());
      byId("word").value = "";
      held = grants.item(steps[0]);
    }
    held.open();
    if (steps.length > 1) {
      held = held.item(0);
      held.open();
      for (const step of steps.slice(1)) {
        held = held.item(step);
        held.open();
      }
    } else if (held.item(0)) {
      held.item(0).open();
    }
    for (const old of document.querySelectorAll("summary.found")) old.classList.remove("found");
    const summary = held.details.querySelector("summary");
    summary.classList.add("found");
    summary.focus();
    summary.scrollIntoView({ block: "center" });
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
    for (const [place, [, cap, , length, spent, took]] of one.sources.entries()) {
      if (row >= length) {
        parts.push([place, 0, -1]);
        continue;
      }
      const [amounts, rounds] = [await vector(spent), await vector(took)];
      const amount = (amounts[row] * 256 + amounts[length + row]) * cap / one.levels;
      parts.push([place, amount, rounds[row] * 256 + rounds[length + row]]);
      total += amount;
      step += cap / one.levels;
    }
    return { total, step, parts };
  }

  async function answer(which, row) {
    const one = people[which];
    const place = byId(`answer${which}`);
    if (!Number.isInteger(row) || row < 0 || row >= one.records) {
      place.replaceChildren(element("p", `There is no ${one.who} at that position.`));
      return;
    }
    const name = `${one.who === "person" ? "Person" : "Record"} ${row}`;
    const found = await lines(one, row);
    if (!found) {
      place.replaceChildren(element("p", `${name} is not in this page: run privledger record LEDGER ${row}, or make the page with --include-records.`));
      return;
    }
    const box = element("div", undefined, "scroll");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", name);
    const rounded = found.step ? ` (rounded up to steps of ${number(found.step)})` : "";
    box.append(element("p", `${name} of ${one.data} spent ${number(found.total)} ${book.unit}, ${percent(one.cap ? found.total / one.cap : 0)} of at most ${number(one.cap)}${rounded}. CONFIDENTIAL.`));
    if (found.parts === null) {
      box.append(element("p", `On what is not in this page, because too many grants counted: run privledger record LEDGER ${row}.`));
    } else {
      box.append(table(one, row, found.parts));
    }
    if (one.alikeGrants) {
      box.append(element("p", `Among it ${number(one.alike)} ${book.unit} from ${one.alikeGrants} grant${one.alikeGrants === 1 ? " that charges" : "s that charge"} every ${one.who} alike.`));
    }
    place.replaceChildren(box);
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
    const place = byId(`answer${which}`);
    if (!/^[0-9a-f]{64}$/.test(key.trim())) {
      place.replaceChildren(element("p", "That is no key: 64 letters and digits are."));
      return;
    }
    const found = await placeOf(people[which], id, key);
    if (found < 0) {
      place.replaceChildren(element("p", "Nobody here has that id under that key. privledger record LEDGER --person ID --people-key FILE asks the ledger itself."));
      return;
    }
    answer(which, found);
  }

  function table(one, row, parts) {
    const made = element("table");
    made.append(element("caption", `On what ${one.who} ${row} spent it`));
    const head = element("tr");
    for (const [name, kind] of [["grant", ""], ["asked by", ""], ["when", ""], [book.unit, "n"], ["of its cap", "n"], ["rounds", "n"]]) {
      const cell = element("th", name, kind);
      cell.scope = "col";
      head.append(cell);
    }
    const top = element("thead");
    top.append(head);
    const body = element("tbody");
    for (const [place, amount, rounds] of parts) {
      const [grant, cap, most] = one.sources[place];
      const entry = book.charges[grant];
      const line = element("tr");
      const name = element("td");
      const button = element("button", entry[0], "link");
      button.type = "button";
      button.addEventListener("click", () => follow(String(grant)));
      name.append(button);
      line.append(name, element("td", book.words[entry[2]]), element("td", entry[4], "t"),
        element("td", number(amount), "n"), element("td", percent(cap ? amount / cap : 0), "n"),
        element("td", rounds < 0 ? "not in the table yet" : `${rounds} of ${most}`, "n"));
      body.append(line);
    }
    made.append(top, body);
    return made;
  }

  function find(event) {
    event.preventDefault();
    const word = byId("word").value.trim().toLowerCase();
    const places = all().filter((place) => {
      const one = book.charges[place];
      return !word || [one[0], book.words[one[2]], book.words[one[3]], book.words[one[5]]]
        .some((text) => text.toLowerCase().includes(word));
    });
    byId("hits").textContent = word ? `${places.length} of ${book.charges.length}` : "";
    show(places);
  }

  async function start() {
    const held = JSON.parse(byId("nodes").textContent);
    book = held.deflated ? JSON.parse(new TextDecoder().decode(await inflated(held.deflated))) : held;
    if (byId("tree")) {
      show(all());
      byId("find").addEventListener("submit", find);
      for (const box of document.querySelectorAll("[data-path]")) {
        box.addEventListener("click", () => follow(box.dataset.path));
      }
    }
    for (const button of document.querySelectorAll("button[data-go]")) {
      button.addEventListener("click", () => follow(button.dataset.go));
    }
    for (const form of document.querySelectorAll("form.person")) {
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        const [id, key] = form.querySelectorAll("input");
        search(Number(form.dataset.people), id.value, key.value);
      });
    }
    for (const form of document.querySelectorAll("form.record:not(.person)")) {
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        answer(Number(form.dataset.people), form.querySelector("input").valueAsNumber);
      });
    }
    for (const button of document.querySelectorAll("button[data-row]")) {
      button.addEventListener("click", () => answer(Number(button.dataset.people), Number(button.dataset.row)));
    }
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  }

  start();
})();
