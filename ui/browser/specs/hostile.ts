// What models, programs and workers write is text, and stays text: nothing of it runs, calls anybody, or breaks the page.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Page } from "@playwright/test";

import { critic, reading, stands, view } from "../harness/consultation.ts";
import type { Answer, Question } from "../harness/provider.ts";
import { enter, expect, fits, test, WATCHDOG, Worker } from "../harness/test.ts";

const owns = (number: number) => `window.__owned=${number}`;

const TURNED = "\u202egnp.exe\u202c \u2066fdp\u2069 \u05d0\u05d1\u05d2";
const LONG = "x".repeat(3000);

/** Fits on a line, where only that much is shown. */
const SHORT = `<script>${owns(1)}</script><img src=x onerror=${owns(2)}>${TURNED}`;

const TAGS = [
  `<script>${owns(3)}</script>`,
  `"><script>${owns(4)}</script>`,
  `<img src=x onerror="${owns(5)}">`,
  `<img src="https://evil.example/pixel.png">`,
  `<svg onload="${owns(6)}"><animate onbegin="${owns(7)}" attributeName=x /></svg>`,
  `<iframe src="https://evil.example/"></iframe>`,
  `<a href="javascript:${owns(8)}">by a tag</a>`,
  `<div style="position:fixed;inset:0" onmouseover="${owns(9)}">over everything</div>`,
  `<style>body { display: none }</style>`,
  `<form action="https://evil.example/"><input autofocus onfocus="${owns(10)}"></form>`,
];

const MARKDOWN = [
  `[by a link](javascript:${owns(11)})`,
  `[by another](  JaVaScRiPt:${owns(12)})`,
  `[data](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)`,
  `![a picture](https://evil.example/pixel.png)`,
  `![a picture](javascript:${owns(13)})`,
  `[by reference][evil]\n\n[evil]: javascript:${owns(14)}`,
  `<javascript:${owns(15)}>`,
  `[elsewhere](https://evil.example/login)`,
];

const COLUMNS = Array.from({ length: 200 }, (_, index) => `column ${index}`);
const TABLE = [COLUMNS, COLUMNS.map(() => "---"), ...Array.from({ length: 50 }, () => COLUMNS)].map((row) => `| ${row.join(" | ")} |`).join("\n");

const WORDS = [...TAGS, ...MARKDOWN, TURNED, LONG, `\`\`\`\n${LONG}\n\`\`\``].join("\n\n");

const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="${owns(18)}"><script>${owns(19)}</script><image href="https://evil.example/pixel.png"/><rect width="40" height="40"/></svg>`;

/** A program that prints all of it, and leaves files with such names; at first it fails. */
const PROGRAM = `import sys
words = ${JSON.stringify([...TAGS, TURNED, LONG].join("\n"))}
print(words)
print(words, file=sys.stderr)
for name in ["<img src=x onerror=${owns(16)}>.png", "\\u202egnp.exe", "${"n".repeat(200)}.txt"]:
    open(name, "w").write(words)
open("evil.svg", "w").write(${JSON.stringify(SVG)})
open("evil.html", "w").write(${JSON.stringify(`<!doctype html>${TAGS.join("")}`)})
open("evil.md", "w").write(${JSON.stringify(MARKDOWN.join("\n\n"))})
`;

/** Says nothing but the like, in whatever shape it is asked for; its first program fails. */
function evil(): (question: Question) => Answer {
  let programs = 0;
  return (question) => {
    if (question.shape === "GeneratedCode") programs += 1;
    return said(question, programs > 1);
  };
}

function said({ shape, last, messages, tools }: Question, works: boolean): Answer {
  if (tools.length > 0) {
    const done = messages.filter((one) => one.role === "tool");
    const draft = /_handoff[^"\\]*?\.draft/.exec(JSON.stringify(done))?.[0] ?? "";
    const steps: Answer[] = [
      { tool: "ollama_request_draft", arguments: { source_path: "watchdog.py", task_id: taskOf(messages) } },
      { tool: "ollama_write_draft", arguments: { draft_path: draft, content: `${WATCHDOG}# ${SHORT} ${LONG}\n` } },
      { tool: "ollama_submit_draft", arguments: { draft_path: draft, original_path: "watchdog.py", task_id: taskOf(messages), change_summary: `${SHORT} ${LONG}` } },
    ];
    return steps[done.length] ?? WORDS;
  }
  switch (shape) {
    case "Inference":
      return { summary: WORDS, findings: [{ title: SHORT, statement: WORDS, evidence: [SHORT, LONG] }] };
    case "Proposal": {
      const one = { title: `${SHORT} ${LONG}`, thesis: WORDS, actions: [SHORT, WORDS], cost: WORDS, timeline: SHORT, risks: [WORDS], citations: ["F1.1", SHORT] };
      return { moves: [one] };
    }
    case "GeneratedCode":
      return { code: works ? PROGRAM : `${PROGRAM}\nsys.exit(words)\n`, dependencies: [], reasoning: WORDS, confidence: 0.5 };
    case "Critique":
      return { issues: [WORDS], suggested_fixes: [SHORT, LONG] };
    default:
      if (/score the move/i.test(last)) return { reasoning: WORDS, unanswered: WORDS, impact: 5, feasibility: 6, risk_adjusted_return: 7, strategic_alignment: 8 };
      return /Open the hearing/.test(last) ? `${WORDS}\n\n${TABLE}` : WORDS;
  }
}

const taskOf = (messages: { content: string | null }[]) => /task(?:_id| id)?[^a-z0-9]+(work-[a-z0-9]+)/i.exec(JSON.stringify(messages))?.[1] ?? "t1";

/** Nothing of it has come alive, and it fits at any width. */
async function harmless(page: Page): Promise<void> {
  const found = await page.evaluate(() => {
    const all = [...document.querySelectorAll("*")];
    const own = (address: string) => new URL(address, location.href).origin === location.origin;
    const named = all.flatMap((one) => [...one.attributes].map(({ name, value }) => ({ one, name, value, shown: `${one.tagName} ${name}=${value.slice(0, 100)}` })));
    const leads = named.filter(({ name }) => ["href", "src", "action", "formaction", "data"].includes(name));
    // A drawing within the page is a picture: it runs no script and fetches nothing.
    const drawn = ({ one, value }: (typeof named)[number]) => one.matches("img") && value.startsWith("data:image/svg+xml,");
    return {
      owned: (window as { __owned?: unknown }).__owned,
      handlers: named.filter(({ name }) => name.startsWith("on") || name === "srcdoc").map(({ shown }) => shown),
      made: all.filter((one) => one.matches("iframe, object, embed, form form, body style, base, meta[http-equiv]")).map((one) => one.outerHTML.slice(0, 100)),
      odd: leads.filter((at) => !drawn(at) && !/^(https?|mailto):/.test(new URL(at.value, location.href).href)).map(({ shown }) => shown),
      fetched: leads.filter((at) => at.name !== "href" && !drawn(at) && !own(at.value)).map(({ shown }) => shown),
      // Links may lead elsewhere, and say so; that of the drawing's maker is not theirs.
      unsaid: leads.filter(({ one, value }) => one.matches("a:not(.react-flow__attribution a)") && !own(value) && !one.textContent?.includes(new URL(value).host)).map(({ shown }) => shown),
    };
  });
  expect.soft(found, page.url()).toEqual({ owned: undefined, handlers: [], made: [], odd: [], fetched: [], unsaid: [] });
  await fits(page);
  const size = page.viewportSize()!;
  await page.setViewportSize({ width: 390, height: 844 });
  await fits(page);
  await page.setViewportSize(size);
}

test("where it is taken for markup it does run", async ({ page, faults }) => {
  faults.forgive(/evil\.example|ERR_NAME_NOT_RESOLVED|about:blank/);
  await page.setContent(TAGS.join(""));
  await expect.poll(() => page.evaluate(() => (window as { __owned?: unknown }).__owned)).toBeDefined();
});

test("markup that gets into the page is stopped by its content security policy, and reported", async ({ page, serve, faults }) => {
  faults.forgive(/content security policy|evil\.example|404 \(Not Found\) \(.*\/x\)/i);
  const serving = await serve();
  await enter(page, serving);
  await page.evaluate((tags) => {
    const place = document.createElement("div");
    document.body.append(place);
    place.innerHTML = tags.join("");
    const script = document.createElement("script");
    script.textContent = "window.__owned = 20";
    place.append(script);
  }, TAGS);
  const stopped = (directive: string) => faults.seen().some((one) => one.startsWith(`content security policy: ${directive}`));
  for (const directive of ["script-src-attr", "script-src-elem", "img-src", "frame-src"]) {
    await expect.poll(() => stopped(directive), directive).toBe(true);
  }
  expect(await page.evaluate(() => (window as { __owned?: unknown }).__owned)).toBeUndefined();
});

test("a company's name that is an attack", async ({ page, serve, provider }) => {
  const models = await provider(evil());
  const serving = await serve({ env: models.env });
  const name = `<img src=x onerror=${owns(21)}> [link](javascript:${owns(22)})`;
  const run = await serving.through({ kind: "consult", name, rounds: 1, moves: 1, yes: true });
  await enter(page, serving);
  await expect(page.getByRole("link", { name: /onerror=window/ }).first()).toBeVisible();
  await harmless(page);
  await page.goto(`${serving.address}/runs/${run.id}`);
  await expect(page.getByRole("heading", { level: 1 })).toContainText("<img src=x");
  await harmless(page);
  // A ticker is refused before it is shown anywhere.
  const ticker = `<script>${owns(23)}</script>`;
  await expect(serving.ask("POST", "/api/runs", { kind: "consult", ticker, yes: true })).rejects.toThrow(/ticker/);
});

test("a consultation whose every word is an attack", async ({ page, serve, provider }) => {
  const models = await provider(evil());
  const serving = await serve({ env: models.env });
  const run = await serving.through({ kind: "consult", ticker: "EVIL", rounds: 2, moves: 1, yes: true });
  await enter(page, serving);
  await expect(page.getByRole("link", { name: /EVIL/ })).toBeVisible();
  await harmless(page);
  await page.goto(`${serving.address}/runs/${run.id}`);
  const panel = page.getByRole("tabpanel");
  await expect(panel.getByRole("button", { name: "Read the debate" }).first()).toBeVisible();
  // It is shown as what it is.
  await expect(panel).toContainText("<script>window.__owned=1</script>");
  await harmless(page);
  for (const name of ["Pipeline", "As a list"]) {
    await view(page, name).click();
    await expect(panel).toContainText("m5");
    await harmless(page);
  }
  await view(page, "Documents").click();
  for (const name of ["F1.md", "moves/m1.md", "report.md"]) {
    await panel.getByRole("button", { name, exact: true }).click();
    await expect(panel.getByRole("heading", { name, exact: true })).toBeVisible();
    await expect(panel.getByText("Looking…")).toBeHidden();
    await harmless(page);
  }
  await page.goto(`${serving.address}/runs/${run.id}?move=m1`);
  const opened = reading(page, "m1");
  await expect(critic(opened, 2)).toBeAttached();
  await harmless(page);
  // Whoever follows what looks like a link gets nowhere.
  for (const words of ["by a link", "by another", "data", "by reference"]) {
    const link = opened.getByText(words, { exact: true }).first();
    await expect(link).toBeVisible();
    expect(await link.evaluate((one) => one.closest("a")), words).toBeNull();
  }
  // The table scrolls by itself.
  const cell = opened.getByRole("cell", { name: "column 199", exact: true }).first();
  await expect(cell).not.toBeInViewport();
  await cell.scrollIntoViewIfNeeded();
  await expect(cell).toBeInViewport();
  await fits(page);
});

test("a program, its output, its files and its critic", async ({ page, serve, provider }) => {
  const models = await provider(evil());
  const serving = await serve({ env: models.env });
  const run = await serving.through({ kind: "run", task: `${WORDS}\n\n${TABLE}` });
  await enter(page, serving);
  await expect(page.getByRole("region", { name: "Recent trials" }).getByRole("link")).toBeVisible();
  await harmless(page);
  await page.goto(`${serving.address}/runs/${run.id}`);
  await expect(page.getByRole("heading", { name: "Attempt 2" })).toBeVisible();
  await expect(page.getByRole("main")).toContainText(TAGS[0]!);
  await expect(page.getByRole("link", { name: "<img src=x onerror=window.__owned=16>.png" })).toBeVisible();
  const picture = page.getByRole("img", { name: "evil.svg" });
  await expect.poll(() => picture.evaluate((one: HTMLImageElement) => one.naturalWidth)).toBe(40);
  await harmless(page);
  // Opened by themselves, files are downloaded and never shown as pages of the server.
  for (const file of ["evil.svg", "evil.html", "evil.md"]) {
    const address = await page.getByRole("link", { name: file }).first().evaluate((one: HTMLAnchorElement) => one.href);
    const [download] = await Promise.all([page.waitForEvent("download"), page.evaluate((to) => { location.href = to; }, address)]);
    expect(download.suggestedFilename()).toBe(file);
  }
  await harmless(page);
});

test("a debate, an evaluation, a worker and its drafts", async ({ page, serve, provider }) => {
  const models = await provider(evil());
  const serving = await serve({ env: models.env, roots: ["site"] });
  await writeFile(join(serving.folder("site"), "watchdog.py"), WATCHDOG);
  const debate = await serving.through({ kind: "debate", document: `# ${SHORT} ${LONG}\n\n${WORDS}\n\n${TABLE}`, rounds: 1 });
  const problem = { task_id: SHORT, prompt: `def f():\n    """${LONG}"""\n`, entry_point: "f", test: "def check(f):\n    assert f() == 1\n", canonical_solution: "    return 1\n" };
  const evaluated = await serving.through({ kind: "eval", name: `${SHORT} ${LONG}`.slice(0, 100), problems: JSON.stringify(problem), max_attempts: 1 });
  const work = await serving.through({ kind: "work", workspace: "site", task: `${SHORT} ${LONG} watchdog.py` });
  const worker = await Worker.hired(serving, "site");
  const name = `<img src=x onerror=${owns(17)}>${"n".repeat(150)}.md`;
  expect((await worker.proposes("evil", { [name]: `${WORDS}\n\n${TABLE}\n` }, `${SHORT} ${LONG}`)).verdict).toBe("escalated");
  await enter(page, serving);
  for (const run of [debate, evaluated, work]) {
    await page.goto(`${serving.address}/runs/${run.id}`);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await stands(page, "done");
    await harmless(page);
  }
  await page.goto(`${serving.address}/drafts/site`);
  const accept = page.getByRole("button", { name: "Accept" });
  await expect(accept).toBeVisible();
  await harmless(page);
  const waiting = page.getByRole("main").getByRole("listitem").getByRole("link");
  await expect(waiting).toHaveCount(2);
  for (const link of await waiting.all()) {
    await link.click();
    await expect(page.getByRole("button", { name: "In one column" })).toBeVisible();
    // The gate has seen the sign that turns the text, and its reason stands at the line.
    await expect(page.getByRole("main")).toContainText("turned-text");
    await harmless(page);
    await page.getByRole("button", { name: "Side by side" }).click();
    await harmless(page);
  }
});
