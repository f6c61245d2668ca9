// Token texts as people read them. Pure functions.

export const ACCEPTED = 1;
export const REJECTED = 2;

/** White space made visible, cut to `limit` characters (0: not cut). */
export function visible(piece, limit = 0) {
  if (piece === undefined || piece === null) return "";
  if (piece === "") return "∅";
  const shown = piece.replace(/ /g, "·").replace(/\r?\n/g, "↵").replace(/\t/g, "⇥");
  const characters = Array.from(shown);
  return limit && characters.length > limit ? characters.slice(0, limit - 1).join("") + "…" : shown;
}

/** A token in a sentence: quotes around the text as it is, line breaks made visible, spaces that never wrap. */
export function quoted(piece) {
  if (piece === "" || piece === undefined || piece === null) return "an empty token";
  return `“${piece.replace(/\r?\n/g, "↵").replace(/ /g, "\u00a0")}”`;
}

/** Columns of the accepted drafted tokens that were committed (an end token or the limit may cut some off). */
export function committedPath(step) {
  const path = step.path || [];
  return path.slice(0, Math.min(step.num_accepted, step.tokens.length));
}

/**
 * The step's text as spans [{text, drafted}]: drafted tokens that were accepted, then the target's own token.
 * `step.text` is what may be shown (never half a character); the pieces only say where one token ends. Where they
 * do not add up, as when a character is split over tokens, the rest becomes one span.
 */
export function spansOf(step) {
  const spans = [];
  let rest = step.text;
  const columns = committedPath(step);
  const drafted = Math.min(step.num_accepted, step.tokens.length);
  let matched = 0;
  for (const column of columns) {
    const piece = step.tree ? step.tree.pieces[column] : null;
    if (!piece || !rest.startsWith(piece)) break;
    spans.push({ text: piece, drafted: true, column });
    rest = rest.slice(piece.length);
    matched += 1;
  }
  if (rest) spans.push({ text: rest, drafted: matched < drafted, column: null });
  return spans;
}

/** Text of the target's own token at the end of a step; null when it was cut off or cannot be told. */
export function bonusPiece(step, next) {
  if (step.tokens.length <= step.num_accepted) return null;
  if (next && next.tree) return next.tree.pieces[0];
  const last = spansOf(step).at(-1);
  return last && !last.drafted ? last.text : null;
}

export function percent(value, digits = 0) {
  return value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)}\u00a0%`;
}

export function decimal(value, digits = 2) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toFixed(digits);
}

/** A probability: small ones keep a digit that says something. */
export function probability(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 0.995 && value < 1) return "> 0.99";
  return value !== 0 && value < 0.01 ? value.toExponential(0) : value.toFixed(2);
}
