"use strict";
(() => {
  // Texts of models, judges and corpora go into the page as text nodes only: nothing here parses HTML.
  const ROW = 72; // height of a task in the list, in pixels; as in the style
  const KEPT = 24; // unpacked blocks that stay in memory
  const FIELDS = ["id", "conversation", "turn", "domain", "answerability", "types", "multi", "question", "target", "references", "history"];
  const QUIET = new Set(["no statements", "not asked"]); // outcomes without a verdict that are no failure
  const root = document.documentElement;
  const at = (id) => document.getElementById(id);
  const form = at("choice").elements;

  function make(name, className, ...children) {
    const element = document.createElement(name);
    if (className) element.className = className;
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  // --- blocks -----------------------------------------------------------------------------------------------------
  const cache = new Map();

  const waiting = new Map(); // blocks whose file is being loaded -> functions that wait for them
  window.ragtasksBlock = (id, text) => waiting.get(id)?.(text);

  function textOf(id) {
    const held = at(`block-${id}`);
    if (held) return held.textContent;
    return new Promise((take, fail) => {
      const script = make("script");
      waiting.set(id, take);
      script.addEventListener("load", () => script.remove());
      script.addEventListener("error", () => {
        at("lost").hidden = false;
        fail(new Error(`no ${script.src}`));
      });
      script.src = `${root.dataset.files}${id}.js`;
      document.head.append(script);
    });
  }

  async function unpack(id) {
    const packed = atob(await textOf(id));
    waiting.delete(id);
    const bytes = new Uint8Array(packed.length);
    for (let place = 0; place < packed.length; place += 1) bytes[place] = packed.charCodeAt(place);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function block(id) {
    const found = cache.get(id) ?? unpack(id);
    cache.delete(id);
    cache.set(id, found);
    if (cache.size > KEPT) cache.delete(cache.keys().next().value);
    return found;
  }

  // --- theme and views --------------------------------------------------------------------------------------------
  const THEMES = ["system", "light", "dark"];

  function setTheme(theme) {
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    at("theme").textContent = `Theme: ${theme}`;
    try { localStorage.setItem("ragtasks-theme", theme); } catch { /* a page without storage forgets the choice */ }
  }

  function storedTheme() {
    try { return localStorage.getItem("ragtasks-theme") ?? "system"; } catch { return "system"; }
  }

  at("theme").addEventListener("click", () => {
    setTheme(THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length]);
  });

  function setView(name) {
    for (const view of document.querySelectorAll(".view")) view.classList.toggle("now", view.id === name);
    for (const tab of tabs) {
      const isNow = tab.hash === `#view=${name}`;
      tab.setAttribute("aria-selected", String(isNow));
      tab.tabIndex = isNow ? 0 : -1;
    }
  }

  // Without this script the tabs are links, and every view is visible.
  const tabs = [...document.querySelectorAll("#tabs a")];
  at("tabs").setAttribute("role", "tablist");
  at("tabs").setAttribute("aria-label", "Parts of the report");
  for (const tab of tabs) {
    const view = at(tab.hash.slice("#view=".length));
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", view.id);
    view.setAttribute("role", "tabpanel");
    view.removeAttribute("aria-label");
    view.setAttribute("aria-labelledby", tab.id);
  }

  at("tabs").addEventListener("keydown", (event) => {
    const place = tabs.indexOf(document.activeElement);
    const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: -1 }[event.key];
    if (place < 0 || next === undefined) return;
    event.preventDefault();
    const tab = tabs.at(next % tabs.length);
    tab.focus();
    tab.click();
  });

  // --- tables that sort -------------------------------------------------------------------------------------------
  function sortKey(cell) {
    if (cell.dataset.value === undefined) return cell.textContent.trim();
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  }

  function compareKeys(left, right) {
    if (typeof left === "number" && typeof right === "number") return left - right;
    return String(left).localeCompare(String(right), "en", { numeric: true });
  }

  function sortTable(head) {
    const column = head.cellIndex;
    const body = head.closest("table").tBodies[0];
    const isNumber = [...body.rows].some((row) => row.cells[column].dataset.value !== undefined);
    const before = head.getAttribute("aria-sort");
    const sign = before === "none" ? (isNumber ? -1 : 1) : before === "ascending" ? -1 : 1;
    for (const other of head.parentNode.cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    const keyed = [...body.rows].map((row) => [sortKey(row.cells[column]), row]);
    keyed.sort(([left], [right]) => {
      if (left === null || right === null) return (left === null) - (right === null); // no value: always last
      return sign * compareKeys(left, right);
    });
    body.append(...keyed.map(([, row]) => row));
  }

  for (const head of document.querySelectorAll("thead th")) {
    const cells = [...head.closest("table").tBodies[0].rows].map((row) => row.cells[head.cellIndex]);
    head.classList.toggle("number", cells.some((cell) => cell.dataset.value !== undefined));
    head.firstElementChild.addEventListener("click", () => sortTable(head));
  }

  // --- current state ----------------------------------------------------------------------------------------------
  let book = null; // description of the blocks
  let parts = []; // all parts, under labels that distinguish their models
  let part = null; // the part whose tasks are listed, with its columns and tasks
  let rival = null; // the part for comparison
  let visible = []; // indices of tasks that pass the filters, in order
  let chosen = -1; // index of the current task
  let latest = 0; // number of the newest request: slower ones before it are dropped

  function options(select, pairs, keep) {
    select.replaceChildren(...pairs.map(([value, text]) => new Option(text, value)));
    select.value = keep;
    if (select.selectedIndex < 0) select.selectedIndex = 0;
  }

  const distinct = (values) => [...new Set(values)];
  const partNamed = (model, setting) => parts.find((item) => item.label === model && item.setting === setting);

  async function loadPart(item) {
    const [scores, tasks] = await Promise.all([block(item.scores), block(book.benchmarks[item.benchmark].tasks)]);
    const own = scores.task.map((place) => Object.fromEntries(FIELDS.map((field, column) => [field, tasks[place][column]])));
    const haystack = own.map((task, place) => `${task.id}\n${task.question}\n${scores.answer[place]}`.toLowerCase());
    const placeOf = new Map(own.map((task, place) => [task.id, place]));
    return { ...item, ...scores, id: item.scores, metrics: Object.keys(scores.values), tasks: own, haystack, placeOf };
  }

  // --- flags and comments: kept by this browser for these results, exported as a file ---------------------------------
  let notes = {}; // model, setting and task -> flag and comment
  const noteKey = (item, id) => JSON.stringify([item.label, item.setting, id]);
  const noteOf = (item, id) => notes[noteKey(item, id)] ?? { flag: false, comment: "" };

  function loadNotes() {
    try { notes = JSON.parse(localStorage.getItem(`ragtasks-notes-${book.id}`)) ?? {}; } catch { notes = {}; }
    at("export").textContent = `Export notes (${Object.keys(notes).length})`;
  }

  function keepNote(item, id, change) {
    const note = { ...noteOf(item, id), ...change };
    if (note.flag || note.comment) notes[noteKey(item, id)] = note;
    else delete notes[noteKey(item, id)];
    try { localStorage.setItem(`ragtasks-notes-${book.id}`, JSON.stringify(notes)); } catch { /* kept until the page is closed */ }
    at("export").textContent = `Export notes (${Object.keys(notes).length})`;
    drawList();
  }

  function noteForm(item, task) {
    const note = noteOf(item, task.id);
    const flag = Object.assign(make("input", ""), { type: "checkbox", checked: note.flag });
    const comment = Object.assign(make("textarea", ""), { value: note.comment, rows: 1, placeholder: "Comment" });
    comment.setAttribute("aria-label", `Comment on the answer of ${item.label}`);
    flag.addEventListener("input", () => keepNote(item, task.id, { flag: flag.checked }));
    comment.addEventListener("input", () => keepNote(item, task.id, { comment: comment.value }));
    return make("div", "notes", make("label", "", flag, "Flag"), comment);
  }

  function exportNotes() {
    const lines = Object.entries(notes).map(([key, note]) => {
      const [model, setting, id] = JSON.parse(key);
      return `${JSON.stringify({ task_id: id, model, setting, ...note })}\n`;
    });
    const link = Object.assign(make("a", ""), { href: URL.createObjectURL(new Blob(lines, { type: "application/jsonl" })), download: "notes.jsonl" });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  at("export").addEventListener("click", exportNotes);

  // --- filters ----------------------------------------------------------------------------------------------------
  const FILTERS = {
    failure: (place) => book.failures.filter((_, bit) => part.failures[place] & (1 << bit)).map((item) => item.name),
    answerability: (place) => [part.tasks[place].answerability],
    domain: (place) => [part.tasks[place].domain],
    turn: (place) => [part.tasks[place].turn === 1 ? "first" : "later", String(part.tasks[place].turn)],
    type: (place) => part.tasks[place].types,
    multi: (place) => [part.tasks[place].multi],
  };

  function fillFilters() {
    part.labels = {};
    for (const [name, labelsAt] of Object.entries(FILTERS)) {
      const all = part.tasks.map((_, place) => labelsAt(place));
      part.labels[name] = all.map((own) => new Set(own));
      const counts = new Map();
      for (const label of all.flat()) counts.set(label, (counts.get(label) ?? 0) + 1);
      const order = name === "failure" ? book.failures.map((item) => item.name) : [...counts.keys()].sort(compareKeys);
      const pairs = order.filter((label) => counts.has(label)).map((label) => [label, `${label} (${counts.get(label)})`]);
      if (name === "failure") pairs.unshift(["any", `any (${part.failures.filter(Boolean).length})`]);
      options(form[name], [["", "all"], ...pairs], form[name].value);
    }
    const orders = part.metrics.flatMap((name) => [[`${name} up`, `${name}, lowest first`], [`${name} down`, `${name}, highest first`]]);
    options(form.order, [["", "as evaluated"], ...orders], form.order.value);
  }

  function passes(place, words, active) {
    if (!words.every((word) => part.haystack[place].includes(word))) return false;
    return active.every(([name, value]) => {
      if (name === "failure" && value === "any") return part.failures[place] !== 0;
      return part.labels[name][place].has(value);
    });
  }

  function inOrder(places) {
    const [metric, direction] = form.order.value.split(" ");
    if (!metric) return places;
    const values = part.values[metric];
    const sign = direction === "up" ? 1 : -1;
    return places.sort((left, right) => {
      const [a, b] = [values[left], values[right]];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (a - b) || left - right;
    });
  }

  function wordsSearched() {
    return form.query.value.toLowerCase().split(/\s+/).filter(Boolean);
  }

  function filter() {
    const active = Object.keys(FILTERS).map((name) => [name, form[name].value]).filter(([, value]) => value);
    const kind = form.notes.value;
    const words = wordsSearched();
    visible = inOrder(part.tasks.map((_, place) => place).filter((place) => passes(place, words, active) && (!kind || noteOf(part, part.tasks[place].id)[kind])));
    at("count").textContent = `${visible.length} of ${part.tasks.length} tasks`;
    at("active").textContent = active.length || kind ? ` (${active.length + Boolean(kind)} active)` : "";
    at("list").scrollTop = 0;
    drawList();
  }

  // --- the list: only rows in sight are in the page ------------------------------------------------------------------
  function rowOf(place, index) {
    const task = part.tasks[place];
    const metric = form.order.value.split(" ")[0];
    const value = metric ? `${metric} ${figure(part.values[metric][place])}` : part.idk[place] === "yes" ? "refused" : "";
    const row = make(
      "div", "row",
      make("div", "question", noteOf(part, task.id).flag ? make("span", "flag", "⚑ ") : "", task.question),
      make("div", "under", make("span", "", `${task.domain} · turn ${task.turn} · ${task.answerability.toLowerCase()}`), make("b", "", value)),
      make("div", "errors", FILTERS.failure(place).join(" · ")),
    );
    row.style.top = `${index * ROW}px`;
    row.id = `task-${place}`;
    row.title = task.id;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(place === chosen));
    row.setAttribute("aria-setsize", String(visible.length));
    row.setAttribute("aria-posinset", String(index + 1));
    row.addEventListener("click", () => choose(place, true));
    return row;
  }

  function drawList() {
    const list = at("list");
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const end = Math.min(visible.length, first + Math.ceil(list.clientHeight / ROW) + 9);
    at("spacer").style.height = `${visible.length * ROW}px`;
    at("spacer").replaceChildren(...visible.slice(first, end).map((place, index) => rowOf(place, first + index)));
    if (visible.includes(chosen)) list.setAttribute("aria-activedescendant", `task-${chosen}`);
    else list.removeAttribute("aria-activedescendant");
  }

  function bringIntoSight() {
    const list = at("list");
    const top = visible.indexOf(chosen) * ROW;
    if (top < 0) return;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
  }

  function step(by) {
    if (!visible.length) return;
    const index = visible.indexOf(chosen);
    const next = index < 0 ? (by > 0 ? 0 : visible.length - 1) : Math.min(visible.length - 1, Math.max(0, index + by));
    choose(visible[next], false);
  }

  // From failure to failure; the search wraps around.
  function stepFailure(by) {
    const failed = visible.filter((place) => part.failures[place] !== 0);
    if (!failed.length) return;
    const index = visible.indexOf(chosen);
    const later = failed.filter((place) => by * (visible.indexOf(place) - index) > 0);
    choose(by > 0 ? (later[0] ?? failed[0]) : (later.at(-1) ?? failed.at(-1)), false);
  }

  function choose(place, byHand) {
    chosen = place;
    bringIntoSight();
    drawList();
    writeHash();
    showDetail(byHand);
  }

  // --- one task -----------------------------------------------------------------------------------------------------
  const figure = (value) => (value === null || value === undefined ? "–" : value.toFixed(3).replace(/^-(?=[0.]+$)/, ""));

  function marked(text) {
    const words = wordsSearched().filter((word) => word.length > 1).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    if (!words.length) return [text];
    return text.split(new RegExp(`(${words.join("|")})`, "i")).map((piece, index) => (index % 2 ? make("mark", "", piece) : piece));
  }

  // As `_code_parts` of the tables: text between backticks is code.
  const coded = (text) => text.split(/`([^`]+)`/).map((piece, index) => (index % 2 ? make("code", "", piece) : piece));

  function conversation(task, history) {
    const said = (role, text, extra) => make("div", `said ${role}${extra}`, make("b", "", role), ...marked(text));
    return [
      make("h3", "", "Conversation"),
      ...history.map(([role, text]) => said(role === "user" ? "user" : "assistant", text, "")),
      said("user", task.question, " asked"),
    ];
  }

  function sides(items, content) {
    const named = (item) => (items.length > 1 ? make("p", "quiet", item.label) : null);
    return make("div", "sides", ...items.map((item) => make("div", "", named(item), ...content(item))));
  }

  // Sentences of an answer with their sources. Positions count characters, as Python does, not UTF-16 units.
  const SOURCES = ["passage", "question", "conversation", "nothing"];
  const SAYS = { question: "repeats the question", conversation: "from the conversation", nothing: "not supported by any passage" };

  function supported(item, texts) {
    const points = Array.from(item.answer[item.place]);
    const rows = item.support[item.place] ?? [];
    if (!rows.length) return marked(item.answer[item.place]);
    const pieces = [];
    let end = 0;
    for (const row of rows) {
      pieces.push(...marked(points.slice(end, row[0]).join("")), sentenceOf(item, texts, points, row));
      [, end] = row;
    }
    return [...pieces, ...marked(points.slice(end).join(""))];
  }

  function sentenceOf(item, texts, points, [start, end, share, kind, best, nowhere, flipped]) {
    const source = share === null ? "none" : SOURCES[kind];
    const inside = [];
    let place = start;
    for (const [from, to] of nowhere) {
      inside.push(...marked(points.slice(place, from).join("")), make("u", "nowhere", ...marked(points.slice(from, to).join(""))));
      place = to;
    }
    inside.push(...marked(points.slice(place, end).join("")));
    if (share === null) return make("span", "", ...inside);
    const label = source === "passage" && best ? String(best[0] + 1) : { question: "q", conversation: "c", nothing: "–", passage: "p" }[source];
    const sentence = make("span", `held ${source}`, ...inside);
    sentence.dataset.source = label; // drawn by the style, so that a copied answer is the answer
    const says = `${source === "passage" ? `supported by passage ${best ? best[0] + 1 : ""}` : SAYS[source]} (${share} % of its words)`;
    const note = flipped ? `${says}; negated in one of the two: “${points.slice(...flipped).join("")}”` : says;
    sentence.tabIndex = 0;
    sentence.setAttribute("aria-label", `${points.slice(start, end).join("")} (${note})`);
    sentence.setAttribute("role", "note");
    const show = () => showSource(sentence, note, best === null ? null : [best, texts.passages[item.shown[item.place][best[0]]]]);
    for (const name of ["focus", "click", "mouseenter"]) sentence.addEventListener(name, show);
    return sentence;
  }

  // The excerpt of the passage is displayed under the selected sentence, with its context.
  function showSource(sentence, note, found) {
    const box = sentence.closest(".sides > div, .sides").querySelector(".source");
    for (const other of sentence.parentNode.querySelectorAll(".held.now")) other.classList.remove("now");
    sentence.classList.add("now");
    const parts = [make("b", "", note)];
    if (found) {
      const [[, from, to], [id, title, text]] = found;
      const points = Array.from(text);
      const around = (a, b) => points.slice(Math.max(0, a), Math.max(0, b)).join("");
      parts.push(
        make("p", "", from > 160 ? "… " : "", around(from - 160, from), make("mark", "", around(from, to)), around(to, to + 160), to + 160 < points.length ? " …" : ""),
      );
      if (from > 160 || !title || !text.startsWith(title)) parts.push(make("small", "", title || id));
    }
    box.replaceChildren(...parts);
  }

  function answers(task, items, texts) {
    const idk = (item) => {
      const verdict = item.idk[item.place];
      const says = { yes: "a refusal", partial: "a partial refusal", no: "no refusal" };
      return `${says[verdict] ?? "no verdict about refusal"}${item.idk_reason[item.place] ? ` (${item.idk_reason[item.place]})` : ""}`;
    };
    const text = (item) => (item.answer[item.place] ? supported(item, texts) : [make("i", "", "empty")]);
    return [
      make("h3", "", items.length > 1 ? "Answers" : "Answer"),
      sides(items, (item) => [
        make("div", "text answer", ...text(item)),
        item.support[item.place]?.length ? make("div", "source", make("span", "quiet", "The mark after a sentence is its source: the number of a passage, c for the conversation, – for no source. Underlined words are in no source. Tap, hover or focus a sentence to see its passage.")) : null,
        make("p", "quiet", idk(item)),
        ...failuresOf(item),
        item.why[item.place] ? make("p", "quiet", item.why[item.place]) : null,
        noteForm(item, task),
      ]),
      make("h3", "", "Reference answer"),
      make("div", "text target", task.target || make("i", "", "none")),
    ];
  }

  function failuresOf(item) {
    return book.failures.filter((_, bit) => item.failures[item.place] & (1 << bit)).map((failure) => {
      return make("p", "quiet failure", make("span", "badge warn", failure.name), ` ${failure.meaning}`);
    });
  }

  function tableOf(heads, rows) {
    const cellOf = (content, index) => make(index ? "td" : "th", index ? "number" : "", ...content);
    const head = make("tr", "", ...heads.map((text, index) => make("th", index ? "number" : "", text)));
    for (const cell of head.cells) cell.scope = "col";
    const body = make("tbody", "", ...rows.map((row) => make("tr", "", ...row.map(cellOf))));
    for (const row of body.rows) row.cells[0].scope = "row";
    const wide = make("div", "wide", make("table", "", make("thead", "", head), body));
    wide.tabIndex = 0;
    return wide;
  }

  function metrics(items) {
    const names = distinct(items.flatMap((item) => item.metrics));
    const valueOf = (item, name) => {
      const value = item.values[name]?.[item.place] ?? null;
      const reason = item.unscored[name]?.[item.place] ?? (item.values[name] ? "no reason is logged" : "not computed");
      return value === null ? ["–", make("small", "", reason)] : [figure(value)];
    };
    const nameOf = (name) => {
      const [description, higher] = book.metrics[name] ?? ["", true];
      return [name, make("small", "", ...coded(description), higher === false ? " (lower is better)" : "")];
    };
    const heads = items.length > 1 ? items.map((item) => item.label) : ["value"];
    return [
      make("h3", "", "Metrics"),
      tableOf(["metric", ...heads], names.map((name) => [nameOf(name), ...items.map((item) => valueOf(item, name))])),
    ];
  }

  function verdictOf([, judge, outcome, label, value, reason, replies, attempts]) {
    const notes = [reason, attempts > 1 ? `${attempts} attempts` : "", replies.length ? "" : "no reply"].filter(Boolean).join("; ");
    return make(
      "details", "verdict",
      make("summary", "", make("span", "", judge), label === null ? make("span", `badge ${QUIET.has(outcome) ? "" : "warn"}`, outcome) : make("b", "", label), make("span", "quiet", notes), make("span", "number", figure(value))),
      ...replies.map((reply) => make("pre", "", reply)),
    );
  }

  function judges(items) {
    const rubrics = (item) => distinct(item.given.map(([rubric]) => rubric));
    const under = (item, rubric) => item.given.filter(([name]) => name === rubric).map(verdictOf);
    const none = make("p", "quiet", "No judge verdicts.");
    return [
      make("h3", "", "Judges and their raw replies"),
      sides(items, (item) => (item.given.length ? rubrics(item).flatMap((rubric) => [make("p", "rubric", rubric), ...under(item, rubric)]) : [none.cloneNode(true)])),
    ];
  }

  // In the setting `reference` passages are given, not retrieved; in `reference_rag` the reference ones are.
  function sourceOf(item, isReference) {
    if (!isReference) return item.setting === "reference" ? "shown" : "retrieved";
    return ["full_rag", "agentic"].includes(item.setting) ? "both" : "reference";
  }

  function passageOf([id, title, text], badges) {
    const details = make(
      "details", "passage",
      make("summary", "", ...badges, " ", make("b", "", title || id), title && title !== id ? ` ${id}` : "", make("span", "snippet", text)),
      make("div", "body", text),
    );
    return details;
  }

  function passages(task, items, texts) {
    const references = new Set(task.references);
    const badge = (kind) => make("span", `badge ${kind}`, kind === "both" ? "both: reference and retrieved" : kind);
    return [
      make("h3", "", "Passages"),
      sides(items, (item) => {
        const shown = item.shown[item.place].map((place) => texts.passages[place]);
        const ids = new Set(shown.map(([id]) => id));
        const unseen = task.references.filter((id) => !ids.has(id)).map((id) => texts.byId.get(id) ?? [id, "", "Its text is not in these results: add results of the setting reference."]);
        return [
          make("p", "quiet", `${shown.length} shown to the model${references.size ? `, ${references.size - unseen.length} of ${references.size} reference passages among them` : "; the task has no reference passage"}`),
          ...shown.map((passage, index) => passageOf(passage, [make("span", "badge", String(index + 1)), " ", badge(sourceOf(item, references.has(passage[0])))])),
          ...unseen.map((passage) => passageOf(passage, [badge("reference"), " ", make("span", "badge warn", "not shown")])),
        ];
      }),
    ];
  }

  // Calls of a model before its answer: the results of each call, the relevant ones, and their words in the answer.
  function trajectory(items, texts) {
    if (!items.some((item) => item.trajectories?.[item.place])) return [];
    const endings = { answered: "then it answered", gave_up: "then it gave up", out_of_calls: "it had no calls left", context_full: "its results did not fit its context", error: "a request failed" };
    const found = (item, past, place) => {
      const isShown = typeof place === "number"; // else the id of a passage that was not in the answer's prompt
      const [id, title] = isShown ? texts.passages[item.shown[item.place][place]] : texts.byId.get(place) ?? [place];
      const held = past.held[place];
      const notes = [title && title !== id ? id : "", held ? `${Math.round(100 * held)} % of the answer's words` : ""];
      return make(
        "li", "",
        make("span", "number", isShown ? `[${place + 1}]` : ""),
        make("div", "", title || id, " ", ...(past.relevant.includes(place) ? [make("span", "badge reference", "relevant")] : []), make("div", "quiet", notes.filter(Boolean).join(" · "))),
      );
    };
    // For a long result: the first five passages and the relevant ones.
    const listed = (past, step) => step.found.filter((place, rank) => rank < 5 || past.relevant.includes(place));
    const rest = (past, step) => { const n = step.found.length - listed(past, step).length; return n ? [make("li", "quiet", make("span", "number"), `${n} more`)] : []; };
    const counted = (past, step) => {
      const n = step.found.filter((place) => past.relevant.includes(place)).length;
      return step.found.length ? `${step.found.length} found${past.n_relevant ? `, ${n} relevant` : ""}` : step.problem ? "" : "no results";
    };
    const call = (item, past, step) => {
      const said = [make("span", "badge", step.tool), " ", make("span", "query", step.text || "(nothing)"), " "];
      const marks = [...(step.repeat ? ["repeated"] : []), ...(step.problem ? [step.problem.replaceAll("_", " ")] : [])];
      const head = [...said, ...marks.flatMap((mark) => [make("span", "badge warn", mark), " "]), make("span", "quiet", counted(past, step))];
      if (!step.found.length) return make("li", "", ...head);
      const details = make("details", "", make("summary", "", ...head), make("ul", "", ...listed(past, step).map((place) => found(item, past, place)), ...rest(past, step)));
      details.open = past.steps.length <= 3;
      return make("li", "", details);
    };
    return [
      make("h3", "", "Searches"),
      sides(items, (item) => {
        const past = item.trajectories?.[item.place];
        if (!past) return [make("p", "quiet", "its passages were in the prompt")];
        const relevant = past.n_relevant ? `${past.relevant.length} of ${past.n_relevant} relevant passages seen` : "relevant passages unknown";
        return [
          make("p", "quiet", `${past.steps.length} call${past.steps.length === 1 ? "" : "s"}, ${endings[past.ending] ?? past.ending}; ${relevant}`),
          make("ol", "trajectory", ...past.steps.map((step) => call(item, past, step))),
        ];
      }),
    ];
  }

  // The heading of a task is its question, cut to two lines.
  function short(text) {
    const points = Array.from(text.trim().split("\n")[0]);
    return points.length > 140 ? `${points.slice(0, 139).join("")}…` : points.join("");
  }

  function heading(task) {
    const button = (text, by) => {
      const element = make("button", "", text);
      element.type = "button";
      element.addEventListener("click", () => step(by));
      return element;
    };
    const labelsOf = [task.domain, `turn ${task.turn}`, task.answerability, ...task.types, ...(task.multi === "N/A" ? [] : [task.multi])];
    return [
      make("div", "head", make("h2", "", short(task.question)), button("Previous", -1), button("Next", 1)),
      make("p", "quiet", task.id),
      make("div", "badges", ...labelsOf.map((label) => make("span", "badge", label))),
    ];
  }

  async function withVerdicts(item, task) {
    const place = item.placeOf.get(task.id);
    if (place === undefined) return null;
    const verdicts = item.verdicts === null ? null : await block(item.verdicts);
    return { ...item, place, given: verdicts?.[place] ?? [], support: { [place]: (await block(item.support))[place] } };
  }

  async function compared(task) {
    const other = partNamed(form.compare.value, part.setting);
    if (!other) return null;
    if (rival?.id !== other.scores) rival = await loadPart(other);
    return withVerdicts(rival, task);
  }

  async function textsOf(task) {
    const texts = await block(book.benchmarks[part.benchmark].texts[task.domain]);
    texts.byId ??= new Map(texts.passages.map((passage) => [passage[0], passage]));
    return texts;
  }

  async function showDetail(byHand) {
    const detail = at("detail");
    const task = part.tasks[chosen];
    if (!task) return detail.replaceChildren(make("p", "quiet", "Choose a task from the list."));
    const own = (latest += 1);
    const [texts, ...found] = await Promise.all([textsOf(task), withVerdicts(part, task), compared(task)]);
    if (own !== latest) return undefined;
    const items = found.filter(Boolean);
    detail.replaceChildren(
      ...heading(task),
      ...conversation(task, texts.histories[task.history]),
      ...answers(task, items, texts),
      ...trajectory(items, texts),
      ...passages(task, items, texts),
      ...metrics(items),
      ...judges(items),
    );
    detail.dataset.task = task.id;
    if (byHand && matchMedia("(max-width: 48rem)").matches) detail.scrollIntoView();
    return undefined;
  }

  // --- choices, links, keys -----------------------------------------------------------------------------------------
  let written = ""; // the address that this script wrote last

  function writeHash() {
    const entries = { task: part.tasks[chosen]?.id, model: part.label, setting: part.setting, compare: form.compare.value };
    const fields = Object.entries(entries).filter(([, value]) => value);
    written = `#${fields.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
    history.replaceState(null, "", written);
  }

  async function openPart(model, setting, compare, taskId) {
    const item = partNamed(model, setting) ?? parts.find((other) => other.label === model) ?? parts[0];
    const own = (latest += 1);
    const loaded = await loadPart(item);
    if (own !== latest) return;
    part = loaded;
    const settings = parts.filter((other) => other.label === part.label).map((other) => [other.setting, other.setting]);
    const rivals = parts.filter((other) => other.setting === part.setting && other.label !== part.label && other.group === part.group);
    options(form.model, distinct(parts.map((other) => other.label)).map((label) => [label, label]), part.label);
    at("differs").textContent = part.differs;
    options(form.setting, settings, part.setting);
    options(form.compare, [["", "no other model"], ...rivals.map((other) => [other.label, other.label])], compare);
    fillFilters();
    chosen = part.placeOf.get(taskId) ?? -1;
    filter();
    if (chosen < 0 && visible.length) chosen = visible[0];
    bringIntoSight();
    drawList();
    await showDetail(false);
  }

  async function readHash() {
    const fields = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
    const view = fields.get("view") ?? (fields.has("task") || fields.has("model") ? "conversations" : "tables");
    setView(at(view)?.classList.contains("view") ? view : "tables");
    if (view !== "conversations") return;
    if (!parts.length) at("detail").replaceChildren(make("p", "quiet", "No responses."));
    else if (!part || fields.has("task") || fields.has("model")) {
      await openPart(fields.get("model"), fields.get("setting"), fields.get("compare") ?? "", fields.get("task"));
    } else drawList();
    root.dataset.ready = "conversations";
  }

  function onChoice(event) {
    if (!part) return;
    const { name } = event.target;
    if (name === "model" || name === "setting") {
      openPart(form.model.value, form.setting.value, form.compare.value, part.tasks[chosen]?.id).then(writeHash);
    } else if (name === "compare") {
      writeHash();
      showDetail(false);
    } else {
      filter();
      if (name === "query") showDetail(false);
    }
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !part || !at("conversations").classList.contains("now")) return;
    const isField = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (isField) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const arrows = at("list").contains(document.activeElement) ? { ArrowDown: 1, ArrowUp: -1 } : {}; // else they scroll
    const steps = { j: 1, k: -1, ...arrows };
    if (event.key === "/") form.query.focus();
    else if (event.key in steps) step(steps[event.key]);
    else if (event.key === "f" || event.key === "F") stepFailure(event.key === "f" ? 1 : -1);
    else return;
    event.preventDefault();
  }

  at("choice").addEventListener("submit", (event) => event.preventDefault());
  at("choice").addEventListener("input", onChoice);
  at("clear").addEventListener("click", () => {
    for (const name of [...Object.keys(FILTERS), "notes", "order", "query"]) form[name].value = "";
    filter();
    showDetail(false);
  });
  at("list").addEventListener("scroll", drawList, { passive: true });
  window.addEventListener("resize", () => part && drawList());
  window.addEventListener("hashchange", () => location.hash !== written && readHash());
  document.addEventListener("keydown", onKey);

  async function start() {
    root.classList.add("js");
    setTheme(storedTheme());
    book = await block(0);
    parts = book.parts;
    loadNotes();
    await readHash();
    root.dataset.started = "yes";
  }

  start();
})();
