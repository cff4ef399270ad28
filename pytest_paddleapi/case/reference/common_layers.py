"""Linear maps, embeddings, one-hot vectors, similarities."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .normalisation import norm_along
from .registry import reference
from .spatial import ints, wide


@reference("paddle.nn.functional.linear")
def linear(x, weight, bias=None, name=None):
    """``x @ weight + bias``; the weight is (inputs, outputs) and has the dtype of x."""
    if weight.dtype != x.dtype:
        raise TypeError(f"x is {x.dtype}, weight is {weight.dtype}")
    out = (wide(x) @ wide(weight)).to(x.dtype)
    return out if bias is None else out + bias


@reference("paddle.nn.functional.bilinear")
def bilinear(x1, x2, weight, bias=None, name=None):
    """``out[n, o] = x1[n] @ weight[o] @ x2[n] + bias[0, o]``."""
    out = torch.einsum("ni,oij,nj->no", wide(x1), wide(weight), wide(x2)).to(x1.dtype)
    return out if bias is None else out + bias


@reference("paddle.nn.functional.embedding", mutates=("weight",), mutates_if="max_norm")
def embedding(
    x, weight, padding_idx=None, max_norm=None, norm_type=2.0, sparse=False, scale_grad_by_freq=False, name=None
):
    """The row of ``padding_idx`` is read as zeros and gets no gradient. ``max_norm`` shortens the rows that
    are read, in ``weight`` itself."""
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise ValueError(f"padding_idx {padding_idx} is not a row of {rows}")
        padding_idx %= max(rows, 1)
    if scale_grad_by_freq and sparse:
        raise AttributeError("scale_grad_by_freq does not work with sparse gradients")
    index = x.long()
    if max_norm and weight.numel():
        with torch.no_grad():
            used = index.unique()
            size = torch.linalg.vector_norm(weight[used], norm_type, 1, keepdim=True)
            weight[used] *= torch.where(size > max_norm, max_norm / (size + 1e-7), torch.ones_like(size))
    out = F.embedding(index, weight, scale_grad_by_freq=scale_grad_by_freq)
    if padding_idx is None:
        return out
    return out * (index != padding_idx).unsqueeze(-1).to(out.dtype)


@reference("paddle.nn.functional.one_hot", "paddle.Tensor.one_hot")
def one_hot(x, num_classes=-1, name=None):
    """float32; as many classes as the largest label needs where ``num_classes`` is -1."""
    classes = ints(num_classes)[0]
    if classes == -1:
        classes = int(x.max()) + 1
    return torch.zeros(*x.shape, classes).scatter_(-1, x.long().unsqueeze(-1), 1.0)


@reference("paddle.nn.functional.label_smooth", constant=("prior_dist",))
def label_smooth(label, prior_dist=None, epsilon=0.1, name=None):
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon must be in [0, 1], it is {epsilon}")
    prior: Any = 1.0 / max(label.shape[-1], 1) if prior_dist is None else wide(prior_dist).reshape(-1)
    return ((1 - epsilon) * wide(label) + epsilon * prior).to(label.dtype)


@reference("paddle.nn.functional.cosine_similarity")
def cosine_similarity(x1, x2, axis=1, eps=1e-8):
    """``x1 . x2 / max(|x1| |x2|, eps)`` along ``axis``, after broadcasting."""
    x1, x2 = torch.broadcast_tensors(x1, x2)
    product = (x1 * x2).sum(axis)
    squares = x1.square().sum(axis) * x2.square().sum(axis)
    return product / squares.clamp(min=eps * eps).sqrt() if x1.numel() else product


@reference("paddle.nn.functional.pairwise_distance")
def pairwise_distance(x, y, p=2.0, epsilon=1e-6, keepdim=False, name=None):
    return norm_along(x - y + epsilon, float(p), -1, keepdim=keepdim)
