// Test server: the built binary runs `assize serve` in a temporary home folder and with a clean environment.

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/** Path of the `assize` binary under test. */
export const PROGRAM = process.env.ASSIZE ?? "";

export interface ServerOptions {
  /** Environment variables that set settings of the server. */
  env?: Record<string, string>;
  /** Names of workspaces. A folder for each is created in the working folder and passed as `--root`. */
  roots?: string[];
}

/** Run, as the API returns it. */
export interface Run {
  id: string;
  kind: string;
  title: string;
  status: "running" | "stopped" | "done" | "failed" | "cancelled";
  parent: string | null;
  result: any;
}

export class TestServer {
  /** Standard error output of the server since its first start, including restarts. */
  log = "";
  address = "";
  token = "";
  private child: ChildProcess | null = null;
  /** Sign-in link that the server printed at its start; `null` once it is used. */
  private firstLink: string | null = null;

  private constructor(
    readonly home: string,
    private readonly options: ServerOptions,
  ) {}

  static async start(options: ServerOptions = {}): Promise<TestServer> {
    if (PROGRAM === "") throw new Error("ASSIZE is not set: set it to the path of the binary to test, such as target/debug/assize");
    const server = new TestServer(await mkdtemp(join(tmpdir(), "assize-browser-")), options);
    await mkdir(server.folder());
    for (const root of options.roots ?? []) await mkdir(server.folder(root), { recursive: true });
    await server.spawn("127.0.0.1:0");
    return server;
  }

  /** Returns the path of the working folder of the server, or of a folder inside it. */
  folder(name = ""): string {
    return join(this.home, "work", name);
  }

  private get environment(): Record<string, string> {
    return {
      HOME: this.home,
      PATH: "/usr/local/bin:/usr/bin:/bin",
      // No Ollama server listens on this port, so `assize` finds no local model.
      OLLAMA_HOST: "127.0.0.1:9",
      // Tests start more runs per minute than the default rate limit allows.
      ASSIZE_SERVE_STARTS_PER_MINUTE: "10000",
      ...this.options.env,
    };
  }

  private async spawn(listen: string): Promise<void> {
    const roots = (this.options.roots ?? []).flatMap((name) => ["--root", `${name}=${this.folder(name)}`]);
    const child = spawn(PROGRAM, ["serve", "--json", "--listen", listen, ...roots], {
      cwd: this.folder(),
      env: this.environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    child.stderr.setEncoding("utf8").on("data", (text: string) => (this.log += text));
    const printed = await new Promise<string>((resolve, reject) => {
      let text = "";
      child.stdout.setEncoding("utf8").on("data", (more: string) => {
        text += more;
        if (text.trimEnd().endsWith("}")) resolve(text);
      });
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`server exited with code ${code}: ${this.log}`)));
    });
    const { listen: at, link, token_file } = JSON.parse(printed) as { listen: string; link: string; token_file: string };
    this.address = `http://${at}`;
    this.firstLink = link;
    this.token = (await readFile(token_file, "utf8")).trim();
  }

  /** Runs another command of the `assize` binary in the same environment. Returns its standard output. */
  async command(...args: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(PROGRAM, args, { cwd: this.folder(), env: this.environment });
    return stdout;
  }

  private async terminate(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.child;
    if (!child) return null;
    this.child = null;
    const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
    child.kill(signal);
    return exited;
  }

  /** Kills the server with SIGKILL, as in a crash. */
  async kill(): Promise<void> {
    await this.terminate("SIGKILL");
  }

  /** Starts the server again with the same address and data. */
  async restart(): Promise<void> {
    await this.spawn(new URL(this.address).host);
  }

  /** Stops the server and deletes its home folder. Fails if the server exited with an error code. */
  async close(): Promise<void> {
    const code = await this.terminate("SIGTERM");
    await rm(this.home, { recursive: true, force: true });
    if (code) throw new Error(`server exited with code ${code}: ${this.log}`);
  }

  /** Returns an unused sign-in link (each works once): first the link that the server printed, then new links. */
  async link(): Promise<string> {
    const printed = this.firstLink;
    this.firstLink = null;
    if (printed) return printed;
    const { path } = await this.post<{ path: string }>("/api/links");
    return this.address + path;
  }

  async request<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(this.address + path, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} failed with status ${response.status}: ${text}`);
    return (text === "" ? null : JSON.parse(text)) as T;
  }

  get<T = any>(path: string): Promise<T> {
    return this.request<T>("GET", path);
  }

  post<T = any>(path: string, body: unknown = {}): Promise<T> {
    return this.request<T>("POST", path, body);
  }

  /** Starts a run. Returns the id of the run. */
  async startRun(body: Record<string, unknown>): Promise<string> {
    return (await this.post<Run>("/api/runs", body)).id;
  }

  run(id: string): Promise<Run> {
    return this.get<Run>(`/api/runs/${id}`);
  }

  /** Waits until a run has ended. The server then closes the event stream of the run. Returns the run. */
  async waitForEnd(id: string): Promise<Run> {
    const headers = { Authorization: `Bearer ${this.token}` };
    await (await fetch(`${this.address}/api/runs/${id}/events`, { headers })).text();
    return this.run(id);
  }

  /** Starts a run and waits until it has ended. Fails if the run ends with a status other than `done`. */
  async completeRun(body: Record<string, unknown>): Promise<Run> {
    const run = await this.waitForEnd(await this.startRun(body));
    if (run.status !== "done") throw new Error(`run ended with status ${run.status} instead of done: ${JSON.stringify(run)}`);
    return run;
  }
}
