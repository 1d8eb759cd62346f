// For pages that hold widgets: their manager, a megabyte, comes when the first of them is about to be seen.
// Until then, and without scripts, each shows its picture (assets.py).
const { src: here, dataset: { from } } = document.currentScript;
const [loader, manager] = from?.split(" ") ?? ["require.js", "widgets/embed-amd.js"];
const load = (name) =>
  new Promise((onload) => document.head.append(Object.assign(document.createElement("script"), { src: new URL(name, here).href, onload })));
// A slider's handle gets the name and the words that stand beside it, for screen readers.
const nameSliders = () => {
  for (const box of document.querySelectorAll(".widget-slider")) {
    const handle = box.querySelector(".noUi-handle"), label = box.querySelector(".widget-label"), value = box.querySelector(".widget-readout");
    if (!handle || !label) continue;
    handle.setAttribute("aria-label", label.textContent);
    if (value) handle.setAttribute("aria-valuetext", value.textContent);
  }
};
const start = async () => {
  new MutationObserver(() => {
    nameSliders();
    for (const still of document.querySelectorAll(".widget-still"))
      if (still.parentElement.querySelector(".frames-figure svg")) still.remove();
  }).observe(document, { childList: true, subtree: true, characterData: true });
  await load(loader);
  // The manager looks for its icon fonts below require.js's base, which would be the page's own folder.
  requirejs.config({ baseUrl: new URL(".", here).href });
  await load(manager);
};
addEventListener("load", () => {
  const near = new IntersectionObserver((seen) => {
    if (!seen.some((each) => each.isIntersecting)) return;
    near.disconnect();
    start();
  }, { rootMargin: "600px" });
  for (const still of document.querySelectorAll(".widget-still")) near.observe(still);
});
