/** Says plainly that the built-in demo is no language model. */
import type { ModelChoice } from "@orrery/client";
import type { ReactNode } from "react";
import { Icon } from "./icons";

interface DemoBannerProps {
  choice: ModelChoice | null;
  /** Whether the conversation below needs the room. */
  short?: boolean;
}

export function DemoBanner({ choice, short }: DemoBannerProps): ReactNode {
  if (choice?.provider !== "offline") return null;
  return (
    <p className="demo-banner" data-testid="demo-banner">
      <Icon name="info" size={15} />
      <span>
        <strong>This is the built-in demo, not a language model.</strong> It follows a fixed script
        {short ? (
          "."
        ) : (
          <>
            , so that you can try the page without a key. For real work add a provider to{" "}
            <code>config.toml</code> and choose its model below.
          </>
        )}
      </span>
    </p>
  );
}
