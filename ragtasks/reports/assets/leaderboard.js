"use strict";
// Sorting, filters and columns. Without them the page still shows everything.
(() => {
  const root = document.documentElement;
  const form = document.getElementById("choice");
  root.classList.add("js");
  for (const element of document.querySelectorAll("[data-js]")) element.hidden = false;

  // A cell without a score stays at the end in both directions.
  for (const button of document.querySelectorAll("thead button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th"), body = head.closest("table").tBodies[0], column = head.cellIndex;
      const before = head.getAttribute("aria-sort"), first = "down" in button.dataset ? "descending" : "ascending";
      const now = before === null ? first : before === "ascending" ? "descending" : "ascending";
      const sign = now === "ascending" ? 1 : -1;
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", now);
      const key = (row) => row.cells[column].dataset;
      const order = (left, right) => {
        const a = key(left), b = key(right);
        if (a.number === undefined) return sign * (a.value < b.value ? -1 : a.value > b.value ? 1 : 0);
        if (a.number === "" || b.number === "") return (a.number === "") - (b.number === "");
        return sign * (Number(a.number) - Number(b.number));
      };
      body.append(...[...body.rows].sort(order));
    });
  }

  for (const button of document.querySelectorAll("[aria-controls]")) {
    button.addEventListener("click", () => {
      const all = document.getElementById(button.getAttribute("aria-controls")).classList.toggle("all");
      button.setAttribute("aria-expanded", String(all));
      button.textContent = all ? "Main columns only" : "All columns";
    });
  }

  function filter() {
    const { model, benchmark, setting, baselines, ties } = form.elements;
    const words = model.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0, all = 0;
    for (const section of document.querySelectorAll("section[data-benchmark]")) {
      const fits = [benchmark, setting].every((field) => !field.value || section.dataset[field.name] === field.value);
      let visible = 0;
      for (const row of section.querySelectorAll("tbody tr")) {
        const name = row.querySelector(".name").dataset.value.toLowerCase();
        row.hidden = !fits || !words.every((word) => name.includes(word))
          || (!baselines.checked && row.classList.contains("baseline")) || (ties.checked && !("leads" in row.dataset));
        visible += !row.hidden;
        all += 1;
      }
      section.hidden = visible === 0;
      shown += visible;
    }
    document.getElementById("count").textContent = `${shown} of ${all} evaluations`;
  }

  form?.addEventListener("input", filter);
  form?.addEventListener("submit", (event) => event.preventDefault());
  if (form) filter();
})();
