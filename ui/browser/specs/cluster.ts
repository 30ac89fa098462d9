// A server that has its work done by others.

import { Cluster } from "../harness/cluster.ts";
import { stands } from "../harness/consultation.ts";
import { choose, enter, expect, fits, test } from "../harness/test.ts";

test("nobody works for the cluster, then somebody does", async ({ page, serve }) => {
  const cluster = await Cluster.start();
  try {
    const serving = await serve({ env: { ASSIZE_CLUSTER_SERVERS: cluster.address } });
    await enter(page, serving);
    await expect(page.getByRole("alert")).toContainText("Nobody works for the cluster");
    await expect(page.getByText("cluster: assize")).toBeVisible();
    await expect(page.getByText("kept in:")).toHaveCount(0);
    await choose(page, "Code");
    await page.getByRole("textbox", { name: "A ticker, a task or a move" }).fill("Calculate fibonacci(10)");
    await page.getByRole("button", { name: "Begin" }).click();
    await stands(page, "waiting");
    const asked = page.url();

    await cluster.worker("--slots", "3", "--isolation", "jail", "--label", "site=north");
    await stands(page, "done");
    await page.goto(serving.address + "/system");
    const nodes = page.getByRole("region", { name: /^Cluster assize/ });
    await expect(nodes).toContainText("0 of 3 sandboxes in use; 0 runs held, 0 waiting.");
    await expect(nodes.getByRole("listitem")).toHaveText([/^server/, /^worker.*0 of 3 sandboxes in use, 0 runs held.*jail.*site=north/]);
    await expect(page.getByText("Walls on the machine of this server")).toBeVisible();
    await fits(page);
    await page.goto(serving.address + "/");
    await expect(page.getByText("cluster: assize")).toBeVisible();
    await expect(page.getByRole("alert")).toHaveCount(0);
    await page.goto(asked);
    await stands(page, "done");
  } finally {
    await cluster.close();
  }
});
