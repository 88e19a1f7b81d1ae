"use strict";
// Draw the report: one stage of one program at a time, with folded clusters.
(async () => {
  const $ = id => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";

  const inflate = async id => {
    const bytes = Uint8Array.from(atob($(id).textContent), c => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  const data = JSON.parse(await inflate("data"));
  const worker = new Blob([await inflate("elk-worker")], {type: "text/javascript"});
  const workerUrl = URL.createObjectURL(worker);
  let elk = null;

  // Build a stage that shows the program before and after the passes side by side: the nodes and
  // clusters of each of the two stages are in an open cluster of their own.
  const pairOf = ({stages, pair}) => {
    const clusters = pair.map((at, side) => {
      const ops = stages[at].nodes.filter(node => node.k === "op" && !node.e);
      const fused = ops.filter(node => node.u).length;
      const name = stages[at].name.includes("program") ? stages[at].name : ["before", "after"][side];
      return {label: `${name} · ${ops.length} ${ops.length === 1 ? "op" : "ops"}${fused ? ` · ${fused} fused` : ""}`, parent: -1, side: true};
    });
    const nodes = [];
    pair.forEach((at, side) => {
      const [first, around] = [nodes.length, clusters.length];
      for (const node of stages[at].nodes) {
        const c = node.c === undefined ? side : node.c + around;
        nodes.push({...node, c, i: (node.i || []).map(source => source + first)});
      }
      for (const {label, parent} of stages[at].clusters) {
        clusters.push({label, parent: parent < 0 ? side : parent + around});
      }
    });
    return {name: "before | after", nodes, clusters, diff: [], after: stages[pair[1]], before: stages[pair[0]]};
  };
  for (const each of data.programs) {
    each.views = each.pair?.length ? [pairOf(each), ...each.stages] : each.stages;
  }

  let program = data.programs[0];
  let stage = program.views[0];
  let unfolded = new Set(); // paths of unfolded clusters, kept when the stage changes
  let chosen = -1; // the node whose details are shown
  let origins = []; // passes, or changes against another program; the index gives the color
  let colours = "time"; // coloring of measured ops: by time, memory or passes
  let layout = null; // ELK's result for the latest drawing
  let drawn = 0; // number of drawings; a slow layout must not replace a newer one
  const view = {x: 0, y: 0, scale: 1, width: 1, height: 1};

  // -- the graph of a stage -----------------------------------------------------------------------

  const pathOf = cluster => {
    const labels = [];
    for (let at = cluster; at >= 0; at = stage.clusters[at].parent) {
      if (!stage.clusters[at].side) labels.unshift(stage.clusters[at].label);
    }
    return labels.join("\n");
  };
  const around = cluster => {
    const found = [];
    for (let at = cluster ?? -1; at >= 0; at = stage.clusters[at].parent) found.unshift(at);
    return found;
  };
  const isOpen = cluster => stage.clusters[cluster].side || unfolded.has(pathOf(cluster));
  const isBefore = cluster => stage === program.stages[0]
    || (stage === program.views[0] && (around(cluster)[0] ?? 0) === 0);

  // the id of the box that shows each node: the node, or its outermost folded cluster
  const visible = () => {
    const open = stage.clusters.map((_, at) => isOpen(at));
    return stage.nodes.map((node, at) => {
      const folded = around(node.c).find(cluster => !open[cluster]);
      return folded === undefined ? `n${at}` : `c${folded}`;
    });
  };

  // -- measured time and memory -------------------------------------------------------------------

  const TIME = 0, GRADIENT = 1, FLOPS = 2, HELD = 3; // indices into the numbers of a measured op
  // the measured step; only the last stage has one
  const step = () => ([stage, stage.after].includes(program.stages.at(-1)) ? program.measured : null);
  const percent = part => `${(100 * part).toFixed(1)} %`;
  const ms = seconds => (seconds * 1e3).toFixed(seconds < 1e-3 ? 4 : 3);
  const bytes = value => (value < 1000 ? `${value} bytes` : `${number(value)}B`);
  // time and memory of ops and folded clusters: shares of the step and of the values at the peak
  let inside = new Map(); // id of a box -> sums of time and memory of its ops
  let most = [1, 1];
  const valuesAtPeak = () => Math.max(stage.nodes.reduce((sum, node) => sum + (node.q?.[HELD] ?? 0), 0), 1);
  const sumUp = () => {
    inside = new Map();
    if (!step()) return;
    const add = (id, [time, , , held]) => {
      const sums = inside.get(id) ?? [0, 0];
      inside.set(id, [sums[0] + time, sums[1] + held]);
    };
    const drawnAs = visible();
    stage.nodes.forEach((node, at) => {
      if (!node.q) return;
      add(`n${at}`, node.q);
      for (const cluster of around(node.c)) add(`c${cluster}`, node.q);
    });
    most = [0, 1].map(which => Math.max(...drawnAs.map(id => inside.get(id)?.[which] ?? 0), 1e-12));
  };
  const shareOf = id => {
    const sums = inside.get(id);
    if (!sums || colours === "passes") return "";
    if (colours === "memory") return sums[1] ? bytes(sums[1]) : "";
    return sums[0] >= 5e-4 * step().seconds ? percent(sums[0] / step().seconds) : "";
  };
  const heat = (group, id) => {
    if (!step() || colours === "passes") return;
    const which = colours === "memory" ? 1 : 0;
    group.classList.add("measured");
    group.style.setProperty("--heat", `${Math.round(100 * (inside.get(id)?.[which] ?? 0) / most[which])}%`);
  };

  // leave room for the share, of time or memory, in the title
  const titleOf = node => (step() && node.k === "op" ? `${node.n} · 999.9 kB` : node.n);
  const sizeOf = (first, second) => ({
    width: Math.max(first.length * 7.4, second.length * 6.2, 40) + 18,
    height: second ? 40 : 28,
  });

  // -- results of fusions ----------------------------------------------------------------------------

  // for each cluster of a stage: the number of ops by name, and the fused ops
  const contents = new WeakMap();
  const contentsOf = cluster => {
    if (!contents.has(stage)) {
      const found = stage.clusters.map(() => ({counts: new Map(), fused: []}));
      for (const node of stage.nodes) {
        for (const at of node.k === "op" ? around(node.c) : []) {
          found[at].counts.set(node.n, (found[at].counts.get(node.n) ?? 0) + 1);
          if (node.u) found[at].fused.push(node);
        }
      }
      contents.set(stage, found);
    }
    return contents.get(stage)[cluster];
  };
  const sizeOfCluster = cluster => [...contentsOf(cluster).counts.values()].reduce((sum, count) => sum + count, 0);
  const badgeOf = cluster => {
    const count = contentsOf(cluster).fused.length;
    return count ? `${count} fused` : "";
  };
  const BADGE = 6.4; // width of a character
  // list the ops of a cluster: before the passes from its label, after them from its nodes;
  // for a cluster of several equal blocks, list the ops of one block
  const opsIn = cluster => {
    const [name, ops] = wrapped(stage.clusters[cluster].label);
    if (isBefore(cluster)) return ops;
    const [, first, last] = name.match(/(\d+) to (\d+)$/) ?? [, 1, 1];
    const alike = last - first + 1;
    const {counts} = contentsOf(cluster);
    const each = [...counts.values()].every(count => count % alike === 0) ? alike : 1;
    const weight = ([name]) => (name.startsWith("fused") || name.startsWith("fusion") ? 0 : 1);
    const words = [...counts].sort((a, b) => weight(a) - weight(b) || b[1] - a[1])
      .map(([name, count]) => (count > each ? `${count / each} ${name}` : name));
    return words.length && ops ? shortened(`${each > 1 ? "each " : ""}${words.join(", ")}`, MOST_WORDS) : "";
  };
  const MOST_WORDS = 72; // characters of a list of ops
  const shortened = (words, most) => (words.length > most ? `${words.slice(0, most - 1)}…` : words);
  const below = node => (node.u ? shortened(node.u, 44) : node.r || "");

  const elkGraph = shown => {
    const boxes = new Map(); // id -> elk node
    const root = {id: "root", children: [], edges: []};
    const parentOf = cluster => {
      const parent = stage.clusters[cluster].parent;
      return parent < 0 ? root : box(parent);
    };
    const box = cluster => {
      const id = `c${cluster}`;
      if (!boxes.has(id)) {
        const name = wrapped(stage.clusters[cluster].label)[0];
        const made = isOpen(cluster)
          ? {id, children: [], layoutOptions: {"elk.padding": "[top=42,left=12,bottom=12,right=12]"}}
          : {id, ...sizeOf(`${name}${step() ? " · 999.9 kB" : ""}${" ".repeat(badgeOf(cluster).length)}`, opsIn(cluster))};
        boxes.set(id, made);
        parentOf(cluster).children.push(made);
      }
      return boxes.get(id);
    };
    stage.nodes.forEach((node, at) => {
      if (shown[at][0] === "c") return void box(Number(shown[at].slice(1)));
      const made = {id: shown[at], ...sizeOf(titleOf(node), below(node))};
      boxes.set(made.id, made);
      (node.c === undefined ? root : box(node.c)).children.push(made);
    });
    const seen = new Set();
    stage.nodes.forEach((node, at) => {
      for (const source of node.i || []) {
        const [from, to] = [shown[source], shown[at]];
        const id = `${from}>${to}`;
        if (from === to || seen.has(id)) continue;
        seen.add(id);
        root.edges.push({id, sources: [from], targets: [to]});
      }
    });
    const many = boxes.size > 500;
    root.layoutOptions = {
      "elk.algorithm": "layered",
      "elk.direction": "DOWN",
      "elk.hierarchyHandling": "INCLUDE_CHILDREN",
      "elk.edgeRouting": many ? "POLYLINE" : "ORTHOGONAL",
      "elk.layered.spacing.nodeNodeBetweenLayers": "28",
      "elk.spacing.nodeNode": "18",
      "elk.layered.thoroughness": many ? "1" : "7",
      "elk.layered.nodePlacement.strategy": many ? "SIMPLE" : "BRANDES_KOEPF",
    };
    return root;
  };

  // split a label into at most two lines, at the colon
  const wrapped = label => {
    const at = label.indexOf(": ");
    return at < 0 ? [label, ""] : [label.slice(0, at), shortened(label.slice(at + 2), MOST_WORDS)];
  };

  // -- drawing ------------------------------------------------------------------------------------

  const element = (name, attributes, ...children) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const originOf = node => (node.g ? node.g : node.m ? `made by ${node.m}` : "");
  const hue = origin => `${(origins.indexOf(origin) * 67 + 210) % 360}`;

  const text = (words, x, y, small) =>
    element("text", {x, y, "text-anchor": "middle", ...(small ? {class: "small"} : {})}, words);

  const drawNode = (made, node, at) => {
    const kind = node.k === "op" ? "" : "port";
    const group = element("g", {
      id: `n${at}`, tabindex: 0, role: "button", "data-node": at,
      class: [kind, originOf(node) ? "made" : "", at === chosen ? "chosen" : ""].join(" ").trim(),
      "aria-label": `${node.n} ${node.r || ""}`,
    });
    if (originOf(node)) group.style.setProperty("--hue", hue(originOf(node)));
    group.append(element("rect", {width: made.width, height: made.height}));
    heat(group, `n${at}`);
    const share = shareOf(`n${at}`);
    group.append(text(share ? `${node.n} · ${share}` : node.n, made.width / 2, below(node) ? 17 : 18));
    if (below(node)) group.append(text(below(node), made.width / 2, 31, true));
    return group;
  };

  // find the first change against another program in a folded cluster
  const changeIn = cluster => {
    const found = stage.nodes.find(node => node.g && around(node.c).includes(cluster));
    return found ? found.g : "";
  };

  const drawCluster = (made, cluster) => {
    const {label, side} = stage.clusters[cluster];
    const open = isOpen(cluster);
    const change = open ? "" : changeIn(cluster);
    const share = shareOf(`c${cluster}`);
    const group = element("g", {
      id: `c${cluster}`, tabindex: 0, role: "button", "data-cluster": cluster,
      class: open ? "cluster" : change ? "cluster folded made" : "cluster folded", "aria-expanded": open, "aria-label": label,
    });
    if (change) group.style.setProperty("--hue", hue(change));
    group.append(element("title", {}, label));
    group.append(element("rect", {width: made.width, height: made.height}));
    if (open) {
      const [name, before] = [wrapped(label)[0], side || isBefore(cluster) ? label : ""];
      const mark = side ? "" : `− ${share ? `${share} · ` : ""}`;
      // show the label with the ops if it fits, else the name
      const words = before && (mark.length + before.length) * 7.3 + 14 <= made.width ? before : name;
      group.append(element("text", {x: 10, y: 22, class: "title"}, `${mark}${words}`));
    } else {
      heat(group, `c${cluster}`);
      const [first, second, badge] = [wrapped(label)[0], opsIn(cluster), badgeOf(cluster)];
      const room = badge ? (badge.length + 2) * BADGE : 0;
      group.append(text(share ? `${first} · ${share}` : first, (made.width - room) / 2, second ? 17 : 18));
      if (second) group.append(text(second, made.width / 2, 31, true));
      if (badge) {
        const mark = element("g", {class: "badge"},
          element("rect", {x: made.width - room - 4, y: 4, width: room, height: 16}),
          element("text", {x: made.width - room / 2 - 4, y: 16, "text-anchor": "middle"}, badge));
        mark.style.setProperty("--hue", hue(originOf(contentsOf(cluster).fused[0])));
        group.append(mark);
      }
    }
    return group;
  };

  const render = result => {
    layout = result;
    sumUp();
    const canvas = $("canvas");
    const [boxes, lines, offsets] = [[], [], new Map([["root", [0, 0]]])];
    const place = (made, x, y) => {
      for (const child of made.children || []) {
        const [left, top] = [x + child.x, y + child.y];
        offsets.set(child.id, [left, top]);
        const at = Number(child.id.slice(1));
        const group = child.id[0] === "n" ? drawNode(child, stage.nodes[at], at) : drawCluster(child, at);
        group.setAttribute("transform", `translate(${left},${top})`);
        boxes.push(group);
        place(child, left, top);
      }
    };
    place(result, 0, 0);
    for (const edge of result.edges) {
      const [x, y] = offsets.get(edge.container || "root");
      for (const {startPoint, bendPoints, endPoint} of edge.sections || []) {
        const points = [startPoint, ...(bendPoints || []), endPoint];
        const d = points.map((p, i) => `${i ? "L" : "M"}${p.x + x} ${p.y + y}`).join("");
        lines.push(element("path", {class: "edge", d, "data-from": edge.sources[0], "data-to": edge.targets[0]}));
      }
    }
    const isOpenBox = group => group.classList.contains("cluster") && !group.classList.contains("folded");
    // draw the titles of open boxes on a bar, over the edges that cross them
    const titles = boxes.filter(isOpenBox).flatMap(group => {
      const title = group.querySelector(".title");
      const bar = element("rect", {class: "behind", x: 1, y: 1, height: 29});
      bar.setAttribute("width", group.querySelector("rect").getAttribute("width") - 2);
      for (const over of [bar, title]) over.setAttribute("transform", group.getAttribute("transform"));
      title.remove();
      return [bar, title];
    });
    canvas.replaceChildren(
      ...boxes.filter(isOpenBox), ...lines, ...boxes.filter(group => !isOpenBox(group)), ...titles);
    [view.width, view.height] = [result.width, result.height];
    mark();
  };

  const draw = async ({fit = false, focus = null} = {}) => {
    const turn = ++drawn;
    origins = [...new Set(program.stages.flatMap(each => each.nodes.map(originOf).filter(Boolean)))];
    $("busy").hidden = false;
    elk ??= new ELK({workerFactory: () => new Worker(workerUrl)});
    let result;
    try {
      result = await elk.layout(elkGraph(visible()));
    } finally {
      if (turn === drawn) $("busy").hidden = true;
    }
    if (turn !== drawn) return;
    for (const child of result.children) { // align both sides at the top
      if (child.id[0] === "c" && stage.clusters[child.id.slice(1)].side) child.y = 12;
    }
    render(result);
    showLegend();
    if (fit) fitView();
    if (focus) centre(focus);
    document.body.dataset.drawn = turn;
  };

  const make = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const showLegend = () => {
    const used = origins.filter(origin => stage.nodes.some(node => originOf(node) === origin));
    const rows = used.map(origin => {
      const colour = make("i");
      colour.style.setProperty("--hue", hue(origin));
      return make("div", {}, colour, origin);
    });
    const measured = step();
    if (!measured) return void $("legend").replaceChildren(...rows);
    const names = {time: "Time", memory: "Memory", passes: program.against ? "Changes" : "Passes"};
    const buttons = Object.entries(names).map(([name, label]) => {
      const button = make("button", {textContent: label, onclick: () => recolour(name)});
      button.dataset.colours = name;
      button.setAttribute("aria-pressed", name === colours);
      return button;
    });
    const group = make("div", {className: "switch"}, ...buttons);
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "coloring of ops");
    const end = colours === "time" ? percent(most[0] / measured.seconds) : bytes(most[1]);
    const scale = make("div", {}, "0", make("i", {className: "scale"}), end);
    const words = colours === "time"
      ? `share of the time of a step, ${ms(measured.seconds)} ms`
      : `memory of values at the memory peak of the step, ${bytes(valuesAtPeak())} in total`;
    $("legend").replaceChildren(group, ...(colours === "passes" ? rows : [scale, make("p", {}, words)]));
  };
  const recolour = name => {
    colours = name;
    render(layout);
    showLegend();
    $("legend").querySelector(`[data-colours=${name}]`).focus();
  };

  // -- pan and zoom -------------------------------------------------------------------------------

  const move = () => $("canvas").setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.scale})`);
  // compute the part of the drawing not covered by the legend and the buttons: all of it if the
  // graph is narrow enough to fit between them
  const free = () => {
    const {width, height, bottom} = $("drawing").getBoundingClientRect();
    const over = ["legend", "zoom"].map(id => $(id).getBoundingClientRect()).filter(each => each.height);
    const side = Math.max(0, ...over.map(each => each.width)) + 24;
    const wide = view.width * Math.min(height / (view.height + 24), 1.2) + 2 * side > width;
    const low = wide ? Math.max(0, ...over.map(each => bottom - each.top)) + 8 : 0;
    return {width, height: height - low};
  };
  // fit the whole graph, or with `readable` the top part that stays legible
  const fitView = (readable = true) => {
    const {width, height} = free();
    const whole = Math.min(width / (view.width + 24), height / (view.height + 24), 1.2);
    const least = readable ? (width < 700 ? 0.8 : Math.min(0.6, width / (view.width + 24))) : 0;
    view.scale = Math.max(whole, least);
    const first = layout?.children.find(each => !each.children) ?? {x: 0, width: view.width};
    const middle = view.width * view.scale > width ? first.x + first.width / 2 : view.width / 2;
    view.x = width / 2 - middle * view.scale;
    view.y = whole === view.scale ? (height - view.height * view.scale) / 2 : 12;
    move();
  };
  const zoom = (factor, x, y) => {
    const scale = Math.min(Math.max(view.scale * factor, 0.02), 4);
    view.x = x - (x - view.x) * (scale / view.scale);
    view.y = y - (y - view.y) * (scale / view.scale);
    view.scale = scale;
    move();
  };
  const zoomMiddle = factor => {
    const {width, height} = $("drawing").getBoundingClientRect();
    zoom(factor, width / 2, height / 2);
  };
  const centre = id => {
    const group = $(id);
    if (!group) return;
    let {width, height} = $("drawing").getBoundingClientRect();
    if (id[0] === "n") { // leave room for the details: at the right, or below on a phone
      if (width > 700) width -= 390;
      else height *= 0.45;
    }
    const [, x, y] = /translate\(([-\d.]+),([-\d.]+)\)/.exec(group.getAttribute("transform")).map(Number);
    view.scale = Math.max(view.scale, 0.8);
    const middle = Number(group.querySelector("rect").getAttribute("width")) / 2;
    view.x = width / 2 - (x + middle) * view.scale;
    view.y = height / 2 - (y + 20) * view.scale;
    move();
  };

  const pointers = new Map();
  let dragged = false;
  const drawing = $("drawing");
  drawing.addEventListener("wheel", event => {
    event.preventDefault();
    const {left, top} = drawing.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - left, event.clientY - top);
  }, {passive: false});
  drawing.addEventListener("pointerdown", event => {
    if (!pointers.size) dragged = false;
    pointers.set(event.pointerId, event);
  });
  drawing.addEventListener("pointermove", event => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
    if (!dragged && Math.hypot(dx, dy) < 4) return;
    dragged = true;
    if (pointers.size === 1) {
      view.x += dx;
      view.y += dy;
      move();
    } else {
      const other = [...pointers.values()].find(each => each.pointerId !== event.pointerId);
      const distance = each => Math.hypot(each.clientX - other.clientX, each.clientY - other.clientY);
      const {left, top} = drawing.getBoundingClientRect();
      zoom(distance(event) / Math.max(distance(before), 1), other.clientX - left, other.clientY - top);
    }
    pointers.set(event.pointerId, event);
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
    drawing.addEventListener(name, event => pointers.delete(event.pointerId));
  }

  // -- selection ----------------------------------------------------------------------------------

  const mark = () => {
    for (const group of document.querySelectorAll("#canvas .chosen")) group.classList.remove("chosen");
    const id = chosen < 0 ? "" : visible()[chosen];
    $(id)?.classList.add("chosen");
    for (const path of document.querySelectorAll("#canvas path.edge")) {
      path.classList.toggle("near", id !== "" && [path.dataset.from, path.dataset.to].includes(id));
    }
  };
  const number = value => value >= 1e9 ? `${(value / 1e9).toFixed(1)} G` : value >= 1e6
    ? `${(value / 1e6).toFixed(1)} M` : value >= 1e3 ? `${(value / 1e3).toFixed(1)} k` : `${value} `;

  const ofPeak = ([time, , , , atPeak]) => `${(100 * atPeak / time).toFixed(0)} %`;
  const rateOf = ([time, , flops]) => (flops && time ? flops / time : 0);
  const measuredRows = ({q}) => {
    const measured = step();
    if (!measured || !q) return [];
    const rate = rateOf(q);
    return [
      ["time", `${ms(q[TIME])} ms, ${percent(q[TIME] / measured.seconds)} of the step`],
      ["gradient", q[GRADIENT] ? `${ms(q[GRADIENT])} ms of this time` : ""],
      ["speed", rate ? `${number(rate)}FLOP/s, ${ofPeak(q)} of the peak` : ""],
      ["at the memory peak", q[HELD] ? bytes(q[HELD]) : ""],
    ];
  };

  const show = at => {
    chosen = at;
    mark();
    const panel = $("details");
    panel.hidden = at < 0;
    if (at < 0) return;
    const node = stage.nodes[at];
    const rows = [
      ["result", node.r], ...measuredRows(node), ["type", (node.t || []).join("\n")], ["line", node.l],
      ["against", [node.g, node.w].filter(Boolean).join(": ")],
      ["fused", node.u], ["made by", node.m], ["rebuilt by", node.o], ["state", (node.s || []).join("\n")],
      ...Object.entries(node.a || {}),
      ["FLOPs", node.f ? number(node.f).trim() : ""], ["traffic", node.b ? `${number(node.b)}B` : ""],
      ["in", around(node.c).filter(cluster => !stage.clusters[cluster].side)
        .map(cluster => stage.clusters[cluster].label).join(" / ")],
    ].filter(([, value]) => value);
    const list = document.createElement("dl");
    for (const [name, value] of rows) {
      const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
      dt.textContent = name;
      dd.textContent = value;
      dd.style.whiteSpace = "pre-wrap";
      list.append(dt, dd);
    }
    const close = document.createElement("button");
    close.className = "close";
    close.textContent = "Close";
    close.onclick = () => show(-1);
    const head = document.createElement("h2");
    head.textContent = node.k === "op" ? `pd.${node.n}` : `${node.k} ${node.n}`;
    panel.replaceChildren(close, head, list);
  };

  const toggle = cluster => {
    if (stage.clusters[cluster].side) return void show(-1);
    const path = pathOf(cluster);
    if (!unfolded.delete(path)) unfolded.add(path);
    draw({focus: `c${cluster}`});
  };
  const activate = target => {
    const group = target.closest("g[data-node], g[data-cluster]");
    if (!group) return show(-1);
    if (group.dataset.node !== undefined) show(Number(group.dataset.node));
    else toggle(Number(group.dataset.cluster));
  };
  drawing.addEventListener("click", event => dragged || activate(event.target));
  // center a box that gets the keyboard focus while out of view
  drawing.addEventListener("focusin", event => {
    if (!event.target.id || !event.target.matches(":focus-visible")) return;
    const [box, room] = [event.target, drawing].map(each => each.getBoundingClientRect());
    const across = box.right < room.left || box.left > room.right;
    if (across || box.bottom < room.top || box.top > room.bottom) centre(event.target.id);
  });
  drawing.addEventListener("keydown", event => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    activate(event.target);
  });

  // -- search -------------------------------------------------------------------------------------

  const reveal = at => {
    for (const cluster of around(stage.nodes[at].c)) unfolded.add(pathOf(cluster));
    $("matches").hidden = true;
    draw({focus: `n${at}`}).then(() => show(at));
  };
  const revealBlock = cluster => {
    for (const outer of around(cluster)) unfolded.add(pathOf(outer));
    $("matches").hidden = true;
    draw({focus: `c${cluster}`});
  };
  const find = () => {
    const words = $("search").value.trim().toLowerCase();
    const found = [];
    stage.nodes.forEach((node, at) => {
      const all = [node.n, node.r, node.l, node.m, node.u, node.g, ...(node.s || [])].filter(Boolean).join(" ").toLowerCase();
      if (words && all.includes(words)) found.push(at);
    });
    const blocks = stage.clusters.map((_, at) => at)
      .filter(at => words && !stage.clusters[at].side && stage.clusters[at].label.toLowerCase().includes(words));
    const list = $("matches");
    list.hidden = !words;
    const row = (label, action) => {
      const [item, button] = [document.createElement("li"), document.createElement("button")];
      button.textContent = label;
      button.onclick = action;
      item.append(button);
      return item;
    };
    const MOST = 50;
    const sideOf = cluster => {
      const outer = around(cluster)[0];
      return outer === undefined || !stage.clusters[outer].side ? "" : `(${outer ? "after" : "before"})`;
    };
    const rows = found.slice(0, MOST).map(at => {
      const node = stage.nodes[at];
      return row([node.n, node.r, node.l, sideOf(node.c)].filter(Boolean).join("  "), () => reveal(at));
    });
    if (found.length > MOST) rows.push(make("li", {}, `${found.length - MOST} more`));
    rows.push(...blocks.slice(0, MOST).map(at => row(`▣ ${stage.clusters[at].label}  ${sideOf(at)}`, () => revealBlock(at))));
    list.replaceChildren(...(rows.length ? rows : [make("li", {className: "none"}, `nothing found for “${words}” in this stage`)]));
  };
  $("search").addEventListener("input", find);
  $("search").addEventListener("keydown", event => {
    if (event.key === "Enter") $("matches").querySelector("button")?.click(); // a message has no button
    if (event.key === "Escape") $("matches").hidden = true;
  });

  // -- the table of times ---------------------------------------------------------------------------

  const FEW = 200;
  let order = TIME;
  let all = false; // show all rows, not only the first `FEW`
  const goTo = at => {
    setView("graph");
    setStage(program.views.length - 1).then(() => reveal(at));
  };
  const showTimes = () => {
    const measured = program.measured;
    if (!measured) return void $("view-time").replaceChildren();
    const last = program.stages.at(-1);
    const rows = last.nodes.map((node, at) => ({node, at})).filter(({node}) => node.q);
    const ops = rows.reduce((sum, {node}) => sum + node.q[TIME], 0);
    rows.sort((a, b) => b.node.q[order] - a.node.q[order] || b.node.q[TIME] - a.node.q[TIME]);
    const cell = (words, right, title) => make("td", {className: right ? "right" : "", title: title ?? ""}, words);
    const shown = rows.slice(0, all ? rows.length : FEW).map(({node, at}) => {
      const rate = rateOf(node.q);
      const line = node.l ?? "";
      const cluster = node.c === undefined ? "" : last.clusters[node.c].label.split(":")[0];
      return make("tr", {},
        make("td", {}, make("button", {textContent: node.n, onclick: () => goTo(at)})),
        cell(node.r || (node.s ?? [""])[0].split(" ")[0]), cell(cluster),
        cell(line.split(/[\\/]/).pop(), false, line),
        cell(ms(node.q[TIME]), true), cell(node.q[GRADIENT] ? ms(node.q[GRADIENT]) : "", true),
        cell(percent(node.q[TIME] / measured.seconds), true),
        cell(rate ? `${number(rate)}FLOP/s` : "", true),
        cell(rate ? ofPeak(node.q) : "", true),
        cell(node.q[HELD] ? bytes(node.q[HELD]) : "", true));
    });
    const rest = [["feeds, fetches, executor", measured.idle], ["instructions of no op", measured.other]]
      .filter(([, seconds]) => seconds)
      .map(([name, seconds]) => make("tr", {className: "rest"}, cell(name), cell(""), cell(""), cell(""),
        cell(ms(seconds), true), cell(""), cell(percent(seconds / measured.seconds), true), cell(""), cell(""), cell("")));
    const by = (label, value) => {
      const button = make("button", {textContent: label, onclick: () => { order = value; showTimes(); }});
      button.dataset.order = value;
      button.setAttribute("aria-pressed", order === value);
      return make("th", {className: "right"}, button);
    };
    const th = (label, right) => make("th", {className: right ? "right" : ""}, label);
    const head = make("tr", {}, th("op"), th("variable"), th("in"), th("line"), by("ms", TIME), by("gradient", GRADIENT),
      th("% of step", true), th("FLOP/s", true), th("% of peak", true), by("at the memory peak", HELD));
    const activations = Math.max(measured.memory - measured.state - measured.feeds, 0);
    const more = rows.length > shown.length
      ? [make("button", {textContent: `Show all ${rows.length} ops`, onclick: () => { all = true; showTimes(); }})] : [];
    $("view-time").replaceChildren(
      make("p", {}, `A step takes ${ms(measured.seconds)} ms, of which ${percent(ops / measured.seconds)} belong to ops `
        + `(mean of ${measured.steps} steps${measured.peaks}). `
        + `Its peak memory is ${bytes(measured.memory)}: ${bytes(measured.state)} of state, `
        + `${bytes(measured.feeds)} of feeds, ${bytes(activations)} of activations, gradients and fetches.`),
      make("table", {}, make("thead", {}, head), make("tbody", {}, ...shown, ...rest)), ...more);
  };

  // -- the compilations of the process ------------------------------------------------------------

  const PARTS = ["parse", "passes", "trace", "lower", "XLA", "load"];
  const showCompilations = () => {
    const found = data.programs.flatMap((each, at) => (each.compilations ?? []).map(one => ({...one, each, at})));
    document.querySelector("[data-view=compilations]").hidden = !found.length;
    if (!found.length) return;
    const sum = ({seconds}) => Object.values(seconds).reduce((all, one) => all + one, 0);
    const counts = new Map();
    for (const {why} of found) counts.set(why, (counts.get(why) ?? 0) + 1);
    const reasons = [...counts].sort((a, b) => b[1] - a[1]).map(([why, count]) => `${count} for ${why}`).join(", ");
    const programs = new Set(found.map(({at}) => at)).size;
    const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
    const short = seconds => (seconds * 1e3).toFixed(seconds < 1 ? 1 : 0);
    const long = seconds => (seconds < 10 ? `${short(seconds)} ms` : `${seconds.toFixed(1)} s`);
    const used = PARTS.filter(part => found.some(({seconds}) => seconds[part]));
    const cell = (words, right) => make("td", {className: right ? "right" : ""}, words);
    const rows = found.map(one => make("tr", {className: one.why === "new program" ? "" : "again"},
      make("td", {}, make("button", {textContent: one.each.title, onclick: () => {
        $("program").value = one.at;
        setView("graph");
        setProgram(one.at);
      }})),
      cell(one.why), cell(one.feeds), cell(short(sum(one)), true),
      ...used.map(part => cell(one.seconds[part] ? short(one.seconds[part]) : "", true)), cell(one.fix)));
    const th = (label, right) => make("th", {className: right ? "right" : ""}, label);
    const head = make("tr", {}, th("program"), th("reason"), th("feeds"), th("ms", true),
      ...used.map(part => th(part, true)), th("how to avoid it"));
    const whole = long(found.reduce((all, one) => all + sum(one), 0));
    $("view-compilations").replaceChildren(
      make("p", {}, `${plural(found.length, "executable")} of ${plural(programs, "program")}: ${reasons}; ${whole} in total.`),
      make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
  };

  // -- stages and views ---------------------------------------------------------------------------

  const options = (select, names) => select.replaceChildren(...names.map((name, at) => {
    const option = document.createElement("option");
    option.value = at;
    option.textContent = name;
    return option;
  }));

  const linesOf = diff => {
    const lines = document.createElement("div");
    lines.className = "lines";
    for (const line of diff) {
      const row = document.createElement("div");
      row.className = {"+": "plus", "-": "minus", "@": "place"}[line[0]] || "";
      row.textContent = line;
      lines.append(row);
    }
    return lines;
  };
  const showDiff = () => {
    if (stage.after) { // show the changes of each stage between the two
      const steps = program.stages.slice(program.pair[0] + 1, program.pair[1] + 1);
      const parts = steps.flatMap(each => [make("h2", {}, each.name), linesOf(each.diff)]);
      return void $("view-diff").replaceChildren(...parts);
    }
    const lines = linesOf(stage.diff);
    if (!stage.diff.length) lines.textContent = "This is the program before the passes.";
    $("view-diff").replaceChildren(lines);
  };

  const setStage = (at, options = {}) => {
    stage = program.views[at];
    $("stage").value = at;
    $("earlier").disabled = at === 0;
    $("later").disabled = at === program.views.length - 1;
    $("matches").hidden = true;
    show(-1);
    showDiff();
    return draw(options);
  };
  // unfold the clusters around changes against another program, if the changes are few and the
  // clusters small
  const showChanges = () => {
    for (stage of program.stages) {
      const changed = stage.nodes.filter(node => node.g);
      if (changed.length > 20) continue;
      const sizes = stage.clusters.map(() => 0);
      for (const node of stage.nodes) around(node.c).forEach(cluster => { sizes[cluster] += 1; });
      for (const node of changed) {
        const clusters = around(node.c);
        const large = clusters.findIndex(cluster => sizes[cluster] > 40);
        clusters.slice(0, large < 0 ? clusters.length : large).forEach(cluster => unfolded.add(pathOf(cluster)));
      }
    }
  };
  const setProgram = at => {
    program = data.programs[at];
    options($("stage"), program.views.map(each => each.name));
    $("view-overview").innerHTML = program.overview;
    $("view-against").innerHTML = program.against || "";
    if (program.against) {
      $("view-against").append(linesOf(program.stages[1].diff));
      showChanges();
    }
    document.querySelector("[data-view=against]").hidden = !program.against;
    document.querySelector("[data-view=time]").hidden = !program.measured;
    colours = program.against ? "passes" : "time";
    if (document.querySelector("nav [aria-pressed=true]").hidden) setView("graph");
    showTimes();
    $("view-numbers").innerHTML = program.numbers;
    const pre = document.createElement("pre");
    pre.textContent = program.explain;
    $("view-explain").replaceChildren(pre);
    return setStage(firstView(), {fit: true});
  };
  // Show both programs side by side if there is room, else the second one.
  const MANY = 2000;
  const firstView = () => {
    const pair = program.views[0];
    if (!pair.after) return program.views.length - 1;
    stage = pair;
    const boxes = new Set(visible()).size;
    const narrow = $("drawing").getBoundingClientRect().width < 700;
    return narrow || boxes > 600 ? program.views.indexOf(pair.after) : 0;
  };

  const setView = name => {
    for (const button of document.querySelectorAll("nav button")) {
      button.setAttribute("aria-pressed", button.dataset.view === name);
      $(`view-${button.dataset.view}`).hidden = button.dataset.view !== name;
    }
    $("stages").hidden = !["graph", "diff"].includes(name);
    for (const id of ["search", "unfold", "fold"]) $(id).hidden = name !== "graph";
    if (name === "graph") fitView();
  };
  for (const button of document.querySelectorAll("nav button")) {
    button.onclick = () => setView(button.dataset.view);
  }

  $("stage").onchange = event => setStage(Number(event.target.value), {fit: true});
  $("earlier").onclick = () => setStage(Number($("stage").value) - 1, {fit: true});
  $("later").onclick = () => setStage(Number($("stage").value) + 1, {fit: true});
  $("program").onchange = event => setProgram(Number(event.target.value));
  $("unfold").onclick = () => {
    // leave many unordered ops, such as updates, folded: they would form one wide row
    const isRow = at => stage.clusters[at].label === "updates" && sizeOfCluster(at) > 12;
    unfolded = new Set(stage.clusters.map((_, at) => at).filter(at => !isRow(at)).map(pathOf));
    // show one of two large graphs: the layout of both is slow and not legible
    const many = stage.after && stage.nodes.length > MANY;
    return many ? setStage(program.views.indexOf(stage.after), {fit: true}) : draw({fit: true});
  };
  $("fold").onclick = () => {
    unfolded = new Set();
    draw({fit: true});
  };
  $("closer").onclick = () => zoomMiddle(1.3);
  $("farther").onclick = () => zoomMiddle(1 / 1.3);
  $("whole").onclick = () => fitView(false);

  document.querySelector("h1").textContent = data.title;
  options($("program"), data.programs.map(each => each.title));
  $("program").hidden = data.programs.length < 2;
  showCompilations();
  await setProgram(0);
  document.body.dataset.ready = "true";
})();
