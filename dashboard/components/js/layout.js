// Where the nodes of a draft tree go: depth from left to right, a row for every leaf. Pure functions, no drawing.

import { ACCEPTED, visible } from "./text.js";

export const ROW = 24;
export const FOLD_ABOVE = 20; // larger trees start folded
export const GAP = 50;
const CHARACTER = 7.3;
const LABEL_LIMIT = 14;
const LEFT = 16;
const TOP = 18;

export function childrenOf(parents) {
  const children = parents.map(() => []);
  for (let column = 1; column < parents.length; column += 1) children[parents[column]].push(column);
  return children;
}

/** Columns that were not reached and whose whole family was not: they may be folded away. */
export function foldable(tree) {
  return tree.verdicts.map((verdict, column) => column > 0 && verdict === 0);
}

/**
 * Nodes with places, and the size of it all: {nodes: [{column, x, y, parent, label, kind, count}], width, height}.
 * kind: root, node, bonus (the target's own next token, not drafted) or fold (stands for `count` nodes not reached).
 */
export function layout(tree, { bonus = null, fold = false } = {}) {
  const children = childrenOf(tree.parents);
  const hidden = fold ? foldable(tree) : tree.parents.map(() => false);
  const nodes = [];
  let rows = 0;

  const size = (column) => 1 + children[column].reduce((sum, child) => sum + size(child), 0);
  const lastAccepted = deepestAccepted(tree);

  function place(column, parent, depth) {
    const node = { column, parent, depth, kind: column === 0 ? "root" : "node", label: visible(tree.pieces[column], LABEL_LIMIT) };
    nodes.push(node);
    const kids = [];
    let folded = 0;
    for (const child of children[column]) {
      if (hidden[child]) folded += size(child);
      else kids.push(place(child, node, depth + 1));
    }
    if (column === lastAccepted && bonus !== null) {
      kids.push(leaf({ column: null, parent: node, depth: depth + 1, kind: "bonus", label: visible(bonus, LABEL_LIMIT) }));
    }
    if (folded) kids.push(leaf({ column: null, parent: node, depth: depth + 1, kind: "fold", count: folded, label: `${folded} not reached` }));
    node.row = kids.length ? (kids[0].row + kids.at(-1).row) / 2 : rows++;
    return node;
  }

  function leaf(node) {
    nodes.push(node);
    node.row = rows++;
    return node;
  }

  place(0, null, 0);
  const lefts = columnLefts(nodes);
  for (const node of nodes) {
    node.x = lefts[node.depth];
    node.y = TOP + node.row * ROW;
    node.end = node.x + labelWidth(node);
  }
  const width = Math.max(...nodes.map((node) => node.end)) + 16;
  return { nodes, width, height: 2 * TOP + Math.max(0, rows - 1) * ROW };
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
  const note = node.kind === "node" ? 5 : 0; // the probability behind the label
  return 14 + CHARACTER * (Array.from(node.label).length + note);
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
