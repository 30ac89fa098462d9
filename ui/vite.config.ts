import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react(), tailwind()],
  build: {
    // Nothing in line: the server's policy would refuse it.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
  },
  server: {
    // `assize serve --no-auth`, while the page is being worked on.
    proxy: { "/api": "http://127.0.0.1:8080" },
  },
});
