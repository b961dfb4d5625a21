// htmx alone may turn text into HTML, and nothing may make a function of text: no page needs that.
(() => {
  const rules = { createHTML: (text) => text, createScript: (text) => text }; // what it inserts is data: see the policy
  const policy = window.trustedTypes ? trustedTypes.createPolicy("htmx", rules) : rules;
  const refuse = function () { throw new Error("text is never run as code here"); };
  htmx.registerExtension("console", { init: (api) => api.initSecurity(policy, refuse, refuse) });
  // A stream that is closed on purpose is no error.
  addEventListener("unhandledrejection", (event) => { if (event.reason?.name === "AbortError") event.preventDefault(); });
  // A page that nobody sees holds no connection: browsers open only six to a server.
  addEventListener("htmx:before:request", (event) => {
    const place = event.target, address = place.getAttribute("hx-sse:connect");
    if (!address || !document.hidden) return;
    event.preventDefault();
    document.addEventListener("visibilitychange", () => { if (place.isConnected) htmx.ajax("GET", address, { source: place }); }, { once: true });
  });
})();
