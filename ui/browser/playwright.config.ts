import { defineConfig } from "@playwright/test";

const root = process.getuid?.() === 0;

export default defineConfig({
  testDir: "specs",
  testMatch: "*.ts",
  // Pictures are made for whoever asks for them.
  testIgnore: process.env.ASSIZE_SHOTS ? [] : ["shots.ts"],
  outputDir: "results",
  // A third worker is no faster on two cores.
  workers: 2,
  retries: 0,
  forbidOnly: true,
  // Machines that test are slow and have much to do: what is awaited comes, or it does not.
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
        // Nothing leaves the machine, whatever a page asks for.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ...(root ? ["--no-sandbox"] : []),
      ],
    },
  },
});
