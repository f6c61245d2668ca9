// A made-up step for the empty page, so that a first visitor sees what a draft tree is before anything has run.

const pieces = [" The", " sky", " sun", " is", " looks", " was", " rises", " blue", " clear", " today"];
const parents = [-1, 0, 0, 1, 1, 1, 2, 3, 3, 4];

export const EXAMPLE = {
  step: 0, num_drafted: 9, num_accepted: 3, num_tried: 3, num_cut: 0, text: "", path: [1, 3, 7], tokens: [0, 0, 0, 0],
  tree: {
    pieces, parents, tokens: pieces.map(() => 0), verdicts: [1, 1, 2, 1, 2, 2, 0, 1, 2, 0],
    draft_probs: [null, 0.46, 0.21, 0.58, 0.17, 0.06, 0.4, 0.52, 0.19, 0.3],
  },
  bonus: " because",
};
