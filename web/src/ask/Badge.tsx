// The number of a source in the text; it opens the card.
import { badgeText } from "@citewire/client";

import { words } from "../words";
import { anchorRef, type BadgeTarget } from "./card-state";

export function Badge({ target }: { target: BadgeTarget }) {
  const { citation, verified } = target;
  const verdict = verified?.verdict;
  const name = words.value.source(citation.index, citation.title || citation.file_name);
  return (
    <button
      ref={anchorRef(target)}
      type="button"
      class={`badge ${verdict ?? ""}`}
      aria-label={verdict === undefined ? name : `${name}. ${words.value.verdict[verdict]}`}
      aria-haspopup="dialog"
      aria-expanded="false" // changed by card-state, for all of them
    >
      {badgeText(citation.index)}
    </button>
  );
}
