"use strict";
(() => {
  // What only a script can do is added by it: without one the page has no dead buttons.
  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    element.className = className;
    element.textContent = text;
    if (tag === "button") element.type = "button";
    return element;
  };

  const addTheme = () => {
    const root = document.documentElement;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
    const button = make("button", "tool", "");
    button.id = "theme";
    const show = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", `Use ${isDark() ? "light" : "dark"} colours`);
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      show();
    });
    dark.addEventListener("change", show);
    document.querySelector("h1").after(button);
    show();
  };

  // The first number of a text such as "<1e-06", "−0.5 ± 0.1" or "1,234"; NaN where there is none.
  const numberOf = (text) => Number.parseFloat(text.replace(/[\s,<>≈~+]/g, "").replace(/−/g, "-"));

  const compareCells = (numeric) => (a, b) => {
    if (!numeric) return a.localeCompare(b, "en", { numeric: true });
    const [one, two] = [numberOf(a), numberOf(b)];
    if (Number.isNaN(one) || Number.isNaN(two)) return Number.isNaN(one) - Number.isNaN(two);
    return one - two;
  };

  const sortRows = (table, column, descending) => {
    const body = table.tBodies[0];
    const compare = compareCells(table.tHead.rows[0].cells[column].classList.contains("number"));
    const text = (row) => row.cells[column].textContent.trim();
    const missing = (row) => ["—", ""].includes(text(row));
    const rows = [...body.rows].sort((a, b) => {
      if (missing(a) || missing(b)) return missing(a) - missing(b);
      return (descending ? -1 : 1) * compare(text(a), text(b));
    });
    body.append(...rows);
  };

  const addSorting = (table) => {
    if (table.tBodies[0].rows.length < 2) return;
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!head.textContent.trim()) return;
      const button = make("button", "", head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const descending = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        sortRows(table, column, descending);
      });
    });
  };

  const addSaving = (data) => {
    const button = make("button", "tool save", "Save as JSON");
    button.addEventListener("click", () => {
      const link = make("a", "", "");
      link.href = URL.createObjectURL(new Blob([data.textContent], { type: "application/json" }));
      link.download = `${data.id.replace(/-data$/, "")}.json`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
    data.before(button);
  };

  const addEnlarging = () => {
    const dialog = make("dialog", "", "");
    const close = make("button", "tool", "Close");
    const pan = make("div", "pan", "");
    const large = document.createElement("img");
    pan.tabIndex = 0;
    pan.append(large);
    dialog.append(close, pan);
    document.body.append(dialog);
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    document.querySelectorAll(".picture img").forEach((image) => {
      const button = make("button", "picture", "");
      button.setAttribute("aria-label", `Enlarge: ${image.alt}`);
      image.parentElement.replaceWith(button);
      button.append(image);
      button.addEventListener("click", () => {
        const natural = Number(image.getAttribute("width")) || image.naturalWidth;
        const ratio = image.naturalHeight / image.naturalWidth;
        const fitting = Math.min(innerWidth - 48, (innerHeight - 90) / ratio);
        large.src = image.src;
        large.alt = image.alt;
        large.style.width = `${Math.max(natural, fitting)}px`;
        dialog.setAttribute("aria-label", image.alt || "Figure");
        dialog.showModal();
      });
    });
  };

  // A table that does not fit shows a shadow, and can be scrolled by keyboard.
  const watchWidth = (region) => {
    const show = () => {
      const wide = region.scrollWidth > region.clientWidth;
      region.classList.toggle("wide", wide);
      region.tabIndex = wide ? 0 : -1;
    };
    new ResizeObserver(show).observe(region);
    show();
  };

  addTheme();
  document.querySelectorAll(".scroll").forEach(watchWidth);
  document.querySelectorAll("table.sortable").forEach(addSorting);
  document.querySelectorAll("script.data").forEach(addSaving);
  addEnlarging();
})();
