"""What arguments of these names usually are in a forward: dimensions and type of tensors, and what is no tensor."""

from __future__ import annotations

import re
from functools import lru_cache

from .names import snake

Habit = tuple[str, tuple[tuple[str, ...], ...]]
"""Type of number, and shapes as names of dimensions, the usual one first."""

_TABLE: list[tuple[str, str, tuple[str, ...]]] = [
    (r"(input_|token_|word_|text_|src_|tgt_|decoder_input_)?(ids|tokens?|token_ids|idx|indices|"
    r"words|text|texts|captions?|sentences?|"
     r"toks?|seqs?|prompt)|prev_output_tokens|(src|tgt)_tokens|token_type_ids|segment_label|"
    r"position_ids|pos_ids", "long", ("B L", "B")),
    (r".*mask.*|.*padding.*", "bool", ("B L", "L L", "B 1 L L", "B H L L", "B 1 H W", "B H W")),
    (r"t|ts|time_?steps?|time|noise_levels?|sigmas?|log_snr|timestep_cond|noise_labels?", "long", ("B", "B 1")),
    (r"(.*_)?(len(gth)?s?|lengths|lens|sizes|num_frames_list)|x_len", "full", ("B",)),
    (r"(class_)?labels?|targets?|cls|classes|"
    r"speaker(_id)?s?|sid|spk(_id)?|category|gt|language_ids?", "long", ("B", "B L")),
    (r"(.*_)?(boxes|bboxes|rois|proposals|box)", "float", ("N 4", "B L 4")),
    (r"(.*_)?(points?|coords?|xyz|pos|positions|"
    r"coordinates|pc|point_cloud|vertices)", "float", ("B L 3", "B L 2", "N 3")),
    (r"adj(acency)?(_matrix|_mat)?|laplacian|support|a_hat|graph", "float", ("N N", "B N N")),
    (r"edge_index", "long", ("2 N",)),
    (r"x_mark(_enc|_dec)?|.*_mark(_.*)?", "float", ("B L 4",)),
    (r"x_enc", "float", ("B seq_len enc_in", "B L C")),
    (r"x_dec", "float", ("B seq_len dec_in", "B seq_len enc_in", "B L C")),
    (r"history|series|past.*", "float", ("B L C",)),
    (r"wav(e|eform|s)?|audios?|sounds?|speech|signal|mix(ture)?", "float", ("B A", "B 1 A", "B 2 A")),
    (r"mels?|spec(trogram)?|(log_)?mel_spec.*|spect|fbank|feats_audio", "float", ("B C A",)),
    (r"videos?|clips?|frames", "float", ("B 3 8 H W", "B 8 3 H W")),
    (r"(.*_)?(images?|imgs?|pixel_values|pixels|"
    r"rgb|picture|photo|lq|lr|hr|gt_img|ref)", "float", ("B 3 H W", "B C H W")),
    (r"(.*_)?(hidden(_states?)?|h|hx|state|cell_state|rnn_state|prev_state|memory|mems?)", "float", ("B C", "B L C")),
    (r"z|noise|latents?|w|style|s|style_code|zs|codes?|c|cond|emb|embedding|condition|e|vec|"
    r"context_vec", "float", ("B C", "B C H W", "B L C")),
    (r"q(ueries|uery)?|k(eys?)?|v(alues?)?|queries|src|tgt|context|encoder_(out|output|"
    r"hidden_states)|enc_out(put)?|memory|xa|"
     r"cross|tokens_embed|inputs_embeds|query_embed", "float", ("B L C",)),
]  # fmt: skip
_COMPILED = [
    (re.compile(pattern), kind, tuple(tuple(each.split()) for each in shapes)) for pattern, kind, shapes in _TABLE
]
_INTS = re.compile(
    r"h|w|height|width|hh|ww|start_pos|offset|(curr(ent)?_)?(iter|iteration|step|epoch)|"
    r"layer_(idx|id)|idx_layer|num_.*|n_.*|"
    r".*_(len|size|idx|index|num|dim)|size|batch_size|bs|scale(_factor)?|depth|i|index|length|"
    r"seqlen|bsz|frame_num|max_.*"
)


@lru_cache(maxsize=2048)
def habit(name: str) -> Habit | None:
    """What a tensor of this name usually looks like."""
    name = snake(name)
    for pattern, kind, shapes in _COMPILED:
        if pattern.fullmatch(name):
            return kind, shapes
    return None


@lru_cache(maxsize=2048)
def is_number(name: str) -> bool:
    """Whether an argument of this name is usually a plain number."""
    return bool(_INTS.fullmatch(snake(name)))
