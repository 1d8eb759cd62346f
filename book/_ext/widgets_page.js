// For pages that hold widgets; runs between require.js and the widget manager.
// The manager looks for its icon fonts below require.js's base, which would be the page's own folder.
requirejs.config({ baseUrl: new URL(".", document.currentScript.src).href });
// It typesets labels through MathJax 2's queue; the pages load MathJax 3, which is there by now:
addEventListener("DOMContentLoaded", () => {
  window.MathJax.Hub = {
    Queue: ([, , element]) => MathJax.startup.promise.then(() => MathJax.typesetPromise([element])),
  };
});
