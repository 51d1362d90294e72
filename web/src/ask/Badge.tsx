// The number of a source in the text; it opens the card.
import { badgeText, type Citation, type VerifiedCitation } from "@citewire/client";

import { words } from "../words";
import { card, hoverIn, hoverOut, togglePinned } from "./card-state";

export interface BadgeTarget {
  citation: Citation;
  /** What the passage says about this sentence; null while or where it isn't known. */
  verified: VerifiedCitation | null;
}

export function Badge({ target }: { target: BadgeTarget }) {
  const { citation, verified } = target;
  const verdict = verified?.verdict;
  const name = words.value.source(citation.index, citation.title || citation.file_name);
  return (
    <button
      type="button"
      class={`badge ${verdict ?? ""}`}
      aria-label={verdict === undefined ? name : `${name}. ${words.value.verdict[verdict]}`}
      aria-haspopup="dialog"
      aria-expanded={card.value?.target.citation === citation && card.value.pinned}
      onPointerEnter={(event) => hoverIn(event, target)}
      onPointerLeave={hoverOut}
      onClick={(event) => togglePinned(event.currentTarget, target)}
    >
      {badgeText(citation.index)}
    </button>
  );
}
