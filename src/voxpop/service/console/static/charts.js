// Draws every element with data-chart: the numbers are in the page, and the colours in its style sheet.
(() => {
  const drawn = new WeakMap(), dark = matchMedia("(prefers-color-scheme: dark)");
  const roles = {
    certified: { width: 1, band: 1 }, likely: { width: 0, band: 1 }, estimate: { width: 2 }, loss: { width: 2, dash: [6, 4] },
    pilot: { dots: 1 }, answers: { dots: 1, size: 6 }, chosen: { dots: 1, size: 12 },
  };
  const number = (value) => value == null ? "" : String(+value.toPrecision(4));

  function draw(place) {
    const text = place.dataset.chart, width = place.clientWidth;
    const sign = [text, width, dark.matches].join();
    if (!width || drawn.get(place)?.sign === sign) return;
    drawn.get(place)?.plot.destroy();
    const chart = JSON.parse(text), look = getComputedStyle(place), colour = (name) => look.getPropertyValue("--" + name);
    const bands = [], series = chart.series.map((each, at) => {
      const role = roles[each.role], stroke = colour(each.role), same = (other) => role.band && other?.role === each.role;
      const next = chart.series[at + 1], band = same(next), twin = same(chart.series[at - 1]);
      if (band) bands.push({ series: [at + 2, at + 1], fill: colour(each.role + "-fill") });
      const value = (_, value, __, place) => number(value) + (band && value != null ? " to " + number(next.values[place]) : "");
      return {
        label: band ? each.label.replace(/ from$/, "") : each.label, class: twin ? "twin" : undefined, value, width: role.width || 0, stroke: role.width === 0 ? undefined : stroke, dash: role.dash, spanGaps: !role.dots,
        paths: role.dots ? () => null : undefined,
        points: { show: !!role.dots || (chart.x.length < 12 && role.width > 0), size: role.size || 5, stroke, fill: stroke },
      };
    });
    const axis = (label, size) => ({ label, size, stroke: colour("ink"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, labelSize: 18, font: "12px system-ui", labelFont: "12px system-ui" });
    const whole = chart.x.every(Number.isInteger) && chart.x.length < 20;
    const plot = new uPlot({
      width, height: Math.max(220, Math.min(360, width * 0.5)), scales: { x: { time: false, distr: chart.logarithmic ? 3 : 1 } }, bands,
      axes: [{ ...axis(chart.x_label, 34), ...(whole ? { incrs: [1, 2, 5, 10] } : {}) }, axis(chart.y_label, 56)],
      series: [{ label: chart.x_label, value: (_, value) => number(value) }, ...series], cursor: { drag: { x: false, y: false } },
      legend: { markers: { fill: (plot, at) => bands.some((band) => band.series[1] === at) ? colour(chart.series[at - 1].role + "-fill") : null } },
    }, [chart.x, ...chart.series.map((each) => each.values)], place);
    drawn.set(place, { sign, plot });
  }

  const all = () => document.querySelectorAll("[data-chart]").forEach(draw);
  new MutationObserver(all).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-chart"] });
  addEventListener("resize", all);
  addEventListener("toggle", all, true); // what is folded has no width
  dark.addEventListener("change", all);
  all();
})();
