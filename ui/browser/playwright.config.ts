import { defineConfig } from "@playwright/test";

/** Whether the tests run as root: then Chromium cannot use its sandbox. */
const root = process.getuid?.() === 0;

export default defineConfig({
  testDir: "specs",
  testMatch: "*.ts",
  // The specs of shots.ts run only if ASSIZE_SHOTS is set.
  testIgnore: process.env.ASSIZE_SHOTS ? [] : ["shots.ts"],
  outputDir: "results",
  // On a machine with two cores, a third worker process does not make the tests faster.
  workers: 2,
  retries: 0,
  forbidOnly: true,
  // The timeouts, in milliseconds, are long because test machines may be slow and busy.
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
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: process.env.ASSIZE_CHROMIUM ?? "/usr/bin/chromium",
      args: [
        // The browser resolves no host names, so that no request leaves the machine; only 127.0.0.1 is reachable.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ...(root ? ["--no-sandbox"] : []),
      ],
    },
  },
});
