// Tests that hostile texts from models, programs and MCP clients are shown as plain text: they run no scripts, send no
// requests, and do not break the layout.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Page } from "@playwright/test";

import { criticLabel, debateDialog, expectStatus, view } from "../harness/consultation.ts";
import type { ModelAnswer, ModelRequest } from "../harness/provider.ts";
import { DraftClient, expect, expectFits, signIn, test, WATCHDOG } from "../harness/test.ts";

/** Returns a script that marks the page as compromised. The number identifies the payload. */
const compromise = (number: number) => `window.__owned=${number}`;

/** Text with bidirectional control characters, which can make a text look different from its content. */
const BIDI = "\u202egnp.exe\u202c \u2066fdp\u2069 \u05d0\u05d1\u05d2";
/** Word that is wider than any window. */
const LONG = "x".repeat(3000);

/** Payload for elements that show only the beginning of a text. */
const SHORT = `<script>${compromise(1)}</script><img src=x onerror=${compromise(2)}>${BIDI}`;

/** Attack payloads written in HTML. */
const TAGS = [
  `<script>${compromise(3)}</script>`,
  `"><script>${compromise(4)}</script>`,
  `<img src=x onerror="${compromise(5)}">`,
  `<img src="https://evil.example/pixel.png">`,
  `<svg onload="${compromise(6)}"><animate onbegin="${compromise(7)}" attributeName=x /></svg>`,
  `<iframe src="https://evil.example/"></iframe>`,
  `<a href="javascript:${compromise(8)}">by a tag</a>`,
  `<div style="position:fixed;inset:0" onmouseover="${compromise(9)}">over everything</div>`,
  `<style>body { display: none }</style>`,
  `<form action="https://evil.example/"><input autofocus onfocus="${compromise(10)}"></form>`,
];

/** Attack payloads written in Markdown. */
const MARKDOWN = [
  `[by a link](javascript:${compromise(11)})`,
  `[by another](  JaVaScRiPt:${compromise(12)})`,
  `[data](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)`,
  `![a picture](https://evil.example/pixel.png)`,
  `![a picture](javascript:${compromise(13)})`,
  `[by reference][evil]\n\n[evil]: javascript:${compromise(14)}`,
  `<javascript:${compromise(15)}>`,
  `[elsewhere](https://evil.example/login)`,
];

const COLUMNS = Array.from({ length: 200 }, (_, index) => `column ${index}`);
/** Markdown table that is wider than any window. */
const TABLE = [COLUMNS, COLUMNS.map(() => "---"), COLUMNS].map((row) => `| ${row.join(" | ")} |`).join("\n");

/** Text that contains all attack payloads. */
const WORDS = [...TAGS, ...MARKDOWN, BIDI, LONG, `\`\`\`\n${LONG}\n\`\`\``].join("\n\n");

/** SVG file with scripts and an external image. */
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="${compromise(18)}"><script>${compromise(19)}</script><image href="https://evil.example/pixel.png"/><rect width="40" height="40"/></svg>`;

/** Python program that prints the payloads and writes files with hostile names and contents. */
const PROGRAM = `import sys
words = ${JSON.stringify([...TAGS, BIDI, LONG].join("\n"))}
print(words)
print(words, file=sys.stderr)
for name in ["<img src=x onerror=${compromise(16)}>.png", "\\u202egnp.exe", "${"n".repeat(200)}.txt"]:
    open(name, "w").write(words)
open("evil.svg", "w").write(${JSON.stringify(SVG)})
open("evil.html", "w").write(${JSON.stringify(`<!doctype html>${TAGS.join("")}`)})
open("evil.md", "w").write(${JSON.stringify(MARKDOWN.join("\n\n"))})
`;

/** Returns a model that answers every request with payloads in the requested schema. Its first program fails. */
function hostileModel(): (request: ModelRequest) => ModelAnswer {
  let programs = 0;
  return (request) => {
    if (request.schema === "GeneratedCode") programs += 1;
    return hostileAnswer(request, programs > 1);
  };
}

/** Returns an answer with payloads in the requested schema. `works` selects a program that succeeds. */
function hostileAnswer({ schema, last, messages, tools }: ModelRequest, works: boolean): ModelAnswer {
  if (tools.length > 0) {
    const done = messages.filter((one) => one.role === "tool");
    const draft = /_handoff[^"\\]*?\.draft/.exec(JSON.stringify(done))?.[0] ?? "";
    const steps: ModelAnswer[] = [
      { tool: "ollama_request_draft", arguments: { source_path: "watchdog.py", task_id: taskOf(messages) } },
      { tool: "ollama_write_draft", arguments: { draft_path: draft, content: `${WATCHDOG}# ${SHORT} ${LONG}\n` } },
      { tool: "ollama_submit_draft", arguments: { draft_path: draft, original_path: "watchdog.py", task_id: taskOf(messages), change_summary: `${SHORT} ${LONG}` } },
    ];
    return steps[done.length] ?? WORDS;
  }
  switch (schema) {
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

/** Returns the task id that the prompt of a file-editing run names. */
const taskOf = (messages: { content: string | null }[]) => /task(?:_id| id)?[^a-z0-9]+(work-[a-z0-9]+)/i.exec(JSON.stringify(messages))?.[1] ?? "t1";

/** Expects that no payload is active in the page, and that the page is not too wide for a desktop or a phone. */
async function expectInert(page: Page): Promise<void> {
  const found = await page.evaluate(() => {
    const all = [...document.querySelectorAll("*")];
    const own = (address: string) => new URL(address, location.href).origin === location.origin;
    const named = all.flatMap((one) => [...one.attributes].map(({ name, value }) => ({ one, name, value, shown: `${one.tagName} ${name}=${value.slice(0, 100)}` })));
    const leads = named.filter(({ name }) => ["href", "src", "action", "formaction", "data"].includes(name));
    // An SVG in an `img` element is allowed: there it runs no scripts and sends no requests.
    const svgImage = ({ one, value }: (typeof named)[number]) => one.matches("img") && value.startsWith("data:image/svg+xml,");
    return {
      owned: (window as { __owned?: unknown }).__owned,
      handlers: named.filter(({ name }) => name.startsWith("on") || name === "srcdoc").map(({ shown }) => shown),
      made: all.filter((one) => one.matches("iframe, object, embed, form form, body style, base, meta[http-equiv]")).map((one) => one.outerHTML.slice(0, 100)),
      odd: leads.filter((at) => !svgImage(at) && !/^(https?|mailto):/.test(new URL(at.value, location.href).href)).map(({ shown }) => shown),
      fetched: leads.filter((at) => at.name !== "href" && !svgImage(at) && !own(at.value)).map(({ shown }) => shown),
      // A link to another site must show the host of its target, except the attribution link of React Flow.
      unlabelled: leads.filter(({ one, value }) => one.matches("a:not(.react-flow__attribution a)") && !own(value) && !one.textContent?.includes(new URL(value).host)).map(({ shown }) => shown),
    };
  });
  expect.soft(found, page.url()).toEqual({ owned: undefined, handlers: [], made: [], odd: [], fetched: [], unlabelled: [] });
  await expectFits(page);
  const size = page.viewportSize()!;
  await page.setViewportSize({ width: 390, height: 844 });
  await expectFits(page);
  await page.setViewportSize(size);
}

test("control: the payloads run scripts if they are inserted into a page as HTML", async ({ page, browserErrors }) => {
  browserErrors.allow(/evil\.example|ERR_NAME_NOT_RESOLVED|about:blank/);
  await page.setContent(TAGS.join(""));
  await expect.poll(() => page.evaluate(() => (window as { __owned?: unknown }).__owned)).toBeDefined();
});

test("the content security policy blocks scripts, images and frames in injected HTML and reports them", async ({ page, serve, browserErrors }) => {
  browserErrors.allow(/content security policy|evil\.example|404 \(Not Found\) \(.*\/x\)/i);
  const server = await serve();
  await signIn(page, server);
  await page.evaluate((tags) => {
    const place = document.createElement("div");
    document.body.append(place);
    place.innerHTML = tags.join("");
    const script = document.createElement("script");
    script.textContent = "window.__owned = 20";
    place.append(script);
  }, TAGS);
  const stopped = (directive: string) => browserErrors.seen().some((one) => one.startsWith(`content security policy: ${directive}`));
  for (const directive of ["script-src-attr", "script-src-elem", "img-src", "frame-src"]) {
    await expect.poll(() => stopped(directive), directive).toBe(true);
  }
  expect(await page.evaluate(() => (window as { __owned?: unknown }).__owned)).toBeUndefined();
});

test("a hostile company name is shown as text", async ({ page, serve, provider }) => {
  const models = await provider(hostileModel());
  const server = await serve({ env: models.env });
  const name = `<img src=x onerror=${compromise(21)}> [link](javascript:${compromise(22)})`;
  const run = await server.completeRun({ kind: "consult", name, rounds: 1, moves: 1, yes: true });
  await signIn(page, server);
  await expect(page.getByRole("link", { name: /onerror=window/ }).first()).toBeVisible();
  await expectInert(page);
  await page.goto(`${server.address}/runs/${run.id}`);
  await expect(page.getByRole("heading", { level: 1 })).toContainText("<img src=x");
  await expectInert(page);
  // The server rejects a ticker that contains HTML.
  const ticker = `<script>${compromise(23)}</script>`;
  await expect(server.request("POST", "/api/runs", { kind: "consult", ticker, yes: true })).rejects.toThrow(/ticker/);
});

test("hostile texts in a consultation are shown as text and run no scripts", async ({ page, serve, provider }) => {
  const models = await provider(hostileModel());
  const server = await serve({ env: models.env });
  const run = await server.completeRun({ kind: "consult", ticker: "EVIL", rounds: 2, moves: 1, yes: true });
  await signIn(page, server);
  await expect(page.getByRole("link", { name: /EVIL/ })).toBeVisible();
  await expectInert(page);
  await page.goto(`${server.address}/runs/${run.id}`);
  const panel = page.getByRole("tabpanel");
  await expect(panel.getByRole("button", { name: "Read the debate" }).first()).toBeVisible();
  // HTML in the answers is shown as text.
  await expect(panel).toContainText("<script>window.__owned=1</script>");
  await expectInert(page);
  for (const name of ["Pipeline", "Progress list"]) {
    await view(page, name).click();
    await expect(panel).toContainText("m5");
    await expectInert(page);
  }
  await view(page, "Documents").click();
  for (const name of ["F1.md", "moves/m1.md", "report.md"]) {
    await panel.getByRole("button", { name, exact: true }).click();
    await expect(panel.getByRole("heading", { name, exact: true })).toBeVisible();
    await expect(panel.getByRole("status", { name: "Loading" })).toBeHidden();
    await expectInert(page);
  }
  await page.goto(`${server.address}/runs/${run.id}?move=m1`);
  const opened = debateDialog(page, "m1");
  await expect(criticLabel(opened, 2)).toBeAttached();
  await expectInert(page);
  // Markdown links with `javascript:` or `data:` targets are shown as text, not as links.
  for (const label of ["by a link", "by another", "data", "by reference"]) {
    const link = opened.getByText(label, { exact: true }).first();
    await expect(link).toBeVisible();
    expect(await link.evaluate((one) => one.closest("a")), label).toBeNull();
  }
  // The wide table scrolls inside its container instead of widening the page.
  const cell = opened.getByRole("cell", { name: "column 199", exact: true }).first();
  await expect(cell).not.toBeInViewport();
  await cell.scrollIntoViewIfNeeded();
  await expect(cell).toBeInViewport();
  await expectFits(page);
});

test("hostile texts in a program, its output, files and critique run no scripts", async ({ page, serve, provider }) => {
  const models = await provider(hostileModel());
  const server = await serve({ env: models.env });
  const run = await server.completeRun({ kind: "run", task: `${WORDS}\n\n${TABLE}` });
  await signIn(page, server);
  await expect(page.getByRole("region", { name: "Recent trials" }).getByRole("link")).toBeVisible();
  await expectInert(page);
  await page.goto(`${server.address}/runs/${run.id}`);
  await expect(page.getByRole("heading", { name: "Attempt 2" })).toBeVisible();
  await expect(page.getByRole("main")).toContainText(TAGS[0]!);
  await expect(page.getByRole("link", { name: "<img src=x onerror=window.__owned=16>.png" })).toBeVisible();
  const picture = page.getByRole("img", { name: "evil.svg" });
  await expect.poll(() => picture.evaluate((one: HTMLImageElement) => one.naturalWidth)).toBe(40);
  await expectInert(page);
  // The URL of an output file starts a download: the browser never renders the file as a page of the server.
  for (const file of ["evil.svg", "evil.html", "evil.md"]) {
    const address = await page.getByRole("link", { name: file }).first().evaluate((one: HTMLAnchorElement) => one.href);
    const [download] = await Promise.all([page.waitForEvent("download"), page.evaluate((to) => { location.href = to; }, address)]);
    expect(download.suggestedFilename()).toBe(file);
  }
  await expectInert(page);
});

test("hostile texts in debates, evaluations, file-editing runs and drafts run no scripts", async ({ page, serve, provider }) => {
  const models = await provider(hostileModel());
  const server = await serve({ env: models.env, roots: ["site"] });
  await writeFile(join(server.folder("site"), "watchdog.py"), WATCHDOG);
  const debate = await server.completeRun({ kind: "debate", document: `# ${SHORT} ${LONG}\n\n${WORDS}\n\n${TABLE}`, rounds: 1 });
  const problem = { task_id: SHORT, prompt: `def f():\n    """${LONG}"""\n`, entry_point: "f", test: "def check(f):\n    assert f() == 1\n", canonical_solution: "    return 1\n" };
  const evaluated = await server.completeRun({ kind: "eval", name: `${SHORT} ${LONG}`.slice(0, 100), problems: JSON.stringify(problem), max_attempts: 1 });
  const work = await server.completeRun({ kind: "work", workspace: "site", task: `${SHORT} ${LONG} watchdog.py` });
  const agent = await DraftClient.connect(server, "site");
  const name = `<img src=x onerror=${compromise(17)}>${"n".repeat(150)}.md`;
  expect((await agent.submit("evil", { [name]: `${WORDS}\n\n${TABLE}\n` }, `${SHORT} ${LONG}`)).verdict).toBe("escalated");
  await signIn(page, server);
  for (const run of [debate, evaluated, work]) {
    await page.goto(`${server.address}/runs/${run.id}`);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expectStatus(page, "done");
    await expectInert(page);
  }
  await page.goto(`${server.address}/drafts/site`);
  const accept = page.getByRole("button", { name: "Accept" });
  await expect(accept).toBeVisible();
  await expectInert(page);
  const submissions = page.getByRole("main").getByRole("listitem").getByRole("link");
  await expect(submissions).toHaveCount(2);
  for (const link of await submissions.all()) {
    await link.click();
    await expect(page.getByRole("button", { name: "Unified" })).toBeVisible();
    // The gate detects the bidirectional control characters; the page shows the reason of the gate at that line.
    await expect(page.getByRole("main")).toContainText("turned-text");
    await expectInert(page);
    await page.getByRole("button", { name: "Side by side" }).click();
    await expectInert(page);
  }
});
