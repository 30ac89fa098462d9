// A real server: the built program, in a home of its own, with nothing of the real environment.

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

export const PROGRAM = process.env.ASSIZE ?? "";

export interface Wishes {
  /** Settings, by the names that they have in the environment. */
  env?: Record<string, string>;
  /** Folders below the working folder that requests may name; they are made. */
  roots?: string[];
}

/** How a run stands. */
export interface Run {
  id: string;
  kind: string;
  title: string;
  status: "running" | "stopped" | "done" | "failed" | "cancelled";
  parent: string | null;
  result: any;
}

export class Serving {
  /** What it has written to standard error, over all its lives. */
  log = "";
  address = "";
  token = "";
  private child: ChildProcess | null = null;
  private firstLink: string | null = null;

  private constructor(
    readonly home: string,
    private readonly wishes: Wishes,
  ) {}

  static async start(wishes: Wishes = {}): Promise<Serving> {
    if (PROGRAM === "") throw new Error("ASSIZE is not set: the program to be tested, such as target/debug/assize");
    const serving = new Serving(await mkdtemp(join(tmpdir(), "assize-browser-")), wishes);
    await mkdir(serving.folder());
    for (const root of wishes.roots ?? []) await mkdir(serving.folder(root), { recursive: true });
    await serving.begin("127.0.0.1:0");
    return serving;
  }

  /** Where it was started, or a folder there. */
  folder(name = ""): string {
    return join(this.home, "work", name);
  }

  private get environment(): Record<string, string> {
    return {
      HOME: this.home,
      PATH: "/usr/local/bin:/usr/bin:/bin",
      // Nobody answers where Ollama would be.
      OLLAMA_HOST: "127.0.0.1:9",
      // Tests begin more in a minute than people do.
      ASSIZE_SERVE_STARTS_PER_MINUTE: "10000",
      ...this.wishes.env,
    };
  }

  private async begin(listen: string): Promise<void> {
    const roots = (this.wishes.roots ?? []).flatMap((name) => ["--root", `${name}=${this.folder(name)}`]);
    const child = spawn(PROGRAM, ["serve", "--json", "--listen", listen, ...roots], {
      cwd: this.folder(),
      env: this.environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    child.stderr.setEncoding("utf8").on("data", (text: string) => (this.log += text));
    const said = await new Promise<string>((resolve, reject) => {
      let text = "";
      child.stdout.setEncoding("utf8").on("data", (more: string) => {
        text += more;
        if (text.trimEnd().endsWith("}")) resolve(text);
      });
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`the server ended (${code}): ${this.log}`)));
    });
    const { listen: at, link, token_file } = JSON.parse(said) as { listen: string; link: string; token_file: string };
    this.address = `http://${at}`;
    this.firstLink = link;
    this.token = (await readFile(token_file, "utf8")).trim();
  }

  /** Another command, of the same person. */
  async command(...args: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(PROGRAM, args, { cwd: this.folder(), env: this.environment });
    return stdout;
  }

  private async end(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.child;
    if (!child) return null;
    this.child = null;
    const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
    child.kill(signal);
    return ended;
  }

  /** Kills it where it stands. */
  async kill(): Promise<void> {
    await this.end("SIGKILL");
  }

  /** Starts it again: the same address, the same data. */
  async again(): Promise<void> {
    await this.begin(new URL(this.address).host);
  }

  /** Stops it, and removes all that was its own. */
  async close(): Promise<void> {
    const code = await this.end("SIGTERM");
    await rm(this.home, { recursive: true, force: true });
    if (code) throw new Error(`the server ended with ${code}: ${this.log}`);
  }

  /** A link that lets a browser in once: first the one that was printed. */
  async link(): Promise<string> {
    const printed = this.firstLink;
    this.firstLink = null;
    if (printed) return printed;
    const { path } = await this.post<{ path: string }>("/api/links");
    return this.address + path;
  }

  async ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(this.address + path, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text === "" ? null : JSON.parse(text)) as T;
  }

  get<T = any>(path: string): Promise<T> {
    return this.ask<T>("GET", path);
  }

  post<T = any>(path: string, body: unknown = {}): Promise<T> {
    return this.ask<T>("POST", path, body);
  }

  /** Begins a trial; its name. */
  async begun(what: Record<string, unknown>): Promise<string> {
    return (await this.post<Run>("/api/runs", what)).id;
  }

  run(id: string): Promise<Run> {
    return this.get<Run>(`/api/runs/${id}`);
  }

  /** How a run stands once it has ended: its stream does then, too. */
  async ended(id: string): Promise<Run> {
    const headers = { Authorization: `Bearer ${this.token}` };
    await (await fetch(`${this.address}/api/runs/${id}/events`, { headers })).text();
    return this.run(id);
  }

  /** Begins a trial, and waits for its end. */
  async through(what: Record<string, unknown>): Promise<Run> {
    const run = await this.ended(await this.begun(what));
    if (run.status !== "done") throw new Error(`it did not come to its end: ${JSON.stringify(run)}`);
    return run;
  }
}
