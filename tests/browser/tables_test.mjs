// What answers and tables say exactly, run by node (test_scripts.py starts it): the document is a stand-in that keeps texts.

import assert from "node:assert/strict";
import test from "node:test";

import { exact, post } from "../../static/js/api.js";
import { coded } from "../../static/js/dom.js";
import { int } from "../../static/js/format.js";
import { figures } from "../../static/js/panels/compare_tables.js";
import { whatWasRun } from "../../static/js/panels/report_tables.js";
import { runsTable } from "../../static/js/panels/runs_table.js";

class Node {
  children = [];
  attributes = {};
  constructor(tag) {
    this.tag = tag;
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  append(...children) {
    this.children.push(...children);
  }
  get textContent() {
    return this.children.map((child) => child.textContent ?? child).join("");
  }
  get style() {
    return { setProperty: () => null };
  }
  all(tag) {
    return this.children.flatMap((child) => (child instanceof Node ? [...(child.tag === tag ? [child] : []), ...child.all(tag)] : []));
  }
}
globalThis.document = { createElement: (tag) => new Node(tag), createElementNS: (_, tag) => new Node(tag) };
const texts = (nodes) => nodes.map((node) => node.textContent);

test("a whole number that a Number would round comes as text, and nothing else changes", () => {
  const said = '{"wall": 1796116287927719896, "list": [-1796116287927719896,1,9007199254740991], "f": 0.12345678901234567, "e": 1e300}';
  assert.deepEqual(exact(said), {
    wall: "1796116287927719896",
    list: ["-1796116287927719896", 1, 9007199254740991],
    f: 0.12345678901234567,
    e: 1e300,
  });
  const texts = { a: ":1796116287927719896,", b: 'x"1796116287927719896\\', c: [true, false, null] };
  assert.deepEqual(exact(JSON.stringify(texts)), texts);
  assert.deepEqual([int("9223372036854775807"), int(12345.4), int(null)], ["9,223,372,036,854,775,807", "12,345", "—"]);
});

test("an answer of the server comes so", async () => {
  globalThis.fetch = async () => new Response('{"rows": [[1796116287927719896]]}');
  assert.deepEqual(await post("/api/sql", {}), { rows: [["1796116287927719896"]] });
});

test("what stands between backticks is code", () => {
  const parts = coded("try `a b`, then `c`");
  assert.deepEqual(parts.map((part) => part.tag ?? part), ["try ", "code", ", then ", "code", ""]);
  assert.deepEqual(texts(parts.filter((part) => part.tag)), ["a b", "c"]);
});

test("a run's list says what bound it before its verdict", () => {
  const run = { id: "r", status: "finished", settings: {}, verdict: "host_limited", verdict_reason: "9 % late", bound: "slots" };
  const [row] = runsTable([run]).all("tbody")[0].all("tr");
  const cell = row.all("td")[3];
  assert.equal(cell.textContent, "bound by slotshost limited");
  assert.equal(cell.all("span").at(-1).attributes.title, "9 % late");
});

test("of what was run, all that was set for this run has a star", () => {
  const run = { scenario: "noisy_neighbour", parameters: { noisy_from_s: 3, drain_s: 15 } };
  const found = whatWasRun({ run, settings: { max_num_seqs: 16, watermark: 0 }, asked: { noisy_from_s: 3, max_num_seqs: 16 } });
  assert.deepEqual(texts(found[0].all("dd")).slice(4), ["3 *", "15", "16 *", "0"]);
});

test("a count among compared figures is whole, and a measure is not", () => {
  const row = (name, values) => ({ name, values, n: [1, 1], few: [false, false], difference: [0, 0], relative: [0, 0], interval: [null, null], relative_interval: [null, null], reading: [null, null] });
  const runs = ["a", "b"].map((id) => ({ run: { id }, settings: {} }));
  const made = figures({ runs, metrics: [row("fairness.starvation.over", [365, 54]), row("goodput.per_s", [12, 54])] });
  const cells = made.all("tr").slice(1).map((line) => texts(line.all("td")));
  assert.deepEqual(cells.map((line) => line.slice(0, 2)), [["12.0", "54.0"], ["365", "54"]]);
});
