// Probes that the browser tests run inside a page. Each is a function expression, picked by name from this object.
({
  // the (boot, seq) shown and every tile's unrounded value
  tiles: () => ({
    boot: Number(document.body.dataset.boot),
    seq: Number(document.body.dataset.seq),
    values: Object.fromEntries([...document.querySelectorAll("[data-tile]")].map((node) => [node.dataset.tile, JSON.parse(node.dataset.value)])),
  }),

  // for `ms`: every state that the tiles show, and /api/live asked meanwhile
  watchTiles: async (ms) => {
    const read = () => Object.fromEntries([...document.querySelectorAll("[data-tile]")].map((node) => [node.dataset.tile, JSON.parse(node.dataset.value)]));
    const shown = new Map();
    const note = () => shown.set(`${document.body.dataset.boot}:${document.body.dataset.seq}`, read());
    const observer = new MutationObserver(note);
    observer.observe(document.body, { attributes: true, attributeFilter: ["data-seq"] });
    const asked = [];
    const end = performance.now() + ms;
    while (performance.now() < end) {
      const { boot, seq, gauges } = await (await fetch("/api/live", { cache: "no-store" })).json();
      asked.push({ key: `${boot}:${seq}`, gauges });
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
    observer.disconnect();
    return asked.filter(({ key }) => shown.has(key)).map(({ key, gauges }) => ({ key, gauges, values: shown.get(key) }));
  },

  // what changes within `ms`: records of mutations, and whether a canvas was drawn differently
  changes: async (ms) => {
    const pictures = () => [...document.querySelectorAll("canvas")].map((canvas) => canvas.toDataURL());
    const before = pictures();
    const found = [];
    const observer = new MutationObserver((records) => records.forEach((record) => found.push(`${record.type} ${record.attributeName || ""} ${record.target.nodeName}`)));
    observer.observe(document.documentElement, { subtree: true, childList: true, attributes: true, characterData: true });
    await new Promise((resolve) => setTimeout(resolve, ms));
    observer.disconnect();
    const after = pictures();
    after.forEach((picture, index) => picture === before[index] || found.push(`canvas ${index}`));
    return found;
  },

  overflow: () => document.documentElement.scrollWidth - document.documentElement.clientWidth,

  // how each of these colours stands out against a card
  ink: (names) => {
    const at = (name) => {
      const node = document.createElement("i");
      node.style.color = `var(--${name})`;
      document.body.append(node);
      const rgb = getComputedStyle(node).color.match(/[\d.]+/g).slice(0, 3).map((v) => v / 255);
      node.remove();
      return rgb.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    };
    return names.map((name) => {
      const [x, y] = [at(name), at("card")].sort((a, b) => b - a);
      return (x + 0.05) / (y + 0.05);
    });
  },

  // visible texts whose contrast with what is behind them is below `least`
  faint: (least) => {
    const channels = (text) => (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
    const over = (front, back) => [0, 1, 2].map((i) => front[i] * front[3] + back[i] * (1 - front[3]));
    const light = (rgb) => rgb.map((value) => value / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (node) => {
      const layers = [];
      for (let at = node; at; at = at.parentElement) layers.unshift(channels(getComputedStyle(at).backgroundColor));
      return layers.reduce((back, [r, g, b, a = 1]) => over([r, g, b, a], back), [255, 255, 255]);
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode.parentElement;
      if (!walker.currentNode.textContent.trim() || !node.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
      if (node.closest("option, script, style, noscript, .sr")) continue;
      const back = ground(node), [r, g, b, a = 1] = channels(getComputedStyle(node).color);
      const [x, y] = [light(over([r, g, b, a], back)), light(back)].sort((p, q) => q - p);
      const ratio = (x + 0.05) / (y + 0.05);
      if (ratio < least) found.push(`${ratio.toFixed(2)} ${node.nodeName}.${node.className} "${walker.currentNode.textContent.trim().slice(0, 30)}"`);
    }
    return found;
  },
})
