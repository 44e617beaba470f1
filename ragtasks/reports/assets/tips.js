// The meaning of a column head, on hover and on focus. Escape hides it.
(() => {
  const tip = Object.assign(document.createElement("div"), { id: "tip", hidden: true });
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);

  function hide() {
    tip.hidden = true;
    document.querySelector("[aria-describedby=tip]")?.removeAttribute("aria-describedby");
  }

  function show(head) {
    hide();
    tip.textContent = head.dataset.tip;
    tip.hidden = false;
    head.setAttribute("aria-describedby", "tip");
    const box = head.getBoundingClientRect();
    const left = Math.min(box.left, innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + 6;
    const top = below + tip.offsetHeight > innerHeight ? box.top - tip.offsetHeight - 6 : below;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(0, top)}px`;
  }

  for (const head of document.querySelectorAll("[data-tip]")) {
    for (const name of ["mouseenter", "focus"]) head.addEventListener(name, () => show(head));
    for (const name of ["mouseleave", "blur"]) head.addEventListener(name, hide);
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  document.addEventListener("scroll", hide, true);
})();
