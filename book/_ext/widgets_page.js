// For pages that hold widgets; runs between require.js and the widget manager.
// The manager looks for its icon fonts below require.js's base, which would be the page's own folder.
requirejs.config({ baseUrl: new URL(".", document.currentScript.src).href });
// A slider's handle gets the name and the words that stand beside it, for screen readers.
const nameSliders = () => {
  for (const box of document.querySelectorAll(".widget-slider")) {
    const handle = box.querySelector(".noUi-handle"), label = box.querySelector(".widget-label"), value = box.querySelector(".widget-readout");
    if (!handle || !label) continue;
    handle.setAttribute("aria-label", label.textContent);
    if (value) handle.setAttribute("aria-valuetext", value.textContent);
  }
};
new MutationObserver(nameSliders).observe(document, { childList: true, subtree: true, characterData: true });
// It typesets labels through MathJax 2's queue; the pages load MathJax 3, which is there by now:
addEventListener("DOMContentLoaded", () => {
  window.MathJax.Hub = {
    Queue: ([, , element]) => MathJax.startup.promise.then(() => MathJax.typesetPromise([element])),
  };
});
