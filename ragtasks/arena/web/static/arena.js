// Keyboard shortcuts, citations, theme and live answers. Pages work without this script.
"use strict";
(() => {
  const root = document.documentElement;
  const tip = document.getElementById("tip");

  // --- theme
  const THEMES = ["system", "light", "dark"];
  const button = document.getElementById("theme");
  function setTheme(theme) {
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.title = `Theme: ${theme}`;
    button.setAttribute("aria-label", button.title);
    try { localStorage.setItem("ragtasks-theme", theme); } catch { /* without storage the choice is not saved */ }
  }
  function savedTheme() {
    try { return localStorage.getItem("ragtasks-theme") ?? "system"; } catch { return "system"; }
  }
  setTheme(THEMES.includes(savedTheme()) ? savedTheme() : "system");
  button.addEventListener("click", () => {
    setTheme(THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length]);
  });

  // --- citations
  function passageOf(cite) { return document.getElementById(`passage-${cite.dataset.passage}`); }
  function showTip(cite) {
    const passage = passageOf(cite);
    if (!passage) return;
    tip.replaceChildren(...[...passage.childNodes].map((node) => node.cloneNode(true)));
    tip.hidden = false;
    const box = cite.getBoundingClientRect();
    const left = Math.min(box.left, root.clientWidth - tip.offsetWidth - 16);
    const isBelow = box.bottom + tip.offsetHeight + 12 < root.clientHeight || box.top < tip.offsetHeight + 12;
    tip.style.left = `${Math.max(16, left) + scrollX}px`;
    tip.style.top = `${(isBelow ? box.bottom + 6 : box.top - tip.offsetHeight - 6) + scrollY}px`;
    cite.setAttribute("aria-describedby", "tip");
  }
  function hideTip() {
    tip.hidden = true;
    for (const cite of document.querySelectorAll("[aria-describedby=tip]")) cite.removeAttribute("aria-describedby");
  }
  for (const [event, act] of [["mouseover", showTip], ["focusin", showTip], ["mouseout", hideTip], ["focusout", hideTip]]) {
    document.addEventListener(event, ({ target }) => { if (target.matches?.(".cite")) act(target); });
  }
  document.addEventListener("click", ({ target }) => {
    if (!target.matches?.(".cite")) return;
    const passage = passageOf(target);
    passage.closest("details").open = true;
    hideTip();
    passage.focus();
  });

  // --- keys
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.matches("input, select, textarea")) return;
    const wanted = document.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]:not(:disabled)`);
    if (wanted) {
      event.preventDefault();
      wanted.click();
    }
  });

  // --- one vote per form, however often a key is pressed
  for (const form of document.querySelectorAll("form[method=post]")) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
    });
  }
  addEventListener("pageshow", () => { for (const form of document.forms) delete form.dataset.sent; });

  // --- live answers, both in the same steps
  const live = document.getElementById("live");
  const state = document.getElementById("state");
  const panes = Object.fromEntries(["A", "B"].map((side) => [side, document.getElementById(`stream-${side}`)]));
  if (live && !state.textContent.startsWith("No battle")) {
    const source = new EventSource(live.dataset.events);
    source.addEventListener("begin", () => { for (const pane of Object.values(panes)) pane.textContent = ""; });
    source.addEventListener("text", ({ data }) => {
      for (const [side, text] of Object.entries(JSON.parse(data))) panes[side].textContent += text;
    });
    source.addEventListener("failed", ({ data }) => {
      source.close();
      state.textContent = `No battle: ${JSON.parse(data).why}.`;
    });
    source.addEventListener("done", ({ data }) => {
      source.close();
      location.replace(JSON.parse(data).next);
    });
  }

  for (const earlier of document.querySelectorAll(".earlier")) earlier.scrollTop = earlier.scrollHeight;
  root.dataset.started = "yes";
})();
