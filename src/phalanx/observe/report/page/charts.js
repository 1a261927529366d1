"use strict";
// Curves and bars, drawn by ECharts in the colours of the page.

// Colours that people who see few colours still tell apart (Okabe and Ito), for light and for dark.
const RUNS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b5468b", "#8a6d00", "#3a9bd9", "#6b4fbb", "#555f6b"],
  dark: ["#56b4e9", "#ff8c42", "#33c39a", "#e58cc2", "#f0d04a", "#2f8fd0", "#a993f5", "#aab4c0"],
};
// Phases by what a rank does in them: computes (blue), is with others (orange), reads (green).
const PHASES = {
  forward: ["#56a8dd", "#6cb8f0"],
  backward: ["#0a66a8", "#2b83c6"],
  update: ["#0b3f66", "#a9d4f5"],
  wait: ["#f0b429", "#f2c14e"],
  exchange: ["#d55e00", "#ff8c42"],
  gather: ["#b24400", "#e0662a"],
  broadcast: ["#e88b4a", "#ffb380"],
  "scatter inputs": ["#8f3a0c", "#c25a24"],
  "scatter labels": ["#c98a63", "#8a5a3c"],
  load: ["#009e73", "#33c39a"],
  prepare: ["#7bc8ad", "#1f7f63"],
  step: ["#8d99a8", "#77869a"],
  metrics: ["#b5468b", "#e58cc2"],
  evaluate: ["#d79cc0", "#a85f8a"],
  checkpoint: ["#6b4fbb", "#a993f5"],
  other: ["#c3cad3", "#455263"],
};
const STYLES = ["solid", [9, 4], [2, 3], [10, 3, 2, 3]];
const drawn = [];

function theme() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

function colour(tone) {
  const dark = theme() === "dark" ? 1 : 0;
  if (tone === "ideal") return ["#7a8594", "#93a1b3"][dark];
  if (tone in PHASES) return PHASES[tone][dark];
  const runs = RUNS[theme()];
  const place = typeof tone === "number" ? tone : [...tone].reduce((sum, letter) => sum + letter.charCodeAt(0), 0);
  return runs[place % runs.length];
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axis(of, place) {
  const look = {
    name: of.title,
    nameLocation: "middle",
    nameGap: place === "y" ? 46 : 28,
    nameTextStyle: { color: css("--soft"), fontSize: 12 },
    axisLabel: { color: css("--soft"), formatter: (value) => short(value, of.kind), hideOverlap: true },
    axisLine: { show: place === "x", lineStyle: { color: css("--line") } },
    axisTick: { show: false },
    splitLine: { show: place === "y", lineStyle: { color: css("--faint") } },
  };
  return { type: of.log ? "log" : "value", scale: true, minInterval: of.kind === "count" ? 1 : 0, ...look };
}

// On an axis there is little space.
function short(value, kind) {
  if (kind === "percent" || kind === "share") return `${significant(100 * value, 3)} %`;
  if ((kind === "rate" || kind === "count") && Math.abs(value) >= 10000) return `${significant(value / 1000, 3)} k`;
  return kind === "number" ? significant(value, 3) : written(value, kind).replace(" ×", "×");
}

function common(series) {
  return {
    animation: false,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    grid: { left: 60, right: 18, top: series > 1 ? 40 : 12, bottom: 44 },
    legend: {
      show: series > 1,
      type: "scroll",
      top: 0,
      left: 0,
      right: 0,
      itemWidth: 22,
      itemHeight: 8,
      textStyle: { color: css("--ink") },
      pageTextStyle: { color: css("--soft") },
      pageIconColor: css("--accent"),
      pageIconInactiveColor: css("--line"),
    },
  };
}

function tooltip(content) {
  return {
    trigger: "axis",
    confine: true,
    backgroundColor: css("--paper"),
    borderColor: css("--line"),
    textStyle: { color: css("--ink") },
    formatter: content,
  };
}

// What stands beside the pointer: texts only, so that no name is read as HTML.
function pointed(title, lines) {
  const rows = lines.map(([tone, name, value]) => {
    const dot = made("i", "");
    dot.style.background = tone;
    return made("div", "", dot, made("span", "", name), made("span", "", value));
  });
  return made("div", "pointed", made("b", "", title), ...rows);
}

function dash(series) {
  if (series.style === "dashed") return [7, 4];
  if (series.style === "dotted") return [2, 4];
  return typeof series.tone === "number" ? STYLES[Math.floor(series.tone / RUNS.light.length) % STYLES.length] : "solid";
}

function chartOption(block) {
  const few = Math.max(...block.series.map((one) => one.points.length)) <= 40;
  const series = block.series.map((one) => ({
    name: one.name,
    type: "line",
    data: one.points,
    color: colour(one.tone),
    lineStyle: { width: one.width, type: dash(one) },
    showSymbol: one.markers || (few && one.style === "solid"),
    symbol: "circle",
    symbolSize: one.markers ? 8 : 5,
    emphasis: { focus: "series" },
  }));
  const content = (points) => pointed(
    `${block.x.title} ${written(points[0].value[0], block.x.kind)}`,
    points.filter((point) => point.value[1] !== null).map((point) => [point.color, point.seriesName, written(point.value[1], block.y.kind)]),
  );
  return { ...common(series.length), tooltip: tooltip(content), xAxis: axis(block.x, "x"), yAxis: axis(block.y, "y"), series };
}

function barsOption(block) {
  const room = innerWidth < 600 ? 110 : 180;
  const names = {
    type: "category",
    data: block.names,
    name: block.of,
    nameLocation: "middle",
    nameGap: 28,
    nameTextStyle: { color: css("--soft") },
    inverse: block.lying,
    axisLabel: { color: css("--ink"), width: room - 10, overflow: "truncate", hideOverlap: !block.lying },
    axisLine: { lineStyle: { color: css("--line") } },
    axisTick: { show: false },
  };
  const values = { ...axis(block.axis, block.lying ? "x" : "y"), scale: false };
  values.splitLine = { lineStyle: { color: css("--faint") } };
  if (block.axis.kind === "bytes") {
    const most = Math.max(...block.parts.flatMap((part) => part.values));
    values.interval = 2 ** Math.ceil(Math.log2(Math.max(1, most / 6)));
  }
  const series = block.parts.map((part) => ({
    name: part.name,
    type: "bar",
    stack: "all",
    data: part.values,
    color: colour(part.tone),
    barMaxWidth: 26,
  }));
  const content = (points) => pointed(
    `${block.of} ${points[0].name}`.trim(),
    points.filter((point) => point.value).map((point) => [point.color, point.seriesName, written(point.value, block.axis.kind)]),
  );
  const option = { ...common(series.length), tooltip: { ...tooltip(content), axisPointer: { type: "shadow" } }, series };
  option.legend.icon = "roundRect";
  const widest = Math.max(...block.names.map((name) => name.length));
  if (block.lying) option.grid.left = Math.min(room, 24 + 7 * widest);
  return { ...option, xAxis: block.lying ? values : names, yAxis: block.lying ? names : values };
}

function chart(block) {
  const place = made("div", "chart");
  if (block.lying) place.style.minHeight = place.style.maxHeight = `${(block.parts.length > 1 ? 110 : 80) + 34 * block.names.length}px`;
  const parts = [made("h3", "", block.title), place];
  if (block.note) parts.push(made("p", "note", ...sentence(block.note)));
  const option = block.type === "bars" ? barsOption : chartOption;
  drawn.push({ place, option: () => option(block), shown: null });
  return made("div", block.lying ? "card wide" : "card", ...parts);
}

// Draw whatever is on the page and has a size, in the colours of now.
function draw() {
  for (const one of drawn) {
    if (!one.place.isConnected || !one.place.clientWidth) continue;
    if (one.shown === null) one.shown = echarts.init(one.place, null, { renderer: "svg" });
    one.shown.resize();
    one.shown.setOption(one.option(), true);
  }
}
