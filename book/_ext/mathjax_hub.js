// The widget manager typesets labels through MathJax 2's queue; the pages load MathJax 3 (deferred, before this).
window.MathJax.Hub = {
  Queue: ([, , element]) => MathJax.startup.promise.then(() => MathJax.typesetPromise([element])),
};
