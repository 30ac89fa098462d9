import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react(), tailwind()],
  build: {
    // Inline no assets: the server's content security policy blocks them.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
  },
  server: {
    // For development: the API of a local `assize serve --no-auth`.
    proxy: { "/api": "http://127.0.0.1:8080" },
  },
});
