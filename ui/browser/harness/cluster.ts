// A real server of NATS, and workers of the built program.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { PROGRAM } from "./serving.ts";

export class Cluster {
  address = "";
  private readonly children: ChildProcess[] = [];

  private constructor(private readonly folder: string) {}

  static async start(): Promise<Cluster> {
    const folder = await mkdtemp(join(tmpdir(), "assize-cluster-"));
    const cluster = new Cluster(folder);
    const nats = cluster.spawned("nats-server", ["-a", "127.0.0.1", "-p", "-1", "-js", "-sd", folder]);
    // The server logs its port on standard error; it writes the ports file some time after it is ready.
    const log = await said(nats, "stderr", "Server is ready");
    cluster.address = `nats://127.0.0.1:${/Listening for client connections on 127\.0\.0\.1:(\d+)/.exec(log)![1]}`;
    return cluster;
  }

  /** A worker that takes work as soon as this is over. */
  async worker(...args: string[]): Promise<void> {
    const worker = this.spawned(PROGRAM, ["worker", "--json", "--cluster", this.address, ...args]);
    await said(worker, "stdout", "\n}");
  }

  private spawned(program: string, args: string[]): ChildProcess {
    const env = { HOME: this.folder, PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin", OLLAMA_HOST: "127.0.0.1:9" };
    const child = spawn(program, args, { cwd: this.folder, env, stdio: ["ignore", "pipe", "pipe"] });
    this.children.push(child);
    return child;
  }

  /** The workers first: they say farewell. */
  async close(): Promise<void> {
    for (const child of this.children.reverse()) {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    }
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Waits until a process has written `what`; returns everything it has written. */
function said(child: ChildProcess, where: "stdout" | "stderr", what: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    for (const name of ["stdout", "stderr"] as const) {
      child[name]!.setEncoding("utf8").on("data", (more: string) => {
        text += more;
        if (name === where && text.includes(what)) resolve(text);
      });
    }
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`it ended (${code}): ${text}`)));
  });
}
