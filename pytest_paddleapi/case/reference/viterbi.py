"""``paddle.text``: the best path through a chain of tags (Viterbi 1967)."""

from __future__ import annotations

import torch

from .registry import reference, without_reference

without_reference(
    *(f"paddle.text.{name}" for name in ("Conll05st", "Imdb", "Imikolov", "Movielens", "UCIHousing", "WMT14", "WMT16")),
    why="it is a data set that is downloaded",
)


@reference("paddle.text.viterbi_decode", no_gradient="the best path is a choice")
def viterbi_decode(potentials, transition_params, lengths, include_bos_eos_tag=True, name=None):
    """Scores and paths; the last row of ``transition_params`` is the start tag's, the last but one the stop tag's.

    (Paddle's tests of the operator, too, take the row for the stop tag, not the column.) Paths are as long
    as the longest sequence, with zeros after a shorter one.
    """
    batch, _, tags = potentials.shape
    longest = int(lengths.max()) if batch else 0
    paths = torch.zeros((batch, longest), dtype=torch.int64)
    scores = potentials.new_zeros(batch)
    for item in range(batch):
        length = int(lengths[item])
        if not length:
            continue
        best = potentials[item, 0].clone()
        if include_bos_eos_tag:
            best = best + transition_params[tags - 1]
        came_from = []
        for step in range(1, length):
            through = best[:, None] + transition_params
            best, previous = through.max(0)
            best = best + potentials[item, step]
            came_from.append(previous)
        if include_bos_eos_tag:
            best = best + transition_params[tags - 2]
        scores[item], tag = best.max(0)
        for step in range(length - 1, -1, -1):
            paths[item, step] = tag
            if step:
                tag = came_from[step - 1][tag]
    return scores, paths
