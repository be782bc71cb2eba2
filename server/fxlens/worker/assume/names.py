"""Usual values of parameters by name: numbers, flags and strings by convention, small sizes first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Habit:
    """``kind`` is int, float, bool, str, list, class, module, config, path or device; ``values`` are texts, the usual
    one first."""

    kind: str
    values: tuple[str, ...]


# Whole names, without `in_`, `self.` and capitals; the first match counts.
_TABLE = r"""
# what would load, save or print something
bool False
  (.*_)?pretrained(_.*)?|download|load_.*|from_pretrained|imagenet.*|resume
path None
  (.*_)?(ckpt|checkpoint)(_path|_file|_dir)?|(.*_)?weights?(_path|_file|_url)|init_cfg|state_dict
path None
  (.*_)?(path|file|filename|dir|folder|url|root|uri)
device 'cpu'
  (.*_)?device
dtype torch.float32
  (.*_)?dtype
bool False
  (use|with|has|is|do|enable|disable|return|apply|share|no|freeze|skip|output|add|need|normalize|train|should
  |cross|concat|include|learn|learnable|tie|keep|as|force|shift|flip|average|zero|merge|project)_.*
bool True
  (.*_)?bias|affine|batch_first|elementwise_affine|align_corners
bool False
  bilinear|causal|residual|verbose|training|bidirectional|inplace|debug|hflip|two_stage|deploy|last|first
  |normalize|normalized|pre_norm|masked|individual|multimask_output|shortcut|learnable|downscale_freq|upsample
  |use_.*|shift|checkpointing|fp16|half|distributed|is_.*|.*_?flag|export|concat
# floats
float 0.0 0.1
  (.*_)?(dropout|drop|drop_?out|drop_?path|droprate|drop_rate|p_dropout|dropout_(p|prob|rate)|(attn|proj|resid
  |embd)_p?drop)(_.*)?|pdrop|p|prob|(.*_)?p_drop.*|.*_(prob|pdrop)
number 2 4
  (mlp|ffn|ff|hidden|expand|expansion)_(ratio|factor|mult|dim_ratio)|(.*_)?mlp_ratio|ff_?mult|expansion
float 1e-5
  (.*_)?eps(ilon)?|layer_norm_eps
float 0.1
  (.*_)?(momentum|slope|negative_slope)
float 0.5 0.1 1.0
  (.*_)?(rate|ratio|decay|sigma|alpha|beta|gamma|tau|temperature|temp|lambda|lambd|lr|std|weight|coef|coeff
  |coefficient|threshold|thresh|res_scale|init_values?|layer_scale.*|tol|noise|margin|probability|smoothing
  |rescale|theta|base|fraction|cost_.*|loss_weight|range|(.*_)?scale_init.*|min_value|max_value|kappa|delta|mu)
float 0.5
  (.*_)?(mean|variance|var)
# channels of images and sound
int 3 4 1
  (in_chans|(img|image|input|num_in|n_in)_(channels?|ch|chans|nc)|num_in_ch|num_out_ch|input_nc|output_nc
  |n_channels|n_colors|img_ch|colou?rs|chans|in_nc|out_nc|image_channels)
int 16 32 64
  (dims?|in|hid|hidden)_?in|in_?(channels?|planes?|ch|c|chan|features?|dims?|size|filters|width|feats?|nodes)|inp
  |cin|c_in|inplanes|in_planes|input_(dim|size|channels|features|width)|dim_in|ch_in|c1|nin|fin|idim
  |prev_channels|in_c|inc|indim|inchannels|nfeat|enc_in_channels|num_input_features|input_channel
int 32 16 64
  out_?(channels?|planes?|ch|c|chan|features?|dims?|size|filters|width|feats?)|oup|cout|c2|outplanes|output_(dim
  |size|channels|features|width)|dim_out|ch_out|nout|fout|odim|outdim|outchannels|num_output|output_channel
int 7
  enc_in|dec_in|c_out|num_features_in|n_vars|nvars|num_nodes|channel_num
int 16 32
  planes|mid_?(channels?|planes|ch|chs)|mid|(.*_)?(filters|num_filters|n_filters|nf|ngf|ndf|base_channels?)
  |(.*_)?(inter|internal|bottleneck|squeeze|skip|residual|hidden)_(channels?|planes|ch)|squeeze_planes
  |.*[0-9]x[0-9]_?planes|.*x[0-9]
# numbers of things
int 2 4
  (.*_)?(num|n|nb)?_?_?(kv|key_value)_?heads?|n_kv_heads?|num_key_value_heads
int 4 2 8 1
  (.*_)?(num|n|nb)?_?(attention_|attn_)?_?heads?|nheads?|n_heads?|head|h|(.*_)?num_heads_.*
int 16 32
  (.*_)?(head_?dim|dim_?head|head_?size|head_?channels?|num_head_channels|d_?head|d_k|d_v|dim_key|dim_value|(kv
  |qk|key|value)_dim)
int 2 3 1
  (.*_)?(num|n|nb)?_?_?(layers?|blocks?|depth|stages?|levels?|iters?|iterations?|steps|rnns?|convs?|resblocks?
  |res_?blocks?|stacks?|flows?|modules|repeats?|loops|recurrence|scales|stack|extra_convs|block)|depth|nlayers|l
  |n_flows|n_scales|num_res
int 10
  (.*_)?(num_?class(es)?|n_?class(es)?|classes|nclass|nc|n_labels|num_labels|num_?outputs?|n_out|num_cls|cls_num
  |class_num|num_tags|label_dim|y_dim)
int 100 64
  (.*_)?(vocab(ulary)?(_size|_len)?|n_?vocab|num_embeddings?|n_?tokens?|num_tokens|ntoken|n_symbols|num_words
  |dict(ionary)?_size|codebook_size|num_codes?|n_e|bins|nbins|n_embed|num_codebook_vectors|n_speakers?
  |num_speakers?|num_positions|num_embed.*|num_buckets)
int 24 48
  (.*_)?(pred_len|label_len|horizon|prediction_length|forecast_len|out_len|output_len|num_preds)
int 96 32
  seq_len(gth)?|lookback|input_len(gth)?|context_len|history|window_len|in_len|enc_len
int 32 64 128
  (.*_)?(max_?)?(seq|sequence|context|ctx|position|pos|source|target|src|tgt|text)?_?_?(len(gth)?|size_seq
  |positions?|ctx|seqlen)|n_ctx|block_size|max_position_embeddings|max_seq_len|maxlen|(.*_)?audio_ctx|text_ctx
  |t_max|max_t|max_period
int 64 32 56 224
  (.*_)?(img|image|input|feat|feature|pretrain_img|fmap|spatial|map|image_embedding)_?_?(size|sz|resolution|res
  |dim_hw|shape)|imsize|imgsz|resolution|(.*_)?input_resolution|image_?height|image_?width|img_(h|w)|height
  |width_px|size|res|image_resolution|grid_size|latent_size|sample_size|segment_size
int 2
  (.*_)?frame_patch_size|(.*_)?temporal_patch.*
int 8 4 16
  (.*_)?patch_(size|len|height|width|dim)|patch|(.*_)?patch_?sz
int 8 4
  (.*_)?(num|n)_?frames?|frames|num_segments|clip_len|time_steps|timesteps|num_timesteps|n_steps|diffusion_steps
  |num_steps|n_segment
int 16 8
  (.*_)?(num|n)_?(patches|queries|query|points|slots|anchors|latents|regions|keypoints|objects|proposals|samples
  |prompts?|registers?|centers?|clusters?|bits|bases|basis|basis|coarse|rel_pos|pts|mem_kv|memory_tokens|nodes
  |relations|edge_types|node_types|groups?_tokens|prototypes|pos_feats)|k_points
int 4 8 7
  (.*_)?window(_size|s)?|win_size|ws|local_window_size|wsize
int 3 5 1
  (.*_)?(kernel(_size|s)?|ksize|ks|k_size|kernel_len|filter_size|conv_kernel|conv_width|moving_avg|conv_size
  |kernel_sz|d_conv)|k|kw|kh
int 1 2
  (.*_)?strides?|s|down_rate|hop
int 1 0
  (.*_)?(padding|pad)
int 1 2
  (.*_)?(dilations?|dilation_rate)|d
int 4 1 2 8
  (.*_)?(num_|n_)?groups?(_num)?|gn_groups|cardinality|g|deformable_groups
int 2 4 1
  (.*_)?(upscale|up_?scale(_factor)?|scale_?factor|downscale|upsample(_factor|_scale)?|downsample_(factor|rate
  |ratio)|scale|factor|upfactor|sr_ratio|up_factor|down_factor|reduction_ratio|downsampling|compress(ion)?_(ratio
  |rate|factor))
int 4 2
  (.*_)?reduction|(.*_)?squeeze_?(ratio|factor)?|(.*_)?r|shrink
int 12 16
  (.*_)?(growth_rate|growth|num_grow_ch|gc|bn_size|nChannels|growth0?|g0)
int 2 4
  (.*_)?(top_?k|k_nearest|num_neighbors|num_experts_per_tok|experts_per_token|num_selects?|knn)
int 4
  (.*_)?(num_|n_)?experts?
int 64
  n_state
int 8
  (.*_)?(obs|observation|state|ob)_?(dim|size|shape|space)?|n_obs
int 4
  (.*_)?(act|action|ac)_?(dim|size|space|num)|n_actions?|num_actions?
int 80
  (.*_)?n_?mels?(_.*)?|num_mels|mel_channels|n_mel_channels|spec_channels
int 64
  (.*_)?(n_?fft|nfft|fft_size|win_length|filter_length|win_len)
int 16
  (.*_)?(hop_length|hop_size)
int 16000
  (.*_)?(sample_?rate|sampling_rate|sr|samplerate|fs)
int 4 2
  (.*_)?(rank|lora_r|r|order|degree|multiple_of|max_freq|num_freqs?|n_freqs|multires|num_bands|period)
int 0 1
  (.*_)?(seed|rng_seed|local_rank|world_rank|layer_idx|layer_id|idx|index|id|layer_index|level|i|block_id|stage|t
  |offset|start|padding_idx|block_idx|pad_idx|pad_token_id|pad_id|channel_id|cls_id)
int 2
  (.*_)?(batch_size|batch|bs|bsz|world_size|num_devices|ngpus?|n_gpu|max_batch_size)
int 32
  (.*_)?(latent|z|noise|style|w|code)_?(dims?|size|channels?|ch)|nz|latents
int 64 32
  (.*_)?(dims?|d_?model|hidden(_size|_dim|_channels|_features|_units)?|embed(ding)?s?_?(dims?|size|channels)?
  |n_?embd|n_?embed|emb|width|n_state|channels?|chans?|feat(ure)?s?(_dim|_size|_channels|_num)?|num_feats?
  |n_feats?|n_units|units|model_dim|d|c|ch|nhid|ninp|d_?ff|dim_feedforward|ff_?dim|ffn_dim|mlp_?dim
  |intermediate_size|filter_channels|d_inner|n_mlp|num_channels?|num_features?|nf|hid(den)?_dim|d_.*|dim_.*
  |.*_dims?|.*_channels?|.*_width|.*_features?|.*_ch|.*_size|ninner|n_inner|model_channels|size_in|emb_.*|ndim
  |nhidden)
int 4 2 16
  (num|n|nb|max|min|number)_.*|.*_(num|count|number|n)|n
# sequences
list 2
  (.*_)?(depths|num_blocks_list|layers_list|n_blocks_list|block_list|stage_depths)
# what is a class or a function
norm
  (.*_)?norm(alization)?(_?layer|_?class|_?module|_cls|_fn|_func)?|bn|norm_?type
act
  (.*_)?(act|activation|nonlinear(ity)?|non_linearity|nl|hidden_act)(_?layer|_?class|_?fn|_?func|_?type|_?name
  |_cls)?
class
  (.*_)?(block|layer|module|unit|conv|attn|attention|mlp|ffn|embed|pool|linear|rnn|cell|encoder_layer
  |decoder_layer)(_?(layer|class|cls|type|fn|func|builder))
module
  (.*_)?(transformer|backbone|encoder|decoder|net|network|generator|discriminator|unet|vae|vit|submodule
  |encoder_layer|decoder_layer|embedder|head|neck|denoise_?r?|denoise_fn|teacher|student|actor|critic|tokenizer
  |vision_model|text_model|text_encoder|image_encoder|mask_decoder|prompt_encoder|attention|fn|module|model|attn
  |self_attention|cross_attention|inner_attention|correlation|attn_layer|autoencoder|projection|embedding|mlp)
config
  (.*_)?(config|cfg|conf|args?|opts?|hps?|hparams|params|configs|options|settings|kwargs|hyp|flags|arguments)
str
  (.*_)?(mode|type|variant|name|arch|version|kind|method|strategy|model_name|backbone_name|reduction|pooling
  |padding_mode|task(_name)?|interpolation|freq|tag|prefix|suffix|key|init|initialization)
"""


def entries(table: str) -> list[tuple[re.Pattern[str], str, str]]:
    """A table as patterns, each with the first word of the line above it and with the rest of that line.  The lines of
    a pattern are indented; `#` begins a comment."""
    found: list[list[str]] = []
    for line in table.strip().splitlines():
        if line.startswith("  "):
            found[-1][0] += line.strip()
        elif not line.startswith("#"):
            kind, _, rest = line.partition(" ")
            found.append(["", kind, rest])
    return [(re.compile(pattern), kind, rest) for pattern, kind, rest in found]


_COMPILED = [(pattern, kind, tuple(values.split())) for pattern, kind, values in entries(_TABLE)]

STRINGS = {
    "act": ("'relu'", "'gelu'", "'silu'", "'leaky_relu'", "'tanh'"),
    "norm": ("'batch'", "'layer'", "'instance'", "'bn'", "'group'", "'LN'", "'batch_norm'"),
    "padding_mode": ("'zeros'", "'reflect'"),
    "mode(?!l)": ("'bilinear'", "'nearest'"),
    "freq": ("'h'",),
    "init": ("'xavier'", "'normal'", "'kaiming'"),
    "pool": ("'max'", "'avg'", "'cls'", "'mean'"),
    "dataset": ("'imagenet'", "'cifar10'"),
    "loss": ("'l1'", "'mse'"),
    "reduction": ("'mean'", "'none'"),
    "target": ("'torch.nn.Identity'",),
    "class_path": ("'torch.nn.Identity'",),
}
"""Usual strings for parameters with such a word in their name, if the code does not compare them."""


def is_image_size(name: str) -> bool:
    """Whether a parameter of this name is the size of an image or feature map."""
    guess = habit(name)
    return guess is not None and guess.values == ("64", "32", "56", "224")


def snake(name: str) -> str:
    """``dModel`` and ``_dim`` as ``d_model`` and ``dim``."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("_"))
    return name.lower().rstrip("_")


@lru_cache(maxsize=4096)
def habit(name: str) -> Habit | None:
    """The usual kind and values of a parameter of this name, or None."""
    name = snake(name)
    for pattern, kind, values in _COMPILED:
        if pattern.fullmatch(name):
            return Habit(kind, values)
    if name.endswith("s") and len(name) > 3 and (single := habit(name[:-1])) is not None and single.kind == "int":
        return Habit("list", single.values)
    return None


def strings(name: str) -> tuple[str, ...]:
    """Texts for a parameter of this name, the usual one first."""
    name = snake(name)
    found: list[str] = []
    for part, values in STRINGS.items():
        if re.search(rf"(?<![a-z]){part}", name):
            found += values
    return tuple(found)


def words(name: str) -> list[str]:
    """The words of a name: ``EncoderLayer`` and ``encoder_layer`` are encoder and layer."""
    return [
        each
        for each in re.split(r"[_\d]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower())
        if each
    ]
