"use strict";
// The details of a step, zooming of the graph and of the timeline, and the keyboard. Every text is set as text.
(() => {
  const steps = JSON.parse(document.getElementById("data").textContent);
  const graph = document.getElementById("graph-svg");
  const details = document.getElementById("details");
  const nodes = [...graph.querySelectorAll(".node")];
  const edges = [...graph.querySelectorAll(".edge")].map((line) => {
    const [from, to] = line.dataset.e.split(" ").map(Number);
    return { line, from, to };
  });
  const place = nodes.map((node) => node.getAttribute("transform").match(/-?[\d.]+/g).map(Number));
  const element = (name, text, parent) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };
  const time = (ms) => (ms === 0 ? "0" : ms >= 1000 ? `${(ms / 1000).toPrecision(3)} s` : ms >= 1 ? `${ms.toPrecision(3)} ms` : `${(ms * 1000).toPrecision(3)} µs`);
  const amount = (n, unit) => {
    for (const [size, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (n >= size) return `${(n / size).toPrecision(3)} ${prefix}${unit}`;
    return `${n} ${unit}`;
  };

  // The view of the graph.
  const whole = graph.viewBox.baseVal;
  const all = { x: 0, y: 0, width: whole.width, height: whole.height };
  const show = (x, y, width, height) => graph.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  const size = () => graph.getBoundingClientRect();
  const zoom = (factor, atX, atY) => {
    const view = graph.viewBox.baseVal, box = size();
    const scale = Math.max(view.width / box.width, view.height / box.height);
    if ((factor > 1 && scale > 1.5 * Math.max(all.width / box.width, all.height / box.height, 1)) || (factor < 1 && scale < 0.2)) return;
    const x = view.x + view.width * atX, y = view.y + view.height * atY;
    show(x - view.width * factor * atX, y - view.height * factor * atY, view.width * factor, view.height * factor);
  };
  const centre = (n) => {
    const view = graph.viewBox.baseVal, [x, y] = place[n];
    show(x + 116 - view.width / 2, y + 31 - view.height / 2, view.width, view.height);
  };
  const isSeen = (n) => {
    const view = graph.viewBox.baseVal, [x, y] = place[n];
    return x > view.x && y > view.y && x + 232 < view.x + view.width && y + 62 < view.y + view.height;
  };
  const begin = () => {
    const box = size();
    if (!box.width || !nodes.length) return;
    const scale = Math.min(1, Math.max(all.width / box.width, 0.8));
    const width = box.width * scale, height = box.height * scale;
    show(place[0][0] + 116 - width / 2, -14, width, height);
  };
  document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
    if (button.dataset.zoom === "all") show(all.x, all.y, all.width, all.height);
    else zoom(button.dataset.zoom === "in" ? 0.75 : 1.33, 0.5, 0.5);
  }));
  graph.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = size();
    zoom(event.deltaY > 0 ? 1.15 : 0.87, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  }, { passive: false });
  let drag = null;
  graph.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, y: event.clientY, moved: false }; });
  graph.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const view = graph.viewBox.baseVal, box = size();
    const scale = Math.max(view.width / box.width, view.height / box.height);
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag = { x: event.clientX, y: event.clientY, moved: true };
    graph.classList.add("moving");
    show(view.x - dx * scale, view.y - dy * scale, view.width, view.height);
  });
  addEventListener("pointerup", () => { setTimeout(() => { drag = null; }, 0); graph.classList.remove("moving"); });

  // The details of a step.
  const list = (title, entries) => {
    if (!entries.length) return;
    element("h4", `${title} (${entries.length})`, details);
    const items = element("ul", undefined, details);
    for (const entry of entries) element("li", entry, items).className = "mono";
  };
  const choose = (n, move) => {
    const step = steps[n];
    nodes.forEach((node, i) => { node.classList.toggle("on", i === n); node.tabIndex = i === n ? 0 : -1; });
    edges.forEach(({ line, from, to }) => line.classList.toggle("on", from === n || to === n));
    document.querySelectorAll("#timeline-svg rect").forEach((run) => run.classList.toggle("on", Number(run.dataset.step) === n));
    details.replaceChildren();
    element("h3", `${n}. ${step.name}`, details);
    const facts = element("dl", undefined, details);
    const fact = (name, value) => { if (value !== null && value !== undefined && value !== "") { element("dt", name, facts); element("dd", value, facts); } };
    fact("Kind", step.class ? `${step.kind}, ${step.class}` : step.kind);
    fact("Time", `${time(step.ms)}${step.n_runs > 1 ? `, ${step.n_runs} runs` : ""}`);
    fact("Share of the call", `${(step.share * 100).toFixed(1)} %`);
    if (step.of_roofline !== null) fact("Share of roofline", `${(step.of_roofline * 100).toFixed(0)} %, bound by ${step.bound}`);
    fact("Bytes", amount(step.bytes, "B"));
    if (step.operations !== null) fact("Operations", amount(step.operations, "op"));
    fact("Tasks", String(step.tasks));
    fact("Kernel", step.kernel && `@${step.kernel}`);
    if (step.kernel) {
      const others = steps.filter((other) => other.kernel === step.kernel).length;
      if (others > 1) fact("Launched by", `${others} steps`);
    }
    fact("Schedule", step.schedule);
    list("Reads", step.reads);
    list("Gives", step.writes);
    list("Nodes of the model", step.nodes);
    list("Ops", step.ops);
    list("How it was formed", step.notes);
    if (move) { if (!isSeen(n)) centre(n); nodes[n].focus({ preventScroll: true }); }
  };
  nodes.forEach((node, n) => node.addEventListener("click", () => { if (!drag || !drag.moved) choose(n, false); }));

  // The keyboard, in the graph.
  const nearest = (from, key) => {
    const [x, y] = place[from];
    if (key === "ArrowDown" || key === "ArrowUp") {
      const linked = edges.filter((edge) => (key === "ArrowDown" ? edge.from : edge.to) === from);
      const ends = linked.map((edge) => (key === "ArrowDown" ? edge.to : edge.from));
      ends.sort((a, b) => Math.abs(place[a][1] - y) - Math.abs(place[b][1] - y) || Math.abs(place[a][0] - x) - Math.abs(place[b][0] - x));
      if (ends.length) return ends[0];
      const next = from + (key === "ArrowDown" ? 1 : -1);
      return next in nodes ? next : from;
    }
    const side = key === "ArrowRight" ? 1 : -1;
    const beside = nodes.map((_, n) => n).filter((n) => n !== from && (place[n][0] - x) * side > 0);
    beside.sort((a, b) => Math.abs(place[a][1] - y) * 4 + Math.abs(place[a][0] - x) - Math.abs(place[b][1] - y) * 4 - Math.abs(place[b][0] - x));
    return beside.length ? beside[0] : from;
  };
  graph.addEventListener("keydown", (event) => {
    const n = nodes.indexOf(document.activeElement);
    if (n < 0) return;
    if (event.key.startsWith("Arrow")) choose(nearest(n, event.key), true);
    else if (event.key === "Home") choose(0, true);
    else if (event.key === "End") choose(nodes.length - 1, true);
    else if (event.key === "Enter" || event.key === " ") { choose(n, false); details.focus(); }
    else if (event.key === "+" || event.key === "=") zoom(0.75, 0.5, 0.5);
    else if (event.key === "-") zoom(1.33, 0.5, 0.5);
    else return;
    event.preventDefault();
  });
  details.addEventListener("keydown", (event) => {
    const chosen = nodes.findIndex((node) => node.classList.contains("on"));
    if (event.key === "Escape" && chosen >= 0) nodes[chosen].focus();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-step], rect[data-step]");
    if (!link) return;
    event.preventDefault();
    document.getElementById("graph").scrollIntoView();
    choose(Number(link.dataset.step), true);
    centre(Number(link.dataset.step));
  });

  // Finding.
  const texts = steps.map((step) => [step.name, step.schedule, ...step.nodes, ...step.ops].join("\n").toLowerCase());
  const find = document.getElementById("find"), found = document.getElementById("found");
  find.addEventListener("input", () => {
    const wanted = find.value.trim().toLowerCase();
    const hits = texts.flatMap((text, n) => (wanted && text.includes(wanted) ? [n] : []));
    nodes.forEach((node, n) => node.classList.toggle("dim", wanted !== "" && !hits.includes(n)));
    found.textContent = wanted === "" ? "" : `${hits.length} of ${steps.length} steps`;
    if (hits.length) centre(hits[0]);
  });
  find.addEventListener("keydown", (event) => {
    const hit = nodes.findIndex((node) => !node.classList.contains("dim"));
    if (event.key === "Enter" && find.value.trim() && hit >= 0) { event.preventDefault(); choose(hit, true); }
  });

  // The timeline.
  const timeline = document.querySelector(".timeline");
  if (timeline) {
    const svg = document.getElementById("timeline-svg"), axis = timeline.querySelector(".axis");
    const end = Number(timeline.dataset.end), height = svg.viewBox.baseVal.height;
    let left = 0, width = 1000;
    const draw = () => {
      width = Math.min(1000, Math.max(1, width));
      left = Math.min(1000 - width, Math.max(0, left));
      svg.setAttribute("viewBox", `${left} 0 ${width} ${height}`);
      axis.replaceChildren();
      for (let tick = 0; tick <= 6; tick += 1) {
        const mark = element("span", time(((left + (width * tick) / 6) / 1000) * end), axis);
        mark.style.left = `${(tick / 6) * 100}%`;
      }
    };
    const zoomed = (factor, at) => { const point = left + width * at; width = Math.min(1000, width * factor); left = point - width * at; draw(); };
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      zoomed(event.deltaY > 0 || event.deltaX > 0 ? 1.2 : 0.83, (event.clientX - box.left) / box.width);
    }, { passive: false });
    timeline.addEventListener("keydown", (event) => {
      if (event.key === "ArrowRight") left += width / 8;
      else if (event.key === "ArrowLeft") left -= width / 8;
      else if (event.key === "+" || event.key === "=") return zoomed(0.7, 0.5);
      else if (event.key === "-") return zoomed(1.4, 0.5);
      else return;
      event.preventDefault();
      draw();
    });
    draw();
  }
  addEventListener("beforeprint", () => { show(all.x, all.y, all.width, all.height); document.querySelectorAll("details").forEach((folded) => { folded.open = true; }); });
  addEventListener("afterprint", begin);
  begin();
  const linked = /^#n(\d+)$/.exec(location.hash);
  if (linked && Number(linked[1]) in nodes) { choose(Number(linked[1]), true); centre(Number(linked[1])); }
  else if (steps.length) choose(steps.reduce((longest, step, n) => (step.ms > steps[longest].ms ? n : longest), 0), false);
  document.documentElement.dataset.ready = "true";
})();
