/** Starts the page: one client for its own origin, one tree. */
import { OrreryClient } from "@orrery/client";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { ClientContext } from "./lib/hooks";
import { applyTheme, storedTheme } from "./lib/theme";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/sidebar.css";
import "./styles/chat.css";
import "./styles/prose.css";
import "./styles/tools.css";
import "./styles/agents.css";
import "./styles/composer.css";
import "./styles/dialogs.css";

applyTheme(storedTheme());
const client = new OrreryClient({ origin: "", pageOrigin: location.origin });
client.start();
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <ClientContext value={client}>
        <App />
      </ClientContext>
    </StrictMode>,
  );
}
