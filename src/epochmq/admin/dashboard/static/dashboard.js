// The pages of the dashboard. One module, no build step: it runs in the browser as it is.

const byId = (id) => document.getElementById(id);
const state = { session: null, cluster: null, leave: [], live: null, events: null };

// Elements ------------------------------------------------------------------------------------

/** Make an element. Text is always set as text, never as HTML: it may come from strangers. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

const number = (value) =>
  value === null || value === undefined ? "–" : Number(value).toLocaleString("en");
const text = (value) => (value === null || value === undefined || value === "" ? "–" : value);

function moment(ms, withMillis = false) {
  if (!ms) return "–";
  const date = new Date(ms);
  const clock = date.toLocaleTimeString("en-GB");
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toISOString().slice(0, 10)} `;
  return day + clock + (withMillis ? `.${String(date.getMilliseconds()).padStart(3, "0")}` : "");
}

const badge = (label, kind = "") => h("span", { class: `badge ${kind}` }, label);
const link = (page, parameters, label) => h("a", { href: address(page, parameters) }, label);

/** A table. A column is [title, function of a row, "number" or another class]. */
function table(caption, columns, rows, empty = "There is nothing to show.") {
  if (!rows.length) return h("div", {}, h("h2", {}, caption), h("p", { class: "soft" }, empty));
  const head = columns.map(([title, , kind]) => h("th", { scope: "col", class: kind }, title));
  const lines = rows.map((row) =>
    h("tr", { class: row.chosen ? "chosen" : null },
      columns.map(([, cell, kind]) => h("td", { class: kind }, cell(row)))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, lines)));
}

const waiting = () => h("p", { class: "soft waiting" }, "Asking the cluster …");
const panel = (...children) => h("section", { class: "panel" }, children);
const facts = (pairs) =>
  h("dl", { class: "facts" }, pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

let loading = 0;

/** Show the content of a page, and no note about waiting any more. */
function show(...children) {
  clearTimeout(loading);
  byId("main").replaceChildren(...children.flat());
}

function tell(message) {
  byId("status").textContent = message;
}

function complain(message) {
  byId("problem").textContent = message || "";
  byId("problem").hidden = !message;
}

// Requests ------------------------------------------------------------------------------------

async function call(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new Error("The dashboard does not answer.");
  }
  const body = await response.json().catch(() => ({}));
  if (response.status === 401) {
    await openSession();
    if (needsLogin()) showLogin();
  }
  if (!response.ok) throw new Error(body.error || `The dashboard answered ${response.status}.`);
  return body;
}

/** Ask about the cluster. The answer for a page that was left meanwhile is not used. */
async function ask(name, parameters = {}) {
  const own = turn;
  const found = await call(`/api/c/${encodeURIComponent(state.cluster)}/${name}?${new URLSearchParams(parameters)}`);
  if (own !== turn) throw new Error("The page was left.");
  return found;
}

const post = (path, body) =>
  call(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRF-Token": state.session.csrf },
    body: JSON.stringify(body),
  });

async function openSession() {
  const response = await fetch("/api/session", { credentials: "same-origin" });
  useSession(await response.json());
}

function useSession(session) {
  state.session = session;
  const names = session.clusters.map((each) => each.name);
  if (!names.includes(state.cluster)) state.cluster = names[0];
  byId("cluster").replaceChildren(
    ...names.map((name) => h("option", { value: name, selected: name === state.cluster }, name)));
  const { user } = current();
  byId("user").replaceChildren(
    ...(user ? [`${user} `, h("button", { type: "button", onclick: logOut }, "Log out")] : []),
    ...(session.read_only ? [" read only"] : []));
}

const current = () => state.session.clusters.find((each) => each.name === state.cluster);
const needsLogin = () => current().login_required && !current().user;

async function logOut() {
  await post("/api/logout", {});
  await openSession();
  route();
}

function showLogin() {
  leavePage();
  const problem = h("p", { class: "badge bad", role: "alert", hidden: true });
  const user = h("input", { name: "user", autocomplete: "username", required: true });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const form = h("form", { class: "login" },
    h("label", {}, "User", user), h("label", {}, "Password", password),
    problem, h("button", { class: "main" }, "Log in"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.hidden = true;
    try {
      useSession(await post("/api/login", { cluster: state.cluster, user: user.value, password: password.value }));
      route();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      password.value = "";
      password.focus();
    }
  });
  show(h("h1", {}, `Log in to ${state.cluster}`),
    panel(h("p", { class: "soft" }, "Use a user of the cluster. The pages show and do what this user may."), form));
  user.focus();
}

/** Receive events until the page is left. */
function listen(name, parameters, onRow) {
  const source = new EventSource(
    `/api/c/${encodeURIComponent(state.cluster)}/${name}?${new URLSearchParams(parameters)}`);
  source.onmessage = (event) => { complain(""); onRow(JSON.parse(event.data)); };
  source.addEventListener("problem", (event) => {
    complain(JSON.parse(event.data).error);
    source.close();
  });
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) openSession().then(route, () => {});
    complain("The connection to the dashboard is lost; it is tried again.");
  };
  state.leave.push(() => source.close());
  return source;
}

// Dialogs -------------------------------------------------------------------------------------

/** Ask for a confirmation. `act` runs once, however often the button is pressed. */
function confirmAction(title, details, label, act) {
  const dialog = byId("dialog");
  const result = h("p", { role: "alert" });
  const yes = h("button", { class: "main", type: "button" }, label);
  const no = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  yes.addEventListener("click", async () => {
    if (yes.disabled) return;
    yes.disabled = true;
    try {
      result.textContent = await act();
      yes.remove();
      no.textContent = "Close";
      no.focus();
    } catch (error) {
      result.textContent = error.message;
      yes.disabled = false;
    }
  });
  dialog.replaceChildren(h("h2", { id: "dialog-title" }, title), details, result,
    h("div", { class: "buttons" }, no, yes));
  dialog.showModal();
  no.focus();
}

// Charts --------------------------------------------------------------------------------------

/** A line chart of samples that grow; the last values are also in its label, for screen readers. */
function chart(label, names) {
  const element = h("div", { class: "chart", role: "img" });
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let plot = null;
  const make = (data) => {
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") } };
    const strokes = [color("--accent"), color("--good")];
    plot = new uPlot({
      width: Math.max(240, element.clientWidth), height: 180, cursor: { y: false }, legend: { live: false },
      axes: [{ ...axis, values: (_, times) => times.map((each) => moment(each * 1000)), space: 90 }, { ...axis, size: 70 }], scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
      series: [{}, ...names.map((name, i) => ({ label: name, stroke: strokes[i], width: 2 }))],
    }, data, element);
  };
  const resize = () => plot && plot.setSize({ width: Math.max(240, element.clientWidth), height: 180 });
  window.addEventListener("resize", resize);
  const redraw = () => { if (plot) { const data = plot.data; plot.destroy(); make(data); } };
  byId("theme").addEventListener("click", redraw);
  state.leave.push(() => {
    window.removeEventListener("resize", resize);
    byId("theme").removeEventListener("click", redraw);
  });
  return {
    element,
    set(data) {
      if (plot) plot.setData(data);
      else if (element.clientWidth) make(data);
      const last = data.slice(1).map((series, i) => `${names[i]} ${number(series.at(-1))}`);
      element.setAttribute("aria-label", `${label}: ${last.join(", ")}`);
    },
  };
}

// Cluster -------------------------------------------------------------------------------------

const ROLE_KINDS = { master: "good", dead: "bad", "acting master": "warn" };

function groupPanel(group) {
  const inSync = group.replicas.filter((each) => each.in_sync).length;
  const title = [h("h3", {}, group.name, " ",
    group.master ? badge(`master ${group.master}`, "good")
      : group.acting ? badge(`acting master ${group.acting}`, "warn") : badge("no master", "bad"))];
  if (group.set_epoch) {
    title.push(h("p", { class: "soft" },
      `epoch ${group.master_epoch}, in sync ${inSync} of ${group.replicas.length}, set epoch ${group.set_epoch}`));
  }
  return panel(title, table(`Brokers of ${group.name}`, [
    ["Id", (r) => r.broker_id], ["Address", (r) => r.address],
    ["Role", (r) => badge(r.role, ROLE_KINDS[r.role])],
    ["Epoch", (r) => text(r.epoch), "number"],
    ["In sync", (r) => (r.in_sync === null ? "–" : r.in_sync ? badge("yes", "good") : badge("no", "warn"))],
    ["Log end", (r) => number(r.max_offset), "number"],
    ["Lag (bytes)", (r) => number(r.lag_bytes), "number"],
    ["Trouble", (r) => text(r.trouble)],
  ], group.replicas));
}

function failoverPanel(failovers) {
  const rows = failovers.slice(-20).reverse();
  if (!rows.length) return panel(h("h2", {}, "Failovers"), h("p", { class: "soft" }, "No failover is known."));
  return panel(h("h2", {}, "Failovers"), rows.map((each) => {
    const first = each.steps.find((step) => step.step === "last heard") || each.steps[0];
    return h("article", {},
      h("h3", {}, `${each.group}, epoch ${each.epoch}: ${each.master}`),
      h("ol", { class: "steps" }, each.steps.map((step) =>
        h("li", { title: moment(step.wall_ms, true) },
          step === first ? `${step.step} ${moment(step.wall_ms, true)}` : `${step.step} +${number(step.wall_ms - first.wall_ms)} ms`))));
  }));
}

/** The timeline: scroll through the events, or replay them in the order in which they happened. */
function timeline() {
  const list = h("ol", { class: "events", tabindex: "0", "aria-label": "Events, the latest first" });
  const slider = h("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "Show the events up to" });
  const shown = h("output", { class: "soft" });
  const play = h("button", { type: "button" }, "Replay");
  let events = [];
  let timer = null;
  const draw = () => {
    const count = Number(slider.value);
    list.replaceChildren(...events.slice(0, count).reverse().slice(0, 300).map((each) =>
      h("li", {}, h("time", { datetime: new Date(each.wall_ms).toISOString() }, moment(each.wall_ms, true)), each.event)));
    if (!events.length) list.append(h("li", { class: "soft" }, "Nothing has changed since the dashboard started."));
    shown.textContent = `${count} of ${events.length} events`;
  };
  const stop = () => { clearTimeout(timer); timer = null; play.textContent = "Replay"; };
  const step = () => {
    const at = Number(slider.value);
    if (at >= events.length) return stop();
    slider.value = String(at + 1);
    draw();
    const gap = at + 1 < events.length ? events[at + 1].wall_ms - events[at].wall_ms : 0;
    timer = setTimeout(step, Math.min(1500, Math.max(150, gap)));
  };
  play.addEventListener("click", () => {
    if (timer !== null) return stop();
    if (Number(slider.value) >= events.length) slider.value = "0";
    play.textContent = "Stop";
    step();
  });
  slider.addEventListener("input", () => { stop(); draw(); });
  state.leave.push(stop);
  return {
    element: panel(h("h2", {}, "Timeline"), h("div", { class: "replay" }, play, slider, shown), list),
    set(found) {
      const atEnd = Number(slider.value) >= events.length && timer === null;
      if (found.length > events.length) tell(found.at(-1).event);
      events = found;
      slider.max = String(events.length);
      if (atEnd) { slider.value = String(events.length); }
      if (timer === null) draw();
    },
  };
}

function clusterPage() {
  const head = h("p", { class: "soft" });
  const groups = h("div");
  const failovers = h("div");
  const rates = chart("Messages a second", ["in", "out"]);
  const line = timeline();
  let samples = [];
  show(h("h1", {}, "Cluster"), head,
    h("div", { class: "side" },
      h("div", {}, groups, panel(h("h2", {}, "Messages a second"), rates.element)),
      h("div", {}, line.element, failovers)));
  listen("events", {}, (found) => {
    complain(found.problem);
    head.textContent = found.controllers.length
      ? `Controllers: ${found.controllers.join(", ")}; leader ${found.controller_leader || "none"}`
      : "No controllers.";
    groups.replaceChildren(...found.groups.map(groupPanel));
    failovers.replaceChildren(failoverPanel(found.failovers));
    line.set(found.events);
    const last = samples.length ? samples.at(-1).wall_ms : 0;
    samples = samples.concat(found.samples.filter((each) => each.wall_ms > last)).slice(-450);
    rates.set([samples.map((s) => s.wall_ms / 1000), samples.map((s) => s.in_tps), samples.map((s) => s.out_tps)]);
  });
}

// Lists ---------------------------------------------------------------------------------------

/** A list with a search, pages, and a refresh. */
async function listPage(title, name, parameters, page, caption, columns) {
  const part = h("input", { name: "part", type: "search", value: parameters.get("part") || "" });
  const system = h("input", { name: "system", type: "checkbox", checked: parameters.get("system") === "1" });
  const number_ = Number(parameters.get("page") || 0);
  const go = (to) => { location.hash = address(page, { part: part.value, system: system.checked ? "1" : "", page: to || "" }); };
  const form = h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); go(0); } },
    h("label", {}, "Name contains", part), h("label", { class: "check" }, system, "Internal ones too"),
    h("button", {}, "Show"));
  const found = await ask(name, { part: part.value, system: system.checked ? "1" : "", page: number_ });
  const pages = Math.max(1, Math.ceil(found.total / 50));
  const pager = pages > 1 && h("div", { class: "replay" },
    h("button", { type: "button", disabled: number_ === 0, onclick: () => go(number_ - 1) }, "Previous"),
    h("span", { class: "soft" }, `Page ${number_ + 1} of ${pages}`),
    h("button", { type: "button", disabled: number_ + 1 >= pages, onclick: () => go(number_ + 1) }, "Next"));
  show(h("h1", {}, title), form, panel(table(`${caption}: ${number(found.total)}`, columns, found.rows), pager));
}

const topicsPage = (parameters) => listPage("Topics", "topics", parameters, "topics", "Topics", [
  ["Topic", (r) => link("topic", { topic: r.topic }, r.topic)],
  ["Queues", (r) => number(r.queues), "number"], ["Brokers", (r) => number(r.brokers), "number"],
  ["Messages", (r) => number(r.messages), "number"], ["In a second", (r) => number(r.in_tps), "number"],
  ["Last message", (r) => moment(r.last_ms)], ["Problem", (r) => text(r.problem)],
]);

async function topicPage(parameters) {
  const topic = parameters.get("topic");
  const found = await ask("topic", { topic });
  show(h("h1", {}, topic),
    h("p", {}, link("messages", { topic }, "Search messages"), " · ", link("tail", { topic }, "Follow new messages")),
    panel(table("Queues", [
      ["Broker", (r) => r.broker], ["Queue", (r) => r.queue, "number"],
      ["First offset", (r) => number(r.min_offset), "number"], ["End offset", (r) => number(r.max_offset), "number"],
      ["Messages", (r) => number(r.messages), "number"], ["Last message", (r) => moment(r.last_ms)],
    ], found.queues)),
    panel(table("Configuration", [
      ["Broker", (r) => r.broker], ["Read queues", (r) => number(r.read_queues), "number"],
      ["Write queues", (r) => number(r.write_queues), "number"], ["Rights", (r) => text(r.rights)],
      ["Type", (r) => text(r.type)], ["Problem", (r) => text(r.problem)],
    ], found.configs)),
    panel(h("h2", {}, "Consumer groups"), found.groups.length
      ? h("ul", {}, found.groups.map((group) => h("li", {}, link("group", { group }, group))))
      : h("p", { class: "soft" }, "No group consumes this topic.")));
}

const groupsPage = (parameters) => listPage("Consumer groups", "groups", parameters, "groups", "Groups", [
  ["Group", (r) => link("group", { group: r.group }, r.group)],
  ["Members", (r) => number(r.members), "number"], ["Type", (r) => text(r.type)], ["Model", (r) => text(r.model)],
  ["Out a second", (r) => number(r.tps), "number"],
  ["Lag", (r) => (r.lag > 0 ? badge(number(r.lag), "warn") : number(r.lag)), "number"],
  ["Problem", (r) => text(r.problem)],
]);

async function groupPage(parameters) {
  const group = parameters.get("group");
  const found = await ask("group", { group });
  const topics = [...new Set(found.queues.map((row) => row.topic))];
  show(h("h1", {}, group),
    h("p", {}, `Lag ${number(found.lag)}, of these in flight ${number(found.in_flight)}. `,
      found.slowest && badge(`slowest member ${found.slowest}`, "warn"), " ",
      link("dead-letters", { group }, "Dead letters")),
    panel(table("Members", [
      ["Member", (r) => r.member], ["Address", (r) => r.address], ["Client", (r) => `${r.language} ${r.version}`],
      ["Lag", (r) => number(r.lag), "number"],
      ["Handlers", (r) => (r.stuck.length ? badge(`stuck: ${r.stuck.join(", ")}`, "bad") : r.problem ? text(r.problem) : badge("working", "good"))],
      ["Per topic", (r) => r.topics.map((each) =>
        h("div", {}, `${each.topic}: ${number(each.ok_tps)}/s, failed ${number(each.failed_tps)}/s, ${number(each.consume_ms)} ms`))],
    ], found.members, "Nobody is in this group now.")),
    panel(table("Queues", [
      ["Topic", (r) => link("topic", { topic: r.topic }, r.topic)], ["Broker", (r) => r.broker], ["Queue", (r) => r.queue, "number"],
      ["End", (r) => number(r.broker_offset), "number"], ["Consumed", (r) => number(r.consumer_offset), "number"],
      ["Lag", (r) => (r.lag > 0 ? badge(number(r.lag), "warn") : number(r.lag)), "number"],
      ["Last consumed", (r) => moment(r.last_ms)], ["Member", (r) => text(r.member)],
    ], found.queues, "This group has not consumed anything.")),
    !state.session.read_only && topics.length > 0 && resetPanel(group, topics));
}

function resetPanel(group, topics) {
  const topic = h("select", { name: "topic" }, topics.map((name) => h("option", { value: name }, name)));
  const to = h("input", { name: "to", required: true, placeholder: "first, last, 15m, 2026-05-01T12:00" });
  const form = h("form", { class: "row" }, h("label", {}, "Topic", topic), h("label", {}, "Position", to), h("button", {}, "Move the group"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    confirmAction("Move the group?",
      h("p", {}, `Group ${group} will continue at '${to.value}' in all queues of ${topic.value}. Messages may be consumed again, or not at all.`),
      "Move", async () => {
        const done = await post(`/api/c/${encodeURIComponent(state.cluster)}/reset`, { group, topic: topic.value, to: to.value });
        return `Moved in ${done.queues.length} queues.`;
      });
  });
  return panel(h("h2", {}, "Move to another position"), form);
}

// Messages ------------------------------------------------------------------------------------

const bodyCell = (row) => (row.body === null ? h("span", { class: "soft" }, "binary") : row.body + (row.body_is_cut ? " …" : ""));

async function messagesPage(parameters) {
  const field = (name, label, more = {}) =>
    h("label", {}, label, h("input", { name, value: parameters.get(name) || "", ...more }));
  const form = h("form", { class: "row" },
    field("topic", "Topic", { required: true }), field("id", "Message id"), field("key", "Key"),
    field("begin", "Stored from", { type: "datetime-local", step: 1 }), field("end", "Stored until", { type: "datetime-local", step: 1 }),
    h("button", { class: "main" }, "Search"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = address("messages", Object.fromEntries(new FormData(form)));
  });
  const result = h("div");
  show(h("h1", {}, "Messages"), form, result);
  if (!parameters.get("topic")) return;
  result.replaceChildren(waiting());
  const time = (name) => (parameters.get(name) ? String(new Date(parameters.get(name)).getTime()) : "");
  const topic = parameters.get("topic");
  const rows = await ask("messages", { topic, id: parameters.get("id") || "", key: parameters.get("key") || "", begin: time("begin"), end: time("end") });
  result.replaceChildren(panel(table(`Messages of ${topic}: ${rows.length}${rows.length === 100 ? ", more are not shown" : ""}`, [
    ["Stored", (r) => moment(r.stored_ms, true)], ["Id", (r) => link("message", { topic, id: r.offset_msg_id }, r.msg_id)],
    ["Queue", (r) => r.queue_id, "number"], ["Offset", (r) => number(r.queue_offset), "number"],
    ["Tags", (r) => text(r.tags)], ["Keys", (r) => text(r.keys.join(" "))], ["Body", bodyCell, "body"],
  ], rows, "No message was found.")));
}

async function messagePage(parameters) {
  const found = await ask("message", { topic: parameters.get("topic"), id: parameters.get("id") });
  show(h("h1", {}, "Message"),
    panel(facts([
      ["Topic", link("topic", { topic: found.topic }, found.topic)], ["Id", found.msg_id], ["Place id", found.offset_msg_id],
      ["Queue and offset", `${found.queue_id}, ${number(found.queue_offset)}`],
      ["Born", `${moment(found.born_ms, true)} at ${found.born_host}`], ["Stored", `${moment(found.stored_ms, true)} at ${found.store_host}`],
      ["Tags", text(found.tags)], ["Keys", text(found.keys.join(" "))], ["Tries", number(found.reconsume_times)], ["Bytes", number(found.size)],
    ])),
    panel(table("Consumer groups", [
      ["Group", (r) => link("group", { group: r.group }, r.group)], ["State", (r) => r.track], ["Problem", (r) => text(r.problem)],
    ], found.tracks, "No group consumes its topic.")),
    panel(table("Message trace", [
      ["Time", (r) => moment(r.wall_ms, true)], ["What", (r) => r.what], ["Group", (r) => r.group], ["Client", (r) => r.client],
      ["Took (ms)", (r) => number(r.cost_ms), "number"], ["Result", (r) => (r.ok ? badge("done", "good") : badge("failed", "bad"))],
    ], found.traces, "No client traced this message.")),
    panel(h("h2", {}, "Properties"), facts(Object.entries(found.properties))),
    panel(h("h2", {}, "Body"), "body" in found ? h("pre", { tabindex: "0" }, found.body)
      : h("p", {}, "The body is not text; in base64: ", h("code", {}, found.body_base64))));
}

function tailPage(parameters) {
  const topic = h("input", { name: "topic", required: true, value: parameters.get("topic") || "" });
  const kind = h("select", { name: "kind" }, h("option", { value: "tags" }, "Tags"),
    h("option", { value: "sql", selected: parameters.get("kind") === "sql" }, "SQL"));
  const filter = h("input", { name: "filter", value: parameters.get("filter") || "", placeholder: "paid || shipped" });
  const form = h("form", { class: "row" }, h("label", {}, "Topic", topic), h("label", {}, "Filter by", kind),
    h("label", {}, "Filter", filter), h("button", { class: "main" }, "Follow"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = address("tail", Object.fromEntries(new FormData(form)));
    if (location.hash === wanted) route(); else location.hash = wanted;
  });
  const status = h("p", { class: "soft" });
  const result = h("div");
  show(h("h1", {}, "Live tail"), form, status, result);
  if (!parameters.get("topic")) return;
  let rows = [];
  let leftOut = 0;
  const draw = () => {
    status.textContent = `Following ${topic.value}: ${number(rows.length)} of the latest messages${leftOut ? `, ${number(leftOut)} were left out` : ""}.`;
    result.replaceChildren(panel(table("New messages, the latest first", [
      ["Stored", (r) => moment(r.stored_ms, true)], ["Queue", (r) => r.queue_id, "number"], ["Offset", (r) => number(r.queue_offset), "number"],
      ["Tags", (r) => text(r.tags)], ["Keys", (r) => text(r.keys.join(" "))], ["Body", bodyCell, "body"],
    ], rows, "Nothing was stored yet.")));
  };
  draw();
  listen("tail", { topic: topic.value, kind: kind.value, filter: filter.value }, (found) => {
    leftOut += found.left_out;
    rows = found.messages.reverse().concat(rows).slice(0, 200);
    draw();
  });
}

// Dead letters --------------------------------------------------------------------------------

async function deadLettersPage(parameters) {
  const group = parameters.get("group");
  if (!group) {
    const rows = await ask("dead-letter-groups");
    show(h("h1", {}, "Dead letters"), panel(table("Groups with dead letters", [
      ["Group", (r) => link("dead-letters", { group: r.group }, r.group)], ["Letters", (r) => number(r.letters), "number"],
      ["Last one", (r) => moment(r.last_ms)], ["Problem", (r) => text(r.problem)],
    ], rows, "No group has dead letters.")));
    return;
  }
  const found = await ask("dead-letters", { group });
  const button = (row, to, label) =>
    h("button", { type: "button", "data-place": row.place, onclick: () => resend(group, row, to) }, label);
  show(h("h1", {}, `Dead letters of ${group}`), panel(table(`Newest letters: ${found.rows.length}`, [
    ["Died", (r) => moment(r.stored_ms, true)], ["Id", (r) => r.msg_id], ["From topic", (r) => text(r.topic)],
    ["Tags", (r) => text(r.tags)], ["Keys", (r) => text(r.keys)], ["Tries", (r) => number(r.tries), "number"], ["Body", bodyCell, "body"],
    ["Send again", (r) => (r.resent_as ? badge("sent again", "good") : state.session.read_only ? "–"
      : [button(r, "retry", "To the group"), " ", r.topic && button(r, "origin", "To its topic")])],
  ], found.rows, "There are none.")));
}

function resend(group, row, to) {
  const where = to === "retry" ? `to group ${group} alone` : `to topic ${row.topic}, so to all its groups`;
  confirmAction("Send the dead letter again?",
    h("p", {}, `Message ${row.msg_id} will be sent ${where}. A letter is sent again only once.`),
    "Send", async () => {
      const done = await post(`/api/c/${encodeURIComponent(state.cluster)}/resend`, { group, place: row.place, to });
      route();
      return done.sent ? "It was sent." : "It had been sent before; nothing was sent now.";
    });
}

// Others --------------------------------------------------------------------------------------

async function waitingPage() {
  const found = await ask("waiting");
  const due = ["Due", (r) => moment(r.due_ms, true)];
  const columns = [["Id", (r) => r.msg_id], ["Topic", (r) => text(r.real_topic)], ["Stored", (r) => moment(r.stored_ms, true)]];
  show(h("h1", {}, "Waiting messages"),
    panel(table("Numbers by broker", [
      ["Broker", (r) => r.broker], ["Timers", (r) => number(r.timers), "number"], ["Timers behind (s)", (r) => number(r.timer_behind_s), "number"],
      ["In delay levels", (r) => number(r.delayed), "number"], ["To move to other groups", (r) => number(r.escape_backlog), "number"],
    ], found.brokers)),
    panel(table("Open transactions", [...columns, ["Producer group", (r) => text(r.producer_group)], ["Checks", (r) => number(r.checks), "number"],
      ["Body", bodyCell, "body"]], found.transactions, "No transaction is open.")),
    panel(table("Timers, of the newest 2,000", [...columns, due, ["Body", bodyCell, "body"]], found.timers, "No timed message waits.")),
    panel(table("POP messages in flight, of the newest 2,000 records", [
      ["Kind", (r) => r.state], ["Group", (r) => text(r.group)], ["Topic", (r) => text(r.real_topic)], ["Queue", (r) => number(r.real_queue_id), "number"],
      ["First offset", (r) => number(r.first_offset), "number"], due,
    ], found.popped, "No POP message is in flight on record.")));
}

const JOB_KINDS = { running: "good", done: "", failed: "bad", silent: "warn" };

async function jobsPage() {
  const found = await ask("jobs");
  const empty = found.is_there ? "No job has reported yet."
    : `Jobs report to the topic ${found.topic}, which does not exist: epochmq topic create ${found.topic}`;
  show(h("h1", {}, "Pipeline jobs"), panel(table("Jobs, the latest report first", [
    ["Job", (r) => r.job], ["State", (r) => badge(r.state, JOB_KINDS[r.state])], ["Position", (r) => text(r.text)],
    ["Rows", (r) => number(r.rows), "number"], ["Rows a second", (r) => number(r.rate), "number"],
    ["Last error", (r) => (r.error ? [moment(r.error_ms), " ", r.error] : "–")], ["Where", (r) => r.host],
    ["Began", (r) => moment(r.began_ms)], ["Reported", (r) => moment(r.wall_ms)],
  ], found.rows, empty)));
}

async function actionsPage() {
  const [rows, changes] = await Promise.all([ask("actions"), ask("changes")]);
  const kind = (result) => (result === "accepted" ? "good" : "bad");
  show(h("h1", {}, "Audit log"),
    panel(table("Changes at brokers, the latest first", [
      ["Time", (r) => moment(r.wall_ms, true)], ["Broker", (r) => r.broker], ["User", (r) => r.user], ["From", (r) => r.from],
      ["Change", (r) => r.action], ["Result", (r) => badge(r.result, kind(r.result))],
    ], changes, "No broker has changed anything since it started, or it is RocketMQ's.")),
    panel(table("Actions of this dashboard, the latest first", [
      ["Time", (r) => moment(r.wall_ms, true)], ["User", (r) => text(r.user)], ["From", (r) => r.from], ["Action", (r) => r.action],
      ["Result", (r) => badge(r.result, r.result === "done" ? "good" : r.result === "begun" ? "" : "bad")],
    ], rows, "Nobody did anything yet.")));
}

// Routes --------------------------------------------------------------------------------------

const PAGES = [
  ["cluster", "Cluster", clusterPage], ["topics", "Topics", topicsPage], ["groups", "Groups", groupsPage],
  ["messages", "Messages", messagesPage], ["tail", "Live tail", tailPage], ["dead-letters", "Dead letters", deadLettersPage],
  ["waiting", "Waiting", waitingPage], ["jobs", "Jobs", jobsPage], ["audit", "Audit log", actionsPage],
];
const MORE = { topic: ["topics", topicPage], group: ["groups", groupPage], message: ["messages", messagePage] };

function address(page, parameters = {}) {
  const kept = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(kept).toString();
  return `#/${encodeURIComponent(state.cluster)}/${page}${query ? `?${query}` : ""}`;
}

function leavePage() {
  for (const leave of state.leave.splice(0)) leave();
  complain("");
}

let turn = 0;

async function route() {
  leavePage();
  const own = ++turn;
  const [path, query] = location.hash.slice(2).split("?");
  const [cluster, name = ""] = path.split("/").map(decodeURIComponent);
  if (cluster && state.session.clusters.some((each) => each.name === cluster)) state.cluster = cluster;
  useSession(state.session);
  const listed = PAGES.find(([page]) => page === name) || (!MORE[name] && PAGES[0]);
  const [inList, page] = listed ? [listed[0], listed[2]] : MORE[name];
  const title = PAGES.find(([each]) => each === inList)[1];
  document.title = `${title} – ${state.cluster} – EpochMQ`;
  byId("pages").replaceChildren(...PAGES.map(([each, label]) =>
    h("li", {}, h("a", { href: address(each), "aria-current": each === inList ? "page" : null }, label))));
  if (needsLogin()) return showLogin();
  clearTimeout(loading);
  loading = setTimeout(() => show(waiting()), 300);
  try {
    await page(new URLSearchParams(query || ""));
  } catch (error) {
    if (own !== turn) return;
    clearTimeout(loading);
    byId("main").querySelector(".waiting")?.remove();
    if (!byId("main").querySelector("h1")) show(h("h1", {}, title));
    complain(error.message);
  }
}

function useTheme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = name === "dark" ? "Light" : "Dark";
}

function startTheme() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = localStorage.getItem("theme");
  useTheme(stored || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => !localStorage.getItem("theme") && useTheme(dark.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => {
    const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", name);
    useTheme(name);
  });
}

startTheme();
byId("cluster").addEventListener("change", (event) => {
  state.cluster = event.target.value;
  const [, name = "cluster"] = location.hash.slice(2).split("?")[0].split("/");
  location.hash = address(MORE[name] ? MORE[name][0] : name || "cluster");
});
window.addEventListener("hashchange", route);
openSession().then(route, () => complain("The dashboard does not answer."));
