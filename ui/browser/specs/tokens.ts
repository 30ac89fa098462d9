// Tests of the list of scoped tokens on the System page.

import { expect, signIn, test } from "../harness/test.ts";

test("the System page lists scoped tokens, and a revoked token is refused", async ({ page, serve }) => {
  const server = await serve();
  const post = async (body: unknown) => {
    const headers = { Authorization: `Bearer ${server.token}`, "Content-Type": "application/json" };
    const response = await fetch(`${server.address}/api/tokens`, { method: "POST", headers, body: JSON.stringify(body) });
    return (await response.json()) as { id: string; token: string; path: string };
  };
  await signIn(page, server);
  await page.goto(`${server.address}/system`);
  const tokens = page.getByRole("region", { name: "Scoped tokens" });
  await expect(tokens.getByText("No scoped tokens")).toBeVisible();
  const kept = await post({ scope: "code" });
  const revoked = await post({ scope: "code", ttl_seconds: 3600 });
  await page.reload();
  await expect(tokens.getByRole("listitem")).toHaveCount(2);
  const row = tokens.getByRole("listitem").filter({ hasText: revoked.id });
  await expect(row).toContainText("code");
  await expect(row).toContainText(/created .*, expires /);
  await row.getByRole("button", { name: `Revoke token ${revoked.id}` }).click();
  await expect(tokens.getByRole("listitem")).toHaveCount(1);
  await expect(tokens.getByText(kept.id)).toBeVisible();
  const ping = { method: "POST", headers: { Authorization: `Bearer ${revoked.token}` } };
  expect((await fetch(server.address + revoked.path, ping)).status).toBe(401);
});
