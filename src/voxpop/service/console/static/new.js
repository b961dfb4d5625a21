// Says at once that a file is too large: a server that refuses it while it arrives can hardly be heard.
addEventListener("change", (event) => {
  const most = event.target.dataset.most, file = most && event.target.files[0];
  if (most) event.target.setCustomValidity(file && file.size > most ? `This file has ${Math.ceil(file.size / 2 ** 20)} MiB; choose one with at most ${most / 2 ** 20} MiB.` : "");
  if (file) event.target.reportValidity();
});
// A refusal stands below the button that was pressed, and no rehearsal of other settings stays on the page.
(() => {
  const at = (id) => document.getElementById(id), plan = at("plan");
  if (!plan) return;
  let stale;
  const outdate = () => { if (stale && at("rehearsal").childElementCount) at("rehearsal").textContent = "The settings were changed: rehearse it again."; };
  plan.addEventListener("input", (event) => { if (!event.target.closest("#start")) { stale = true; outdate(); } });
  plan.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (!button.closest("#start")) stale = false;
    at("notice").textContent = "";
    button.closest("fieldset").append(at("notice"));
  });
  document.addEventListener("htmx:after:swap", () => {
    outdate();
    const notice = at("notice"), said = notice.textContent.trim(), wrong = said && notice.dataset.field;
    for (const field of plan.elements) field.ariaInvalid = !!wrong && field.name === wrong;
    notice.tabIndex = -1;
    if (said) notice.focus();
  });
})();
