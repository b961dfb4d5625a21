// Says at once that a file is too large: a server that refuses it while it arrives can hardly be heard.
addEventListener("change", (event) => {
  const most = event.target.dataset.most, file = most && event.target.files[0];
  if (!most) return;
  event.target.setCustomValidity(file && file.size > most ? `This file has ${Math.ceil(file.size / 2 ** 20)} MiB; choose one with at most ${most / 2 ** 20} MiB.` : "");
  if (!event.target.reportValidity()) event.stopImmediatePropagation();
}, true);
// What is wrong gets the focus, and opens what it is folded into.
document.addEventListener("htmx:after:swap", () => {
  const wrong = document.querySelector("#plan [aria-invalid=true]") || document.querySelector("#plan #error");
  wrong?.closest("details")?.setAttribute("open", "");
  wrong?.focus();
});
