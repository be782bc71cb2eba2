"""Usual arguments of a forward by name: dimensions and dtype of tensors, and non-tensors."""

from __future__ import annotations

import re
from functools import lru_cache

from .names import entries, snake

Habit = tuple[str, tuple[tuple[str, ...], ...]]
"""Dtype, and shapes as names of dimensions, the usual one first."""

_TABLE = r"""
long B L, B
  (input_|token_|word_|text_|src_|tgt_|decoder_input_)?(ids|tokens?|token_ids|idx|indices|words|text|texts
  |captions?|sentences?|toks?|seqs?|prompt)|prev_output_tokens|(src|tgt)_tokens|token_type_ids|segment_label
  |position_ids|pos_ids
bool B L, L L, B 1 L L, B H L L, B 1 H W, B H W
  .*mask.*|.*padding.*
long B, B 1
  t|ts|time_?steps?|time|noise_levels?|sigmas?|log_snr|timestep_cond|noise_labels?
full B
  (.*_)?(len(gth)?s?|lengths|lens|sizes|num_frames_list)|x_len
long B, B L
  (class_)?labels?|targets?|cls|classes|speaker(_id)?s?|sid|spk(_id)?|category|gt|language_ids?
float N 4, B L 4
  (.*_)?(boxes|bboxes|rois|proposals|box)
float B L 3, B L 2, N 3
  (.*_)?(points?|coords?|xyz|pos|positions|coordinates|pc|point_cloud|vertices)
float N N, B N N
  adj(acency)?(_matrix|_mat)?|laplacian|support|a_hat|graph
long 2 N
  edge_index
float B L 4
  x_mark(_enc|_dec)?|.*_mark(_.*)?
float B seq_len enc_in, B L C
  x_enc
float B seq_len dec_in, B seq_len enc_in, B L C
  x_dec
float B L C
  history|series|past.*
float B A, B 1 A, B 2 A
  wav(e|eform|s)?|audios?|sounds?|speech|signal|mix(ture)?
float B C A
  mels?|spec(trogram)?|(log_)?mel_spec.*|spect|fbank|feats_audio
float B 3 8 H W, B 8 3 H W
  videos?|clips?|frames
float B 3 H W, B C H W
  (.*_)?(images?|imgs?|pixel_values|pixels|rgb|picture|photo|lq|lr|hr|gt_img|ref)
float B C, B L C
  (.*_)?(hidden(_states?)?|h|hx|state|cell_state|rnn_state|prev_state|memory|mems?)
float B C, B C H W, B L C
  z|noise|latents?|w|style|s|style_code|zs|codes?|c|cond|emb|embedding|condition|e|vec|context_vec
float B L C
  q(ueries|uery)?|k(eys?)?|v(alues?)?|queries|src|tgt|context|encoder_(out|output|hidden_states)|enc_out(put)?
  |memory|xa|cross|tokens_embed|inputs_embeds|query_embed
"""
_COMPILED = [
    (pattern, kind, tuple(tuple(shape.split()) for shape in shapes.split(", ")))
    for pattern, kind, shapes in entries(_TABLE)
]
_INTS = re.compile(
    r"h|w|height|width|hh|ww|start_pos|offset|(curr(ent)?_)?(iter|iteration|step|epoch)|"
    r"layer_(idx|id)|idx_layer|num_.*|n_.*|"
    r".*_(len|size|idx|index|num|dim)|size|batch_size|bs|scale(_factor)?|depth|i|index|length|"
    r"seqlen|bsz|frame_num|max_.*"
)


@lru_cache(maxsize=2048)
def habit(name: str) -> Habit | None:
    """The usual form of a tensor of this name."""
    name = snake(name)
    for pattern, kind, shapes in _COMPILED:
        if pattern.fullmatch(name):
            return kind, shapes
    return None


@lru_cache(maxsize=2048)
def is_number(name: str) -> bool:
    """Whether an argument of this name is usually a plain number."""
    return bool(_INTS.fullmatch(snake(name)))
