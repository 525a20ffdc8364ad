// The live page: which panel draws how often.

import { createQueueChart } from "../panels/queue_chart.js";
import { drawSentence } from "../panels/sentence.js";
import { createStrip } from "../panels/strip.js";
import { drawTiles } from "../panels/tiles.js";
import { createTimeline } from "../panels/timeline.js";
import { createTryCard } from "../panels/try_card.js";
import { drawWaiting } from "../panels/waiting_table.js";
import { startShell } from "../shell.js";

const { store, loop } = startShell();
const strip = createStrip(store);
const queue = createQueueChart(store);
const timeline = createTimeline(store, loop);

// one draw for all three, so that the sentence, the tiles and the table never disagree
loop.add(400, (state) => {
  drawSentence(state);
  drawTiles(state);
  drawWaiting(state);
});
loop.add(100, strip.draw);
loop.add(250, queue.draw);
loop.add(100, timeline.draw);
loop.add(500, createTryCard(store).draw);
for (const panel of [strip, queue, timeline]) loop.add(1000, panel.drawTable);
