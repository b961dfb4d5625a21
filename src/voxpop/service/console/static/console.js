// htmx alone may turn text into HTML, and nothing may turn text into code: no page needs it, and the policy forbids it.
(() => {
  const rules = { createHTML: (text) => text, createScript: () => "" };
  const policy = window.trustedTypes ? trustedTypes.createPolicy("htmx", rules) : rules;
  const refuse = function () { throw new Error("text is never run as code here"); };
  htmx.registerExtension("console", { init: (api) => api.initSecurity(policy, refuse, refuse) });
})();
