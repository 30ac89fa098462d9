// MCP client that drafts and submits changes through the draft tools of a server, as an agent does.

import type { TestServer } from "./server.ts";

export class DraftClient {
  private session = "";
  private sent = 0;

  private constructor(
    private readonly url: string,
    private readonly token: string,
  ) {}

  static async connect(server: TestServer, workspace: string): Promise<DraftClient> {
    // A token with this scope allows the draft tools only: neither running code nor accepting drafts.
    const { token } = await server.post<{ token: string }>("/api/tokens", { scope: `drafts/${workspace}` });
    const client = new DraftClient(`${server.address}/mcp/drafts/${workspace}`, token);
    const clientInfo = { name: "tester", version: "1" };
    await client.request("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
    await client.send({ method: "notifications/initialized" });
    return client;
  }

  /** Drafts new contents for files and submits all files together. Returns the verdict of the gate. */
  async submit(task: string, files: Record<string, string>, summary: string): Promise<{ verdict: string }> {
    const paths: [string, string][] = [];
    for (const [path, content] of Object.entries(files)) {
      const { draft_path } = await this.call("ollama_request_draft", { source_path: path, task_id: task });
      await this.call("ollama_write_draft", { draft_path, content });
      paths.push([path, draft_path]);
    }
    const [original_path, draft_path] = paths[0]!;
    const all = paths.length > 1;
    return this.call("ollama_submit_draft", { draft_path, original_path, task_id: task, change_summary: summary, include_all_drafts: all });
  }

  private async call(name: string, args: object): Promise<any> {
    const result = await this.request("tools/call", { name, arguments: args });
    if (result.isError) throw new Error(`call of the tool ${name} failed: ${JSON.stringify(result.content)}`);
    return result.structuredContent;
  }

  private async request(method: string, params: object): Promise<any> {
    this.sent += 1;
    const text = await this.send({ id: this.sent, method, params });
    // The server replies with plain JSON or with one server-sent event.
    const line = text.startsWith("{") ? text : (text.match(/^data: (\{.*)$/m)?.[1] ?? "");
    const reply = JSON.parse(line) as { result?: any; error?: unknown };
    if (reply.error) throw new Error(`MCP request ${method} failed: ${JSON.stringify(reply.error)}`);
    return reply.result;
  }

  private async send(message: object): Promise<string> {
    const response = await fetch(this.url, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${this.token}`,
        "Content-Type": "application/json",
        Accept: "application/json, text/event-stream",
        ...(this.session === "" ? {} : { "Mcp-Session-Id": this.session }),
      },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    });
    this.session = response.headers.get("mcp-session-id") ?? this.session;
    const text = await response.text();
    if (!response.ok) throw new Error(`MCP request failed with status ${response.status}: ${text}`);
    return text;
  }
}
