// Tests of the page of a server in a cluster, where workers execute the runs.

import { Cluster } from "../harness/cluster.ts";
import { expectStatus } from "../harness/consultation.ts";
import { chooseKind, expect, expectFits, signIn, test } from "../harness/test.ts";

test("a run in a cluster without workers waits, and is executed when a worker joins", async ({ page, serve }) => {
  const cluster = await Cluster.start();
  try {
    const server = await serve({ env: { ASSIZE_CLUSTER_SERVERS: cluster.address } });
    await signIn(page, server);
    await expect(page.getByRole("alert")).toContainText("The cluster has no workers");
    await expect(page.getByText("cluster: assize")).toBeVisible();
    await expect(page.getByText("store:")).toHaveCount(0);
    await chooseKind(page, "Code");
    await page.getByRole("textbox", { name: "Company ticker, programming task or proposed move" }).fill("Calculate fibonacci(10)");
    await page.getByRole("button", { name: "Start" }).click();
    await expectStatus(page, "waiting");
    const runUrl = page.url();

    await cluster.startWorker("--slots", "3", "--isolation", "jail", "--label", "site=north");
    await expectStatus(page, "done");
    await page.goto(server.address + "/system");
    const nodes = page.getByRole("region", { name: /^Cluster assize/ });
    await expect(nodes).toContainText("0 of 3 sandboxes in use; 0 active runs, 0 waiting runs.");
    await expect(nodes.getByRole("listitem")).toHaveText([/^server/, /^worker.*0 of 3 sandboxes in use, 0 active runs.*jail.*site=north/]);
    await expect(page.getByText("Sandbox backends of this server")).toBeVisible();
    await expectFits(page);
    await page.goto(server.address + "/");
    await expect(page.getByText("cluster: assize")).toBeVisible();
    await expect(page.getByRole("alert")).toHaveCount(0);
    await page.goto(runUrl);
    await expectStatus(page, "done");
  } finally {
    await cluster.close();
  }
});
