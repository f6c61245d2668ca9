// Where the nodes of a draft tree go: depth from left to right, a row for every leaf. Pure functions, no drawing.

import { ACCEPTED, REJECTED, visible } from "./text.js";

export const ROW = 21;
export const FOLD_ABOVE = 20; // larger trees start folded
export const GAP = 36;
const CHARACTER = 7.3;
const LABEL_LIMIT = 14;
const LEFT = 16;
const TOP = 18;
const FEW_REJECTED = 5;

export function childrenOf(parents) {
  const children = parents.map(() => []);
  for (let column = 1; column < parents.length; column += 1) children[parents[column]].push(column);
  return children;
}

/**
 * Nodes with places, and the size of it all: {nodes: [{column, x, y, end, parent, kind, label, noted, more, count}], width, height}.
 *
 * kind: root, node, bonus (the target's own next token, not drafted) or fold (stands for `count` nodes that are not drawn).
 * Folding leaves out what was not reached (a node says in `more` how many it had below it) and all but a few rejected siblings.
 */
export function layout(tree, { bonus = null, fold = false } = {}) {
  const children = childrenOf(tree.parents);
  const last = deepestAccepted(tree);
  const nodes = [];
  let rows = 0;

  const size = (column) => 1 + children[column].reduce((sum, child) => sum + size(child), 0);
  const total = (columns) => columns.reduce((sum, column) => sum + size(column), 0);

  function place(column, parent, depth) {
    const { shown, hidden } = fold ? choose(tree, children[column]) : { shown: children[column], hidden: [] };
    const inline = hidden.length > 0 && !shown.length && column !== last;
    const node = { column, parent, depth, kind: column === 0 ? "root" : "node", label: visible(tree.pieces[column], LABEL_LIMIT), more: inline ? total(hidden) : 0,
      noted: column > 0 && tree.draft_probs[column] !== null };
    nodes.push(node);
    const kids = shown.map((child) => place(child, node, depth + 1));
    if (column === last && bonus !== null) {
      kids.push(leaf({ parent: node, depth: depth + 1, kind: "bonus", label: visible(bonus, LABEL_LIMIT) }));
    }
    if (hidden.length && !inline) {
      const count = total(hidden);
      kids.push(leaf({ parent: node, depth: depth + 1, kind: "fold", count, label: `${count} more` }));
    }
    node.row = kids.length ? (kids[0].row + kids.at(-1).row) / 2 : rows++;
    return node;
  }

  function leaf(rest) {
    const node = { column: null, more: 0, row: rows++, ...rest };
    nodes.push(node);
    return node;
  }

  place(0, null, 0);
  const lefts = columnLefts(nodes);
  for (const node of nodes) {
    node.x = lefts[node.depth];
    node.y = TOP + node.row * ROW;
    node.end = node.x + labelWidth(node);
  }
  return { nodes, width: Math.max(...nodes.map((node) => node.end)) + 12, height: 2 * TOP + Math.max(0, rows - 1) * ROW };
}

/** Which siblings a folded tree draws: the accepted one and the first few rejected ones. */
function choose(tree, siblings) {
  let rejected = 0;
  const shown = siblings.filter((column) => {
    if (tree.verdicts[column] === REJECTED) rejected += 1;
    return tree.verdicts[column] === ACCEPTED || (tree.verdicts[column] === REJECTED && rejected <= FEW_REJECTED);
  });
  return { shown, hidden: siblings.filter((column) => !shown.includes(column)) };
}

export function deepestAccepted(tree) {
  let last = 0;
  tree.verdicts.forEach((verdict, column) => {
    if (verdict === ACCEPTED && column > 0) last = Math.max(last, column);
  });
  // One path is accepted and children come after their parents: the highest accepted column is the deepest.
  return last;
}

function labelWidth(node) {
  const note = (node.noted ? 5 : 0) + (node.more ? 4 : 0); // the probability and "+3" behind the label
  return 16 + CHARACTER * (Array.from(node.label).length + note);
}

function columnLefts(nodes) {
  const deepest = Math.max(...nodes.map((node) => node.depth));
  const lefts = [LEFT];
  for (let depth = 0; depth < deepest; depth += 1) {
    const widest = Math.max(...nodes.filter((node) => node.depth === depth).map(labelWidth));
    lefts.push(lefts[depth] + widest + GAP);
  }
  return lefts;
}
