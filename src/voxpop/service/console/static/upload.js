// Says at once that a file is too large: a server that refuses it while it arrives can hardly be heard.
addEventListener("change", (event) => {
  const most = event.target.dataset.most, file = most && event.target.files[0];
  if (most) event.target.setCustomValidity(file && file.size > most ? `This file has ${Math.ceil(file.size / 2 ** 20)} MiB; choose one with at most ${most / 2 ** 20} MiB.` : "");
  if (file) event.target.reportValidity();
});
