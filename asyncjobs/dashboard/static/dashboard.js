// What pages do beyond reading: they renew themselves, tick all boxes, and tell times in the reader's zone. Nothing needs it.
"use strict";
(() => {
  const region = document.querySelector("[data-live]");
  const state = document.querySelector("[data-state]");
  const toggle = document.querySelector("[data-toggle]");

  const tellTimes = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.valueOf())) time.title = `${at.toLocaleString()} (here) · ${time.dataset.utc || time.dateTime}`;
    }
  };
  tellTimes(document);

  document.querySelector(".menu [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });

  const box = document.querySelector("[data-tick-all]");
  if (box) {
    const boxes = () => [...document.querySelectorAll(`input[type=checkbox][name="${box.dataset.tickAll}"]`)].filter((one) => one.form === box.form);
    const count = document.querySelector("[data-ticked]");
    const tell = () => {
      const ticked = boxes().filter((one) => one.checked).length;
      box.checked = ticked > 0 && ticked === boxes().length;
      box.indeterminate = ticked > 0 && ticked < boxes().length;
      if (count) count.textContent = ticked ? `${ticked} ticked` : "none ticked";
    };
    box.addEventListener("change", () => { for (const one of boxes()) one.checked = box.checked; tell(); });
    document.addEventListener("change", (event) => { if (event.target !== box && event.target.type === "checkbox") tell(); });
    box.hidden = false;
    tell();
  }

  if (!region || !state || !toggle || !window.EventSource) return;
  let source = null;
  let paused = false;
  let refusals = 0;
  let away = 0;
  const show = (name, text) => { state.dataset.state = name; state.textContent = text; };
  // A reader who is in the middle of it must not lose the place: no change under the focus, or under selected text.
  const isBusy = () => {
    const selection = document.getSelection();
    const isSelecting = selection && !selection.isCollapsed && region.contains(selection.anchorNode);
    const isTicked = region.querySelector("input[type=checkbox]:checked") !== null;
    return isSelecting || isTicked || (region.contains(document.activeElement) && document.activeElement.matches(":focus-visible, input, select"));
  };
  const renew = (html) => {
    if (isBusy()) return show("waiting", "waits for you");
    const open = [...region.querySelectorAll("details[open][id]")].map((one) => one.id);
    const scrolled = [...region.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    region.innerHTML = html;
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    region.querySelectorAll(".scroll").forEach((one, index) => { one.scrollLeft = scrolled[index] || 0; });
    tellTimes(region);
    show("live", "live");
  };
  const isBack = () => { clearTimeout(away); away = 0; };
  const close = () => { isBack(); source?.close(); source = null; };
  const open = () => {
    close();
    if (paused || document.hidden) return;
    source = new EventSource(region.dataset.live);
    source.addEventListener("fragment", (event) => renew(event.data));
    source.addEventListener("trouble", (event) => show("trouble", event.data));
    source.onopen = isBack;
    source.onerror = () => {
      // A stream ends now and then, and the browser comes back within a second.
      away ||= setTimeout(() => show("trouble", "not connected"), 5000);
      if (source?.readyState !== EventSource.CLOSED) return;
      close();
      show("trouble", "not connected");
      if (refusals++ < 20) setTimeout(() => source || open(), 5000);
    };
  };
  toggle.addEventListener("click", () => {
    paused = !paused;
    toggle.textContent = paused ? "Resume updates" : "Pause updates";
    if (paused) { close(); show("paused", "paused"); } else { show("waiting", "connecting"); open(); }
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  state.hidden = toggle.hidden = false;
  show("waiting", "connecting");
  open();
})();
