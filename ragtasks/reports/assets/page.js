"use strict";
(() => {
  // Texts of models, judges and corpora go into the page as text nodes only: nothing here parses HTML.
  const ROW = 72; // height of a task in the list, in pixels; as in the style
  const KEPT = 24; // unpacked blocks that stay in memory
  const FIELDS = ["id", "conversation", "turn", "domain", "answerability", "types", "multi", "question", "target", "references", "history"];
  const QUIET = new Set(["no statements", "not asked"]); // outcomes without a verdict that are not failures
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

  const waiting = new Map(); // id of a block whose file is being loaded -> function that receives its text
  window.ragtasksBlock = (id, text) => waiting.get(id)?.(text);

  function textOf(id) {
    const element = at(`block-${id}`);
    if (element) return element.textContent;
    return new Promise((resolve, reject) => {
      const script = make("script");
      waiting.set(id, resolve);
      script.addEventListener("load", () => script.remove());
      script.addEventListener("error", () => {
        at("lost").hidden = false;
        reject(new Error(`no ${script.src}`));
      });
      script.src = `${root.dataset.files}${id}.js`;
      document.head.append(script);
    });
  }

  async function unpack(id) {
    const packed = atob(await textOf(id));
    waiting.delete(id);
    const bytes = new Uint8Array(packed.length);
    for (let index = 0; index < packed.length; index += 1) bytes[index] = packed.charCodeAt(index);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function block(id) {
    const content = cache.get(id) ?? unpack(id);
    cache.delete(id);
    cache.set(id, content);
    if (cache.size > KEPT) cache.delete(cache.keys().next().value);
    return content;
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
    const index = tabs.indexOf(document.activeElement);
    const next = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: -1 }[event.key];
    if (index < 0 || next === undefined) return;
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
      if (left === null || right === null) return (left === null) - (right === null); // cells without a value are always last
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
  let contents = null; // description of the blocks
  let parts = []; // all parts, under labels that distinguish their models
  let part = null; // the part whose tasks are listed, with its columns and tasks
  let rival = null; // the part for comparison
  let visible = []; // indices of tasks that pass the filters, in order
  let chosen = -1; // index of the current task
  let latest = 0; // number of the newest request; earlier requests that finish later are ignored

  function options(select, pairs, keep) {
    select.replaceChildren(...pairs.map(([value, text]) => new Option(text, value)));
    select.value = keep;
    if (select.selectedIndex < 0) select.selectedIndex = 0;
  }

  const distinct = (values) => [...new Set(values)];
  const partNamed = (model, setting) => parts.find((description) => description.label === model && description.setting === setting);

  async function loadPart(description) {
    const [scores, allTasks] = await Promise.all([block(description.scores), block(contents.benchmarks[description.benchmark].tasks)]);
    const tasksOfPart = scores.task.map((index) => Object.fromEntries(FIELDS.map((field, column) => [field, allTasks[index][column]])));
    const haystack = tasksOfPart.map((task, index) => `${task.id}\n${task.question}\n${scores.answer[index]}`.toLowerCase());
    const indexOf = new Map(tasksOfPart.map((task, index) => [task.id, index]));
    return { ...description, ...scores, id: description.scores, metrics: Object.keys(scores.values), tasks: tasksOfPart, haystack, indexOf };
  }

  // --- flags and comments: stored by this browser for these results, exported as a file ---------------------------------
  let notes = {}; // model, setting and task -> flag and comment
  const noteKey = (owner, id) => JSON.stringify([owner.label, owner.setting, id]);
  const noteOf = (owner, id) => notes[noteKey(owner, id)] ?? { flag: false, comment: "" };

  function loadNotes() {
    try { notes = JSON.parse(localStorage.getItem(`ragtasks-notes-${contents.id}`)) ?? {}; } catch { notes = {}; }
    at("export").textContent = `Export notes (${Object.keys(notes).length})`;
  }

  function keepNote(owner, id, change) {
    const note = { ...noteOf(owner, id), ...change };
    if (note.flag || note.comment) notes[noteKey(owner, id)] = note;
    else delete notes[noteKey(owner, id)];
    try { localStorage.setItem(`ragtasks-notes-${contents.id}`, JSON.stringify(notes)); } catch { /* kept until the page is closed */ }
    at("export").textContent = `Export notes (${Object.keys(notes).length})`;
    drawList();
  }

  function noteForm(owner, task) {
    const note = noteOf(owner, task.id);
    const flag = Object.assign(make("input", ""), { type: "checkbox", checked: note.flag });
    const comment = Object.assign(make("textarea", ""), { value: note.comment, rows: 1, placeholder: "Comment" });
    comment.setAttribute("aria-label", `Comment on the answer of ${owner.label}`);
    flag.addEventListener("input", () => keepNote(owner, task.id, { flag: flag.checked }));
    comment.addEventListener("input", () => keepNote(owner, task.id, { comment: comment.value }));
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
    failure: (taskIndex) => contents.failures.filter((_, bit) => part.failures[taskIndex] & (1 << bit)).map((failure) => failure.name),
    answerability: (taskIndex) => [part.tasks[taskIndex].answerability],
    domain: (taskIndex) => [part.tasks[taskIndex].domain],
    turn: (taskIndex) => [part.tasks[taskIndex].turn === 1 ? "first" : "later", String(part.tasks[taskIndex].turn)],
    type: (taskIndex) => part.tasks[taskIndex].types,
    multi: (taskIndex) => [part.tasks[taskIndex].multi],
  };

  function fillFilters() {
    part.labels = {};
    for (const [name, labelsAt] of Object.entries(FILTERS)) {
      const all = part.tasks.map((_, taskIndex) => labelsAt(taskIndex));
      part.labels[name] = all.map((taskLabels) => new Set(taskLabels));
      const counts = new Map();
      for (const label of all.flat()) counts.set(label, (counts.get(label) ?? 0) + 1);
      const order = name === "failure" ? contents.failures.map((failure) => failure.name) : [...counts.keys()].sort(compareKeys);
      const pairs = order.filter((label) => counts.has(label)).map((label) => [label, `${label} (${counts.get(label)})`]);
      if (name === "failure") pairs.unshift(["any", `any (${part.failures.filter(Boolean).length})`]);
      options(form[name], [["", "all"], ...pairs], form[name].value);
    }
    const orders = part.metrics.flatMap((name) => [[`${name} up`, `${name}, lowest first`], [`${name} down`, `${name}, highest first`]]);
    options(form.order, [["", "as evaluated"], ...orders], form.order.value);
  }

  function passes(taskIndex, words, active) {
    if (!words.every((word) => part.haystack[taskIndex].includes(word))) return false;
    return active.every(([name, value]) => {
      if (name === "failure" && value === "any") return part.failures[taskIndex] !== 0;
      return part.labels[name][taskIndex].has(value);
    });
  }

  function inOrder(taskIndices) {
    const [metric, direction] = form.order.value.split(" ");
    if (!metric) return taskIndices;
    const values = part.values[metric];
    const sign = direction === "up" ? 1 : -1;
    return taskIndices.sort((left, right) => {
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
    const noteFilter = form.notes.value;
    const words = wordsSearched();
    visible = inOrder(part.tasks.map((_, taskIndex) => taskIndex).filter((taskIndex) => passes(taskIndex, words, active) && (!noteFilter || noteOf(part, part.tasks[taskIndex].id)[noteFilter])));
    at("count").textContent = `${visible.length} of ${part.tasks.length} tasks`;
    at("active").textContent = active.length || noteFilter ? ` (${active.length + Boolean(noteFilter)} active)` : "";
    at("list").scrollTop = 0;
    drawList();
  }

  // --- the list: only visible rows are in the page --------------------------------------------------------------------
  function rowOf(taskIndex, position) {
    const task = part.tasks[taskIndex];
    const metric = form.order.value.split(" ")[0];
    const value = metric ? `${metric} ${figure(part.values[metric][taskIndex])}` : part.idk[taskIndex] === "yes" ? "refused" : "";
    const row = make(
      "div", "row",
      make("div", "question", noteOf(part, task.id).flag ? make("span", "flag", "⚑ ") : "", task.question),
      make("div", "under", make("span", "", `${task.domain} · turn ${task.turn} · ${task.answerability.toLowerCase()}`), make("b", "", value)),
      make("div", "errors", FILTERS.failure(taskIndex).join(" · ")),
    );
    row.style.top = `${position * ROW}px`;
    row.id = `task-${taskIndex}`;
    row.title = task.id;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(taskIndex === chosen));
    row.setAttribute("aria-setsize", String(visible.length));
    row.setAttribute("aria-posinset", String(position + 1));
    row.addEventListener("click", () => choose(taskIndex, true));
    return row;
  }

  function drawList() {
    const list = at("list");
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const end = Math.min(visible.length, first + Math.ceil(list.clientHeight / ROW) + 9);
    at("spacer").style.height = `${visible.length * ROW}px`;
    at("spacer").replaceChildren(...visible.slice(first, end).map((taskIndex, index) => rowOf(taskIndex, first + index)));
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

  function step(offset) {
    if (!visible.length) return;
    const index = visible.indexOf(chosen);
    const next = index < 0 ? (offset > 0 ? 0 : visible.length - 1) : Math.min(visible.length - 1, Math.max(0, index + offset));
    choose(visible[next], false);
  }

  // From failure to failure; the search wraps around.
  function stepFailure(offset) {
    const failed = visible.filter((taskIndex) => part.failures[taskIndex] !== 0);
    if (!failed.length) return;
    const index = visible.indexOf(chosen);
    const later = failed.filter((taskIndex) => offset * (visible.indexOf(taskIndex) - index) > 0);
    choose(offset > 0 ? (later[0] ?? failed[0]) : (later.at(-1) ?? failed.at(-1)), false);
  }

  function choose(taskIndex, byHand) {
    chosen = taskIndex;
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
    return text.split(new RegExp(`(${words.join("|")})`, "i")).map((segment, index) => (index % 2 ? make("mark", "", segment) : segment));
  }

  // As `_code_parts` of the tables: text between backticks is code.
  const coded = (text) => text.split(/`([^`]+)`/).map((segment, index) => (index % 2 ? make("code", "", segment) : segment));

  function conversation(task, history) {
    const message = (role, text, extra) => make("div", `said ${role}${extra}`, make("b", "", role), ...marked(text));
    return [
      make("h3", "", "Conversation"),
      ...history.map(([role, text]) => message(role === "user" ? "user" : "assistant", text, "")),
      message("user", task.question, " asked"),
    ];
  }

  function sideBySide(sides, content) {
    const named = (side) => (sides.length > 1 ? make("p", "quiet", side.label) : null);
    return make("div", "sides", ...sides.map((side) => make("div", "", named(side), ...content(side))));
  }

  // Sentences of an answer with their sources. Positions count characters, as Python does, not UTF-16 units.
  const SOURCES = ["passage", "question", "conversation", "nothing"];
  const MEANINGS = { question: "repeats the question", conversation: "from the conversation", nothing: "not supported by any passage" };

  function supported(side, texts) {
    const points = Array.from(side.answer[side.index]);
    const rows = side.support[side.index] ?? [];
    if (!rows.length) return marked(side.answer[side.index]);
    const segments = [];
    let end = 0;
    for (const row of rows) {
      segments.push(...marked(points.slice(end, row[0]).join("")), sentenceOf(side, texts, points, row));
      [, end] = row;
    }
    return [...segments, ...marked(points.slice(end).join(""))];
  }

  function sentenceOf(side, texts, points, [start, end, share, sourceIndex, best, unsupported, flipped]) {
    const source = share === null ? "none" : SOURCES[sourceIndex];
    const segments = [];
    let position = start;
    for (const [from, to] of unsupported) {
      segments.push(...marked(points.slice(position, from).join("")), make("u", "nowhere", ...marked(points.slice(from, to).join(""))));
      position = to;
    }
    segments.push(...marked(points.slice(position, end).join("")));
    if (share === null) return make("span", "", ...segments);
    const label = source === "passage" && best ? String(best[0] + 1) : { question: "q", conversation: "c", nothing: "–", passage: "p" }[source];
    const sentence = make("span", `held ${source}`, ...segments);
    sentence.dataset.source = label; // drawn by the style, so that copying the answer does not include it
    const meaning = `${source === "passage" ? `supported by passage ${best ? best[0] + 1 : ""}` : MEANINGS[source]} (${share} % of its words)`;
    const note = flipped ? `${meaning}; negated in one of the two: “${points.slice(...flipped).join("")}”` : meaning;
    sentence.tabIndex = 0;
    sentence.setAttribute("aria-label", `${points.slice(start, end).join("")} (${note})`);
    sentence.setAttribute("role", "note");
    const show = () => showSource(sentence, note, best === null ? null : [best, texts.passages[side.shown[side.index][best[0]]]]);
    for (const name of ["focus", "click", "mouseenter"]) sentence.addEventListener(name, show);
    return sentence;
  }

  // Display the supporting part of the passage under the selected sentence, with its context.
  function showSource(sentence, note, excerpt) {
    const box = sentence.closest(".sides > div, .sides").querySelector(".source");
    for (const other of sentence.parentNode.querySelectorAll(".held.now")) other.classList.remove("now");
    sentence.classList.add("now");
    const parts = [make("b", "", note)];
    if (excerpt) {
      const [[, from, to], [id, title, text]] = excerpt;
      const points = Array.from(text);
      const around = (a, b) => points.slice(Math.max(0, a), Math.max(0, b)).join("");
      parts.push(
        make("p", "", from > 160 ? "… " : "", around(from - 160, from), make("mark", "", around(from, to)), around(to, to + 160), to + 160 < points.length ? " …" : ""),
      );
      if (from > 160 || !title || !text.startsWith(title)) parts.push(make("small", "", title || id));
    }
    box.replaceChildren(...parts);
  }

  function answers(task, sides, texts) {
    const idk = (side) => {
      const verdict = side.idk[side.index];
      const labels = { yes: "a refusal", partial: "a partial refusal", no: "no refusal" };
      return `IDK verdict: ${labels[verdict] ?? "none"}${side.idk_reason[side.index] ? ` (${side.idk_reason[side.index]})` : ""}`;
    };
    const text = (side) => (side.answer[side.index] ? supported(side, texts) : [make("i", "", "empty")]);
    return [
      make("h3", "", sides.length > 1 ? "Answers" : "Answer"),
      sideBySide(sides, (side) => [
        make("div", "text answer", ...text(side)),
        side.support[side.index]?.length ? make("div", "source", make("span", "quiet", "The mark after a sentence is its source: the number of a passage, q for the question, c for the conversation, – for no source. Underlined words are in no source. Tap, hover or focus a sentence to see its passage.")) : null,
        make("p", "quiet", idk(side)),
        ...failuresOf(side),
        side.why[side.index] ? make("p", "quiet", side.why[side.index]) : null,
        noteForm(side, task),
      ]),
      make("h3", "", "Reference answer"),
      make("div", "text target", task.target || make("i", "", "none")),
    ];
  }

  function failuresOf(side) {
    return contents.failures.filter((_, bit) => side.failures[side.index] & (1 << bit)).map((failure) => {
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

  function metrics(sides) {
    const names = distinct(sides.flatMap((side) => side.metrics));
    const valueOf = (side, name) => {
      const value = side.values[name]?.[side.index] ?? null;
      const reason = side.unscored[name]?.[side.index] ?? (side.values[name] ? "no reason is logged" : "not computed");
      return value === null ? ["–", make("small", "", reason)] : [figure(value)];
    };
    const nameOf = (name) => {
      const [description, higher] = contents.metrics[name] ?? ["", true];
      return [name, make("small", "", ...coded(description), higher === false ? " (lower is better)" : "")];
    };
    const heads = sides.length > 1 ? sides.map((side) => side.label) : ["value"];
    return [
      make("h3", "", "Metrics"),
      tableOf(["metric", ...heads], names.map((name) => [nameOf(name), ...sides.map((side) => valueOf(side, name))])),
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

  function judges(sides) {
    const rubrics = (side) => distinct(side.verdictRows.map(([rubric]) => rubric));
    const verdictsUnder = (side, rubric) => side.verdictRows.filter(([name]) => name === rubric).map(verdictOf);
    const none = make("p", "quiet", "No judge verdicts.");
    return [
      make("h3", "", "Judges and their raw replies"),
      sideBySide(sides, (side) => (side.verdictRows.length ? rubrics(side).flatMap((rubric) => [make("p", "rubric", rubric), ...verdictsUnder(side, rubric)]) : [none.cloneNode(true)])),
    ];
  }

  // In the setting `reference`, passages are given, not retrieved. In `reference_rag`, the others are retrieved.
  function sourceOf(side, isReference) {
    if (!isReference) return side.setting === "reference" ? "shown" : "retrieved";
    return ["full_rag", "agentic"].includes(side.setting) ? "both" : "reference";
  }

  function passageOf([id, title, text], badges) {
    const details = make(
      "details", "passage",
      make("summary", "", ...badges, " ", make("b", "", title || id), title && title !== id ? ` ${id}` : "", make("span", "snippet", text)),
      make("div", "body", text),
    );
    return details;
  }

  function passages(task, sides, texts) {
    const references = new Set(task.references);
    const badge = (source) => make("span", `badge ${source}`, source === "both" ? "both: reference and retrieved" : source);
    return [
      make("h3", "", "Passages"),
      sideBySide(sides, (side) => {
        const shown = side.shown[side.index].map((index) => texts.passages[index]);
        const ids = new Set(shown.map(([id]) => id));
        const notShown = task.references.filter((id) => !ids.has(id)).map((id) => texts.byId.get(id) ?? [id, "", "Its text is not in these results: add results of the setting reference."]);
        return [
          make("p", "quiet", `${shown.length} shown to the model${references.size ? `, ${references.size - notShown.length} of ${references.size} reference passages among them` : "; the task has no reference passage"}`),
          ...shown.map((passage, index) => passageOf(passage, [make("span", "badge", String(index + 1)), " ", badge(sourceOf(side, references.has(passage[0])))])),
          ...notShown.map((passage) => passageOf(passage, [badge("reference"), " ", make("span", "badge warn", "not shown")])),
        ];
      }),
    ];
  }

  // The model's calls before its answer: the passages of each call, which are relevant, and their share of the answer's words.
  function searches(sides, texts) {
    if (!sides.some((side) => side.trajectories?.[side.index])) return [];
    const endings = { answered: "then an answer", gave_up: "ended without an answer", out_of_calls: "no calls left", context_full: "results did not fit the context", error: "a request failed" };
    const passageRow = (side, trajectory, passage) => {
      const isShown = typeof passage === "number"; // else the id of a passage that was not in the answer's prompt
      const [id, title] = isShown ? texts.passages[side.shown[side.index][passage]] : texts.byId.get(passage) ?? [passage];
      const share = trajectory.shares[passage];
      const notes = [title && title !== id ? id : "", share ? `${Math.round(100 * share)} % of the answer's words` : ""];
      return make(
        "li", "",
        make("span", "number", isShown ? `[${passage + 1}]` : ""),
        make("div", "", title || id, " ", ...(trajectory.relevant.includes(passage) ? [make("span", "badge reference", "relevant")] : []), make("div", "quiet", notes.filter(Boolean).join(" · "))),
      );
    };
    // A long result shows its first five passages and the relevant passages.
    const listed = (trajectory, step) => step.passages.filter((passage, rank) => rank < 5 || trajectory.relevant.includes(passage));
    const moreRow = (trajectory, step) => { const n = step.passages.length - listed(trajectory, step).length; return n ? [make("li", "quiet", make("span", "number"), `${n} more`)] : []; };
    const countText = (trajectory, step) => {
      const n = step.passages.filter((passage) => trajectory.relevant.includes(passage)).length;
      return step.passages.length ? `${step.passages.length} found${trajectory.n_relevant ? `, ${n} relevant` : ""}` : step.problem ? "" : "no results";
    };
    const callRow = (side, trajectory, step) => {
      const call = [make("span", "badge", step.tool), " ", make("span", "query", step.text || "(empty)"), " "];
      const marks = [...(step.repeat ? ["repeated"] : []), ...(step.problem ? [step.problem.replaceAll("_", " ")] : [])];
      const head = [...call, ...marks.flatMap((mark) => [make("span", "badge warn", mark), " "]), make("span", "quiet", countText(trajectory, step))];
      if (!step.passages.length) return make("li", "", ...head);
      const details = make("details", "", make("summary", "", ...head), make("ul", "", ...listed(trajectory, step).map((passage) => passageRow(side, trajectory, passage)), ...moreRow(trajectory, step)));
      details.open = trajectory.steps.length <= 3;
      return make("li", "", details);
    };
    return [
      make("h3", "", "Searches"),
      sideBySide(sides, (side) => {
        const trajectory = side.trajectories?.[side.index];
        if (!trajectory) return [make("p", "quiet", "No searches: the passages were in the prompt.")];
        const relevant = trajectory.n_relevant ? `${trajectory.relevant.length} of ${trajectory.n_relevant} relevant passages received` : "relevant passages unknown";
        return [
          make("p", "quiet", `${trajectory.steps.length} call${trajectory.steps.length === 1 ? "" : "s"}, ${endings[trajectory.ending] ?? trajectory.ending}; ${relevant}`),
          make("ol", "trajectory", ...trajectory.steps.map((step) => callRow(side, trajectory, step))),
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
    const button = (text, offset) => {
      const element = make("button", "", text);
      element.type = "button";
      element.addEventListener("click", () => step(offset));
      return element;
    };
    const labelsOf = [task.domain, `turn ${task.turn}`, task.answerability, ...task.types, ...(task.multi === "N/A" ? [] : [task.multi])];
    return [
      make("div", "head", make("h2", "", short(task.question)), button("Previous", -1), button("Next", 1)),
      make("p", "quiet", task.id),
      make("div", "badges", ...labelsOf.map((label) => make("span", "badge", label))),
    ];
  }

  async function withVerdicts(description, task) {
    const index = description.indexOf.get(task.id);
    if (index === undefined) return null;
    const verdicts = description.verdicts === null ? null : await block(description.verdicts);
    return { ...description, index, verdictRows: verdicts?.[index] ?? [], support: { [index]: (await block(description.support))[index] } };
  }

  async function compared(task) {
    const other = partNamed(form.compare.value, part.setting);
    if (!other) return null;
    if (rival?.id !== other.scores) rival = await loadPart(other);
    return withVerdicts(rival, task);
  }

  async function textsOf(task) {
    const texts = await block(contents.benchmarks[part.benchmark].texts[task.domain]);
    texts.byId ??= new Map(texts.passages.map((passage) => [passage[0], passage]));
    return texts;
  }

  async function showDetail(byHand) {
    const detail = at("detail");
    const task = part.tasks[chosen];
    if (!task) return detail.replaceChildren(make("p", "quiet", "Choose a task from the list."));
    const request = (latest += 1);
    const [texts, ...loaded] = await Promise.all([textsOf(task), withVerdicts(part, task), compared(task)]);
    if (request !== latest) return undefined;
    const sides = loaded.filter(Boolean);
    detail.replaceChildren(
      ...heading(task),
      ...conversation(task, texts.histories[task.history]),
      ...answers(task, sides, texts),
      ...searches(sides, texts),
      ...passages(task, sides, texts),
      ...metrics(sides),
      ...judges(sides),
    );
    detail.dataset.task = task.id;
    if (byHand && matchMedia("(max-width: 48rem)").matches) detail.scrollIntoView();
    return undefined;
  }

  // --- choices, links, keys -----------------------------------------------------------------------------------------
  let written = ""; // the last address that this script wrote

  function writeHash() {
    const entries = { task: part.tasks[chosen]?.id, model: part.label, setting: part.setting, compare: form.compare.value };
    const fields = Object.entries(entries).filter(([, value]) => value);
    written = `#${fields.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
    history.replaceState(null, "", written);
  }

  async function openPart(model, setting, compare, taskId) {
    const description = partNamed(model, setting) ?? parts.find((other) => other.label === model) ?? parts[0];
    const request = (latest += 1);
    const loaded = await loadPart(description);
    if (request !== latest) return;
    part = loaded;
    const settings = parts.filter((other) => other.label === part.label).map((other) => [other.setting, other.setting]);
    const rivals = parts.filter((other) => other.setting === part.setting && other.label !== part.label && other.group === part.group);
    options(form.model, distinct(parts.map((other) => other.label)).map((label) => [label, label]), part.label);
    at("differs").textContent = part.differs;
    options(form.setting, settings, part.setting);
    options(form.compare, [["", "no other model"], ...rivals.map((other) => [other.label, other.label])], compare);
    fillFilters();
    chosen = part.indexOf.get(taskId) ?? -1;
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
    contents = await block(0);
    parts = contents.parts;
    loadNotes();
    await readHash();
    root.dataset.started = "yes";
  }

  start();
})();
