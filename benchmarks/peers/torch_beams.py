"""Beam search with a Transformer in PyTorch, as a user of it would write it for speed.

The algorithm is minitransformer's, with the same rules for finished texts and the end of the search. Keys and
values are in preallocated buffers, in which only rows that change are reordered. Those of the memory are
projected once and never reordered: the beams of a sentence are queries of one attention. Sentences whose
search is over leave the batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from minitransformer import TransformerConfig

from .torch_models import Transformer


class BeamTransformer(Transformer):
    """The paper's model, post-norm; `translate` decodes with `beams` beams and length_penalty 1."""

    def __init__(self, config: TransformerConfig, weights: dict[str, np.ndarray]) -> None:
        super().__init__(config)
        self.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
        self.eval()

    def step(self, ids: Any, caches: Any, memories: Any, mask: Any, position: int) -> Any:
        """Ids (rows,) at a position -> log-probabilities (rows, V); memories have a row for each sentence."""
        x = F.embedding(ids, self.embedding.weight) * self.factor + self.table[position]
        rows, width, heads = *x.shape, self.c.num_heads
        for layer, (keys, values), (memory_keys, memory_values) in zip(
            self.decoder.layers, caches, memories, strict=True
        ):
            attention = layer.self_attention
            qkv = F.linear(x, attention.in_proj_weight, attention.in_proj_bias)
            q, k, v = qkv.view(rows, 3, heads, 1, -1).unbind(1)
            keys[:, :, position : position + 1] = k
            values[:, :, position : position + 1] = v
            y = F.scaled_dot_product_attention(q, keys[:, :, : position + 1], values[:, :, : position + 1])
            x = layer.residual1.norm(x + attention.out_proj(y.view(rows, width)))
            cross = layer.cross_attention
            q = F.linear(x, cross.in_proj_weight[:width], cross.in_proj_bias[:width])
            q = q.view(len(mask), -1, heads, width // heads).transpose(1, 2)  # beams are queries
            y = F.scaled_dot_product_attention(q, memory_keys, memory_values, mask)
            x = layer.residual2.norm(x + cross.out_proj(y.transpose(1, 2).reshape(rows, width)))
            x = layer.residual3.norm(x + layer.feed_forward(x))
        return torch.log_softmax(F.linear(x, self.embedding.weight), -1)

    def remember(self, source: Any, mask: Any) -> list[tuple[Any, Any]]:
        """The keys and values (B, H, S, d) of the encoder's states, for each layer of the decoder."""
        memory = self.embedded(source)
        found = []
        for layer in self.encoder.layers:
            memory = layer(memory, mask)
        for layer in self.decoder.layers:
            cross = layer.cross_attention
            width = memory.shape[2]
            kv = F.linear(memory, cross.in_proj_weight[width:], cross.in_proj_bias[width:])
            k, v = kv.view(*memory.shape[:2], 2, self.c.num_heads, -1).permute(2, 0, 3, 1, 4).contiguous()
            found.append((k, v))
        return found

    @torch.inference_mode()
    def translate(self, sources: list[list[int]], limit: int, beams: int) -> list[list[int]]:
        c = self.c
        count = len(sources)
        source = torch.full((count, max(map(len, sources))), c.pad_token_id)
        for row, ids in zip(source, sources, strict=True):
            row[: len(ids)] = torch.tensor(ids)
        mask = (source != c.pad_token_id)[:, None, None, :]
        memories = self.remember(source, mask)
        shape = (c.num_decoder_layers, 2, count, c.num_heads, limit, c.d_model // c.num_heads)
        caches = torch.empty(shape)
        texts: list[list[tuple[float, list[int]]]] = [[] for _ in sources]
        numbers = torch.arange(count)  # of each sentence of the batch
        ids = torch.full((count, limit + 1), c.bos_token_id)
        scores = torch.zeros(count, 1)
        for position in range(limit):
            log_p = self.step(ids[:, position], caches, memories, mask, position)
            totals = (log_p + scores.view(-1, 1)).view(len(numbers), -1)
            best, places = totals.topk(2 * beams)
            parents = places // c.vocab_size
            tokens = places % c.vocab_size
            rows = parents + torch.arange(len(numbers))[:, None] * scores.shape[1]
            is_last = position + 1 == limit
            ends = tokens == c.eos_token_id
            ended = torch.ones_like(ends) if is_last else ends
            for i, j in ended[:, :beams].nonzero().tolist():
                text = ids[rows[i, j], 1 : position + 1].tolist() + (
                    [] if ends[i, j] else [int(tokens[i, j])]
                )
                others = texts[int(numbers[i])]
                others.append((float(best[i, j]) / (position + 1), text))
                others.sort(key=lambda other: -other[0])
                del others[beams:]
            if is_last:
                break
            order = ended.long().argsort(dim=1, stable=True)[:, :beams]
            scores = best.gather(1, order)
            firsts = zip(numbers.tolist(), scores[:, 0].tolist(), strict=True)
            going = [
                i for i, (number, score) in enumerate(firsts)
                if len(texts[number]) < beams or score / (position + 1) > texts[number][-1][0]
            ]  # fmt: skip
            if not going:
                break
            if len(going) < len(numbers):
                kept = torch.tensor(going)
                order = order[kept]
                rows = rows[kept]
                tokens = tokens[kept]
                scores = scores[kept]
                numbers = numbers[kept]
                mask = mask[kept]
                memories = [(k[kept], v[kept]) for k, v in memories]
            chosen = rows.gather(1, order).flatten()
            ids = ids[chosen]
            ids[:, position + 1] = tokens.gather(1, order).flatten()
            caches = reordered(caches, chosen, position + 1)
        return [text for ((_, text), *_) in texts]


def reordered(caches: Any, rows: Any, length: int) -> Any:
    """Select rows of the caches (layers, 2, rows, H, limit, d), of which `length` tokens are filled."""
    if len(rows) == caches.shape[2]:
        changed = (rows != torch.arange(len(rows))).nonzero()[:, 0]
        caches[:, :, changed, :, :length] = caches[:, :, rows[changed], :, :length]
        return caches
    selected = torch.empty(*caches.shape[:2], len(rows), *caches.shape[3:])
    selected[:, :, :, :, :length] = caches[:, :, rows, :, :length]
    return selected
