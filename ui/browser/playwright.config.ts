import { defineConfig } from "@playwright/test";

const root = process.getuid?.() === 0;

export default defineConfig({
  testDir: "specs",
  testMatch: "*.ts",
  // Screenshots are taken only on request.
  testIgnore: process.env.ASSIZE_SHOTS ? [] : ["shots.ts"],
  outputDir: "results",
  // On two cores a third worker is not faster.
  workers: 2,
  retries: 0,
  forbidOnly: true,
  // Generous timeouts: test machines are slow and busy.
  timeout: 120_000,
  expect: { timeout: 30_000 },
  reporter: [["list"]],
  use: {
    browserName: "chromium",
    viewport: { width: 1440, height: 900 },
    locale: "en-GB",
    timezoneId: "UTC",
    colorScheme: "light",
    actionTimeout: 30_000,
    navigationTimeout: 30_000,
    trace: { mode: "retain-on-failure", screenshots: false, sources: false },
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: process.env.ASSIZE_CHROMIUM ?? "/usr/bin/chromium",
      args: [
        // Resolve no host but 127.0.0.1, so that no request leaves the machine.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ...(root ? ["--no-sandbox"] : []),
      ],
    },
  },
});
