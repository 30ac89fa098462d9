// Test cluster: a real NATS server, and workers started from the built `assize` binary.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { PROGRAM } from "./server.ts";

export class Cluster {
  address = "";
  private readonly children: ChildProcess[] = [];

  private constructor(private readonly folder: string) {}

  static async start(): Promise<Cluster> {
    const folder = await mkdtemp(join(tmpdir(), "assize-cluster-"));
    const cluster = new Cluster(folder);
    const nats = cluster.spawn("nats-server", ["-a", "127.0.0.1", "-p", "-1", "-js", "-sd", folder]);
    // Read the port from the log on standard error: NATS writes its ports file only some time after it is ready.
    const log = await waitForOutput(nats, "stderr", "Server is ready");
    cluster.address = `nats://127.0.0.1:${/Listening for client connections on 127\.0\.0\.1:(\d+)/.exec(log)![1]}`;
    return cluster;
  }

  /** Starts a worker and waits until it accepts jobs. */
  async startWorker(...args: string[]): Promise<void> {
    const worker = this.spawn(PROGRAM, ["worker", "--json", "--cluster", this.address, ...args]);
    await waitForOutput(worker, "stdout", "\n}");
  }

  private spawn(program: string, args: string[]): ChildProcess {
    const env = { HOME: this.folder, PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin", OLLAMA_HOST: "127.0.0.1:9" };
    const child = spawn(program, args, { cwd: this.folder, env, stdio: ["ignore", "pipe", "pipe"] });
    this.children.push(child);
    return child;
  }

  /** Stops all processes: first the workers, so that they can still deregister, then NATS. */
  async close(): Promise<void> {
    for (const child of this.children.reverse()) {
      const exited = once(child, "exit");
      child.kill("SIGTERM");
      await exited;
    }
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Waits until a process has written `expected` to a stream. Returns all output of the process so far. */
function waitForOutput(child: ChildProcess, stream: "stdout" | "stderr", expected: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    for (const name of ["stdout", "stderr"] as const) {
      child[name]!.setEncoding("utf8").on("data", (more: string) => {
        text += more;
        if (name === stream && text.includes(expected)) resolve(text);
      });
    }
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`process exited with code ${code} before it wrote ${JSON.stringify(expected)} to ${stream}; its output: ${text}`)));
  });
}
