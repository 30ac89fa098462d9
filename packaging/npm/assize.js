#!/usr/bin/env node
// Starts the binary of the package for this platform, and ends as the binary ends.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const packages = { x64: "SCOPE/linux-x64", arm64: "SCOPE/linux-arm64" };

function binary() {
  const name = process.platform === "linux" ? packages[process.arch] : undefined;
  if (!name) {
    console.error(`error: assize runs on Linux with x64 or arm64, not on ${process.platform} with ${process.arch}`);
    process.exit(4);
  }
  try {
    return require.resolve(`${name}/bin/assize`);
  } catch {
    console.error(`error: the package \`${name}\` is not installed`);
    console.error("hint: install assize again, without `--omit=optional` and `--no-optional`");
    process.exit(4);
  }
}

const child = spawn(binary(), process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`error: cannot start assize: ${error.message}`);
  process.exit(4);
});
// The terminal sends SIGINT, SIGQUIT and SIGHUP to the binary, too. Other programs send SIGTERM only to this process.
for (const signal of ["SIGINT", "SIGQUIT", "SIGHUP"]) process.on(signal, () => {});
process.on("SIGTERM", () => child.kill("SIGTERM"));
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
