// Prints the page's TypeScript types, generated from the OpenAPI document of a running `assize serve`.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import openapiTS, { astToString } from "openapi-typescript";

const HEAD = `// Types of the API, generated from the server's OpenAPI document by \`scripts/page-schema\`. Do not edit.

`;

/** Waits until the server listens; resolves to the address it prints. */
function listening(server) {
  return new Promise((resolve, reject) => {
    let text = "";
    server.stdout.setEncoding("utf8").on("data", (more) => {
      text += more;
      if (text.trimEnd().endsWith("}")) resolve(JSON.parse(text).listen);
    });
    server.once("error", reject);
    server.once("exit", (code) => reject(new Error(`the server exited with ${code}`)));
  });
}

/** Fetches the OpenAPI document of a server with default settings. */
async function fetchDocument(program) {
  const home = mkdtempSync(join(tmpdir(), "assize-schema-"));
  const env = { HOME: home, PATH: "/usr/local/bin:/usr/bin:/bin", OLLAMA_HOST: "127.0.0.1:9" };
  const server = spawn(program, ["serve", "--json", "--no-auth", "--listen", "127.0.0.1:0"], { cwd: home, env, stdio: ["ignore", "pipe", "inherit"] });
  try {
    const response = await fetch(`http://${await listening(server)}/api/openapi.json`);
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    return await response.json();
  } finally {
    const exited = new Promise((resolve) => server.once("exit", resolve));
    if (server.kill()) await exited;
    rmSync(home, { recursive: true, force: true });
  }
}

const document = await fetchDocument(process.argv[2]);
// The generator does not support OpenAPI 3.2 yet. Only event streams need it; the rest is valid 3.1.
document.openapi = "3.1.0";
for (const operation of Object.values(document.paths).flatMap(Object.values)) {
  // The page needs types only: drop the descriptions, and the error response that all routes share.
  delete operation.summary;
  delete operation.description;
  delete operation.responses.default;
  for (const parameter of operation.parameters ?? []) delete parameter.description;
  for (const response of Object.values(operation.responses)) response.description = "";
}
const nodes = await openapiTS(document, { alphabetize: true, defaultNonNullable: false, rootTypes: true, rootTypesNoSchemaPrefix: true });
process.stdout.write(HEAD + astToString(nodes));
