"use strict";
(function () {
  const form = document.getElementById("filter");
  const search = document.getElementById("search");
  const shown = document.getElementById("shown");
  const rows = Array.from(document.getElementById("table").tBodies[0].rows,
    (row) => ({ row, class: row.dataset.class, text: row.textContent.toLowerCase() }));
  const boxes = Array.from(form.querySelectorAll("input[type=checkbox]"));

  for (const box of boxes)
    box.parentElement.hidden = !rows.some((r) => r.class === box.value);

  /* A row stays if its class is chosen and it has every word of the search. */
  function apply() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = new Set(boxes.filter((b) => b.checked).map((b) => b.value));
    let n = 0;
    for (const r of rows) {
      const stays = chosen.has(r.class) && words.every((w) => r.text.includes(w));
      r.row.hidden = !stays;
      n += stays;
    }
    shown.textContent = n + " of " + rows.length + " shown";
  }

  let waiting = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, rows.length > 2000 ? 120 : 0);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = rows.length === 0;
  apply();

  const copy = document.getElementById("copy");
  const said = document.getElementById("copied");
  if (navigator.clipboard) {
    copy.hidden = false;
    copy.addEventListener("click", () =>
      navigator.clipboard.writeText(document.getElementById("paste-text").textContent)
        .then(() => { said.textContent = "copied"; }, () => { said.textContent = "the browser does not allow it"; }));
  }

  /* Printed with all that is folded away. */
  window.addEventListener("beforeprint", () => {
    for (const d of document.querySelectorAll("details")) d.open = true;
  });
})();
