// What the pages read of each answer, as far as every answer has it: "rows[]" is a list, whose first row must have the name.
// A field that is gone (another version of the server, a renamed figure) is an error with its name, never an empty chart.
// Knows no page; tests hold the list against the server's answers and against what the pages read.

const ID = "[^/]+";
const RUN = "id name scenario status started ended scheduler settings simulated seed verdict progress stale unlike_default verdict_reason bound";
const REQUEST =
  "id received state finish detail tenant kind run policy top_wait queue_ms ttft_ms tpot_ms e2e_ms prompt_tokens output_tokens preemptions";
const rows = (list, names) => names.split(" ").map((name) => `${list}[].${name}`);

const FIELDS = [
  ["/api/runs", [..."items next_before total".split(" "), ...rows("items", RUN)]],
  [
    `/api/runs/${ID}/report`,
    "run headline verdict verdict_reason simulated reconciliation waits percentiles goodput throughput steps waste interference fairness settings timeline asked",
  ],
  ["/api/compare", "runs metrics waits tenants differing equal warnings split interval"],
  ["/api/requests", [..."items next_cursor total total_exact asked".split(" "), ...rows("items", REQUEST)]],
  ["/api/requests/fields", "names words measures exports"],
  ["/api/requests/facets", ["facets", ...rows("facets", "field values more timed_out")]],
  ["/api/requests/spread", "percentiles histogram undefined unit"],
  [
    "/api/requests/(?!sql$|summary$)[^/]+",
    `${REQUEST} age_ms batch_mates cached_tokens client client_request_id deadline_ms decode_ms endpoint events gaps ignored_fields max_tokens model next number overtaken preempted_ms output_text prefill_ms previous priority prompt_text queue sequences slices stalled_ms status_code stream timeout_ms waited waits`,
  ],
  ["/api/steps", "boots steps truncated"],
  ["/api/segments", "boots groups segments start_ms end_ms total truncated requests_truncated"],
  [
    "/api/scheduler",
    [
      ..."engine paused policies settings table version vllm".split(" "),
      ...rows("policies", "name help guarantee params source yours"),
      ...rows("table", "name type default help low high live choices unit vllm"),
    ],
  ],
  ["/api/scheduler/changes", ["items", "truncated", ...rows("items", "at boot changes run version")]],
  ["/api/scenarios", ["items", ...rows("items", "name title description parameters duration_s processes")]],
  ["/api/sql/schema", "tables bounds"],
  ["snapshot", "boot seq wall_ms server gauges steps segments waiting_now markers run"],
  [
    "gauges",
    "engine waiting running preempted preemptions finished blocks_total blocks_free max_num_seqs output_tok_s prefill_tok_s step_ms_p50 budget_used ttft_p50_ms ttft_p95_ms ttft_p99_ms ttft_n itl_p50_ms itl_p95_ms itl_p99_ms itl_n observe_us_step host_late now_ms",
  ],
  ["steps", "seq step t ms prefill decode budget binding waiting running kv_used preempted slots by_reason"],
  ["segments", "id number slot phase t0 t1 tenant reason"],
].map(([place, names]) => [new RegExp(`^${place}$`), typeof names === "string" ? names.split(" ") : names]);

/** The names that `answer`, an object from `place` (the path of a GET, or a part of the websocket's snapshot), lacks. */
export function gone(place, answer) {
  const found = FIELDS.find(([pattern]) => pattern.test(place));
  if (!found || answer.computing) return []; // of a report that is being made there is nothing yet
  return found[1].filter((name) => lacks(answer, name));
}

function lacks(answer, name) {
  const [list, inner] = name.split("[].");
  if (inner === undefined) return !(name in answer);
  return Array.isArray(answer[list]) && answer[list].length > 0 && !(inner in answer[list][0]);
}

/** The same of a snapshot of the websocket, its parts included. */
export function goneOf(snapshot) {
  const missing = gone("snapshot", snapshot);
  const parts = ["gauges", "steps", "segments"].filter((name) => snapshot[name]);
  return [...missing, ...parts.flatMap((part) => gone(part, snapshot[part]).map((name) => `${part}.${name}`))];
}

export const goneWords = (names) => `field gone: ${names.join(", ")}. This page and the server are not of one version`;
