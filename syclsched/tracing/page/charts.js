// SPDX-License-Identifier: Apache-2.0
// Drawing of HTML reports: paints the bars of Gantt charts as pictures of the size in which they are seen, thins curves
// and lines to that size, and shows the text of the bar at the pointer. Bokeh draws the axes and zooms.
"use strict";

const syclschedCharts = (() => {
  // Layers of bars, each painted over those before.
  const WORK = 1, MARK = 2, PATH = 3;
  // Bars are at least this wide [pixels] to be separated from the next one or to have a pattern.
  const SEPARATED = 3, PATTERNED = 5;
  // Bars that cover less of a pixel are as dark as if they covered this much.
  const LEAST_COVER = 0.1;
  // Marks (failed and cancelled instructions, and barriers) are at least this wide [pixels].
  const MARKED = 2;
  // Distance from the pointer [pixels] at which a bar is found.
  const REACH = 2;

  let given = null, texts = [], tip = null, pointer = {x: 0, y: 0}, drawn = "", waiting = false;

  const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const packed = (r, g, b) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;

  // Tells of each pattern which pixels have the second colour.
  const LIT = [
    null,
    (x, y, size) => (x + y) % size < size / 6,
    (x, y, size) => (x + y) % size < size / 6 || (x - y + 1e6 * size) % size < size / 6,
    (x, y, size) => x % size < size / 3 && y % size < size / 3,
  ];

  // Adds the part of each column that a bar covers, times its colour, to sums of red, green, blue and cover.
  const cover = (sums, base, columns, a, b, [red, green, blue]) => {
    const last = Math.min(columns - 1, Math.floor(b));
    for (let x = Math.max(0, Math.floor(a)); x <= last; x++) {
      const part = Math.min(b, x + 1) - Math.max(a, x), at = 4 * (base + x);
      if (part >= 1) sums[at] = sums[at + 1] = sums[at + 2] = sums[at + 3] = 0;
      sums[at] += part * red;
      sums[at + 1] += part * green;
      sums[at + 2] += part * blue;
      sums[at + 3] += part;
    }
  };

  // Lays the sums of one layer over a line of pixels.
  const over = (line, sums, base) => {
    for (let x = 0; x < line.length; x++) {
      const at = 4 * (base + x), covered = sums[at + 3];
      if (covered <= 0) continue;
      const shown = Math.min(1, Math.max(covered, LEAST_COVER)), rest = 1 - shown;
      const scale = shown / covered, under = line[x];
      line[x] = packed(
        sums[at] * scale + (under & 255) * rest,
        sums[at + 1] * scale + ((under >> 8) & 255) * rest,
        sums[at + 2] * scale + ((under >> 16) & 255) * rest,
      );
    }
    return line;
  };

  // Returns the picture of all bars between two times: an array of pixels.
  const paint = (bars, rows, columns, height, ratio, start, end) => {
    const {left, right, row, layer, colour, pattern} = bars, {layers, palette, patterns, band} = given;
    const count = layers.length, scale = columns / (end - start);
    const sums = new Float32Array(4 * rows * count * columns);
    const kinds = new Uint8Array(rows * columns), offsets = new Int8Array(rows * columns), size = Math.round(7 * ratio);
    const patterned = new Uint8Array(rows);
    for (let i = 0; i < left.length; i++) {
      if (right[i] < start || left[i] > end) continue;
      let a = (left[i] - start) * scale, b = (right[i] - start) * scale;
      const kind = pattern[i], wide = b - a >= PATTERNED * ratio;
      if (layer[i] === MARK) b = Math.max(b, a + MARKED * ratio);
      if ((layer[i] === WORK || layer[i] === MARK) && b - a >= SEPARATED * ratio) b -= 0.7 * ratio;
      const shown = kind === 0 ? palette[colour[i]] : wide ? patterns[kind].colour : patterns[kind].thin;
      cover(sums, (row[i] * count + layer[i]) * columns, columns, a, b, shown);
      if (kind > 0 && wide) {
        patterned[row[i]] = 1;
        const origin = Math.round(a) % size;  // patterns move with their bars
        const from = Math.max(0, Math.ceil(a)), to = Math.min(columns, Math.floor(b));
        for (let x = from; x < to; x++) {
          kinds[row[i] * columns + x] = kind;
          offsets[row[i] * columns + x] = (((x - origin) % size) + size) % size;
        }
      }
    }
    const pixels = new Uint32Array(columns * height), row_height = height / rows;
    for (let r = 0; r < rows; r++) {
      const lines = new Map();
      for (let y = Math.round(r * row_height); y < Math.round((r + 1) * row_height); y++) {
        const place = (y + 0.5) / row_height - r - 0.5;
        if (Math.abs(place) > band.half) continue;
        const inside = layers.map(([low, high]) => low <= place && place <= high), key = inside.join();
        if (!lines.has(key)) {
          const line = new Uint32Array(columns).fill(band.colour);
          inside.forEach((is, n) => is && over(line, sums, (r * count + n) * columns));
          lines.set(key, line);
        }
        pixels.set(lines.get(key), y * columns);
        if (!patterned[r] || !inside[WORK] || inside[PATH]) continue;
        for (let x = 0; x < columns; x++) {
          const kind = kinds[r * columns + x];
          if (kind > 0 && LIT[kind](offsets[r * columns + x], y, size)) pixels[y * columns + x] = patterns[kind].ink;
        }
      }
    }
    return pixels;
  };

  // Returns the points of a curve between two times: of each column the first, least, greatest and last.
  const thinned = ({x, y}, columns, start, end) => {
    let from = 0, to = x.length;
    while (from + 1 < x.length && x[from + 1] <= start) from++;
    while (to > from + 1 && x[to - 2] >= end) to--;
    const chosen = [];
    for (let i = from; i < to; ) {
      const column = Math.floor(((x[i] - start) * columns) / (end - start));
      let last = i, low = i, high = i;
      for (; last + 1 < to && Math.floor(((x[last + 1] - start) * columns) / (end - start)) === column; ) {
        last++;
        if (y[last] < y[low]) low = last;
        if (y[last] > y[high]) high = last;
      }
      for (const each of new Set([i, Math.min(low, high), Math.max(low, high), last])) chosen.push(each);
      i = last + 1;
    }
    return {x: Float64Array.from(chosen, (i) => x[i]), y: Float64Array.from(chosen, (i) => y[i])};
  };

  // Returns the lines between two times, without those that would be drawn at the same place.
  const distinct = ({x0, y0, x1, y1}, columns, start, end) => {
    const places = new Set(), chosen = [], scale = columns / (end - start);
    for (let i = 0; i < x0.length; i++) {
      if (Math.max(x0[i], x1[i]) < start || Math.min(x0[i], x1[i]) > end) continue;
      const place = [Math.round((x0[i] - start) * scale), Math.round((x1[i] - start) * scale), y0[i], y1[i]].join();
      if (!places.has(place)) chosen.push(i);
      places.add(place);
    }
    const take = (column) => Float64Array.from(chosen, (i) => column[i]);
    return {x0: take(x0), y0: take(y0), x1: take(x1), y1: take(y1)};
  };

  const draw = () => {
    const {start, end} = given.range, ratio = window.devicePixelRatio || 1;
    const sizes = given.charts.map(({figure}) => [figure.inner_width, figure.inner_height]);
    const state = [start, end, ratio, ...sizes].join();
    if (state === drawn || !(end > start)) return;
    drawn = state;
    const columns = Math.max(1, Math.round(ratio * (sizes[0][0] || 1000)));
    given.charts.forEach(({bars, picture, rows}, n) => {
      const height = Math.max(rows, Math.round(ratio * (sizes[n][1] || 20 * rows)));
      const pixels = paint(bars.data, rows, columns, height, ratio, start, end);
      const image = new picture.data.image[0].constructor(pixels, [height, columns]);
      picture.data = {image: [image], x: [start], dw: [end - start]};
    });
    for (const [all, shown] of given.lines) shown.data = distinct(all.data, columns, start, end);
    for (const [all, shown] of given.curves) shown.data = thinned(all.data, columns, start, end);
  };

  // Draws at once, so that Bokeh paints axes and bars in one frame; later changes in the same frame wait for the next.
  const update = () => {
    if (given === null || waiting) return;
    waiting = true;
    draw();
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };

  const open = (charts) => {
    const {band, palette, patterns} = charts;
    given = {
      ...charts,
      band: {half: band.half, colour: packed(...channels(band.colour))},
      palette: palette.map(channels),
      patterns: patterns.map(({colour, thin, ink}) => (
        {colour: channels(colour), thin: channels(thin), ink: packed(...channels(ink))}
      )),
    };
    update();
    document.addEventListener("pointermove", (event) => (pointer = {x: event.clientX, y: event.clientY}), true);
    const bytes = Uint8Array.from(atob(document.getElementById("stories").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    new Response(stream).text().then((text) => {
      texts = JSON.parse(text);
      document.body.dataset.stories = texts.length;
    });
  };

  // Returns the text of the nearest bar within reach; among those that contain the place, of the last.
  const found = ({figure, bars}, x, y) => {
    const {left, right, row, layer, story} = bars.data, {range, layers} = given;
    const lane = Math.round(y), place = y - lane, pixel = (range.end - range.start) / figure.inner_width;
    let least = REACH * pixel, best = -1;
    for (let i = 0; i < left.length; i++) {
      if (row[i] !== lane || layer[i] === PATH) continue;
      const [low, high] = layers[layer[i]];
      const until = layer[i] === MARK ? Math.max(right[i], left[i] + MARKED * pixel) : right[i];
      const away = Math.max(left[i] - x, x - until, 0);
      if (away <= least && low <= place && place <= high) [least, best] = [away, i];
    }
    return best < 0 ? "" : texts[story[best]] ?? "";
  };

  const point = (place, event) => {
    const text = found(given.charts[place], event.x, event.y);
    if (tip === null) {
      tip = document.createElement("div");
      tip.className = "tip";
      document.body.append(tip);
    }
    tip.textContent = text;
    tip.hidden = text === "";
    if (tip.hidden) return;
    const {width, height} = tip.getBoundingClientRect(), {x, y} = pointer, room = document.documentElement;
    tip.style.left = `${Math.max(4, Math.min(x + 14, room.clientWidth - width - 8))}px`;
    tip.style.top = `${y + 18 + height <= room.clientHeight ? y + 18 : Math.max(4, y - height - 12)}px`;
  };

  const leave = () => tip !== null && (tip.hidden = true);

  const pick = (place, event) => {
    const text = found(given.charts[place], event.x, event.y);
    if (text !== "") document.getElementById("picked").textContent = text;
  };

  const charts = () => given.charts;

  return {open, update, point, leave, pick, charts, thinned, distinct};
})();
