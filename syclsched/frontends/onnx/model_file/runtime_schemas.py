# SPDX-License-Identifier: Apache-2.0
"""Schemas of the operators that ONNX Runtime's optimiser and quantiser add to ONNX's own."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT

_WINDOWS: Final = "auto_pad:s strides:is pads:is"
_CONV: Final = f"{_WINDOWS} kernel_shape:is dilations:is group:i"
_QLINEAR_UNARY: Final = "X X_scale X_zero_point? Y_scale Y_zero_point? -> Y"
_QLINEAR_BINARY: Final = "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point? -> C"
_MATMUL: Final = "A B -> Y ; alpha:f transA:i transB:i transBatchA:i transBatchB:i"

#: (domain, operator) -> inputs, outputs and attributes. ``?`` marks optional and ``*`` variadic ones, ``!`` required
#: attributes; their types are f (float), i (int), s (string), and lists of these.
_DECLARED: Final = {
    # ONNX Runtime puts these two into ONNX's own domain, in opsets of any version.
    ("", "LayerNormalization"): "X Scale B? -> Y Mean? InvStdDev? ; axis:i epsilon:f stash_type:i",
    ("", "SimplifiedLayerNormalization"): "X scale -> Y inv_std_var? ; axis:i epsilon:f stash_type:i",
    (MICROSOFT, "Attention"): (
        "input weights bias? mask_index? past? attention_bias? past_sequence_length? -> output present? ; "
        "num_heads!:i qkv_hidden_sizes:is scale:f unidirectional:i mask_filter_value:f past_present_share_buffer:i "
        "do_rotary:i rotary_embedding_dim:i"
    ),
    (MICROSOFT, "BiasAdd"): "X bias skip -> Y ;",
    (MICROSOFT, "BiasGelu"): "A B -> C ;",
    (MICROSOFT, "BiasSplitGelu"): "X bias -> Y ;",
    (MICROSOFT, "DequantizeLinear"): "x x_scale x_zero_point? -> y ; axis:i",
    (MICROSOFT, "DynamicQuantizeLSTM"): (
        "X W R B? sequence_lens? initial_h? initial_c? P? W_scale W_zero_point R_scale R_zero_point -> Y? Y_h? Y_c? ; "
        "activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s hidden_size:i input_forget:i"
    ),
    (MICROSOFT, "DynamicQuantizeMatMul"): "A B b_scale b_zero_point? bias? -> Y ;",
    (MICROSOFT, "EmbedLayerNormalization"): (
        "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta mask? position_ids? -> "
        "output mask_index? embedding_sum? ; epsilon:f mask_index_type:i"
    ),
    (MICROSOFT, "FastGelu"): "X bias? -> Y ;",
    (MICROSOFT, "FusedConv"): f"X W B? Z? -> Y ; {_CONV} activation:s activation_params:fs",
    (MICROSOFT, "FusedGemm"): (
        "A B C? -> Y ; alpha:f beta:f transA:i transB:i activation:s activation_alpha:f activation_beta:f "
        "activation_gamma:f"
    ),
    (MICROSOFT, "FusedMatMul"): _MATMUL,
    (MICROSOFT, "GatherBlockQuantized"): (
        "data indices scales zero_points? -> output ; bits:i block_size:i gather_axis:i quantize_axis:i"
    ),
    (MICROSOFT, "Gelu"): "X -> Y ;",
    (MICROSOFT, "GroupNorm"): "X gamma beta -> Y ; activation!:i groups!:i channels_last:i epsilon:f",
    (MICROSOFT, "GroupQueryAttention"): (
        "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? sin_cache? position_ids? "
        "attention_bias? head_sink? k_scale? v_scale? q_norm_weight? k_norm_weight? query_seqlens? -> "
        "output present_key? present_value? output_qk? ; "
        "num_heads!:i kv_num_heads!:i scale:f softcap:f causal:i local_window_size:i smooth_softmax:i do_rotary:i "
        "rotary_interleaved:i qk_output:i qk_norm_epsilon:f q_norm_epsilon:f k_norm_epsilon:f k_quant_type:s "
        "v_quant_type:s kv_cache_bit_width:i sliding_window_cache:i"
    ),
    (MICROSOFT, "MatMulIntegerToFloat"): "A B a_scale b_scale a_zero_point? b_zero_point? bias? -> Y ;",
    (MICROSOFT, "MatMulNBits"): (
        "A B scales zero_points? g_idx? bias? -> Y ; K!:i N!:i bits:i block_size!:i accuracy_level:i weight_prepacked:i"
    ),
    (MICROSOFT, "MultiHeadAttention"): (
        "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? past_sequence_length? "
        "cache_indirection? -> output present_key? present_value? qk? ; "
        "num_heads!:i scale:f unidirectional:i mask_filter_value:f"
    ),
    (MICROSOFT, "NhwcConv"): f"X W B? -> Y ; {_CONV}",
    (MICROSOFT, "NhwcFusedConv"): f"X W B? Z? -> Y ; {_CONV} activation:s activation_params:fs",
    (MICROSOFT, "NhwcMaxPool"): f"x -> y ; {_WINDOWS} kernel_shape!:is dilations:is ceil_mode:i",
    (MICROSOFT, "QAttention"): (
        "input weight bias input_scale weight_scale mask_index? input_zero_point? weight_zero_point? past? -> "
        "output present? ; "
        "num_heads!:i scale:f unidirectional:i mask_filter_value:f past_present_share_buffer:i do_rotary:i"
    ),
    (MICROSOFT, "QGemm"): (
        "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point? -> Y ; alpha:f transA:i transB:i"
    ),
    (MICROSOFT, "QLinearAdd"): f"{_QLINEAR_BINARY} ;",
    (MICROSOFT, "QLinearAveragePool"): (
        f"X x_scale x_zero_point? y_scale y_zero_point? -> Y ; {_WINDOWS} kernel_shape!:is ceil_mode:i "
        "count_include_pad:i channels_last:i"
    ),
    (MICROSOFT, "QLinearConcat"): "Y_scale Y_zero_point inputs* -> Y ; axis!:i",
    (MICROSOFT, "QLinearConv"): (
        f"x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B? -> y ; {_CONV} channels_last:i"
    ),
    (MICROSOFT, "QLinearGlobalAveragePool"): "X x_scale x_zero_point y_scale y_zero_point -> Y ; channels_last:i",
    (MICROSOFT, "QLinearLeakyRelu"): f"{_QLINEAR_UNARY} ; alpha:f",
    (MICROSOFT, "QLinearMul"): f"{_QLINEAR_BINARY} ;",
    (MICROSOFT, "QLinearSigmoid"): f"{_QLINEAR_UNARY} ;",
    (MICROSOFT, "QLinearSoftmax"): "X X_scale x_zero_point? y_scale y_zero_point -> Y ; axis:i opset!:i",
    (MICROSOFT, "QLinearWhere"): (
        "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point -> Z ;"
    ),
    (MICROSOFT, "QuantizeLinear"): "x y_scale y_zero_point? -> y ; axis:i",
    (MICROSOFT, "QuickGelu"): "X -> Y ; alpha:f",
    (MICROSOFT, "RotaryEmbedding"): (
        "input position_ids cos_cache sin_cache -> output ; "
        "interleaved:i num_heads:i rotary_embedding_dim:i is_packed_batching:i scale:f"
    ),
    (MICROSOFT, "SkipLayerNormalization"): (
        "input skip gamma beta? bias? -> output mean? inv_std_var? input_skip_bias_sum? ; epsilon:f"
    ),
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): (
        "input skip gamma bias? -> output mean? inv_std_var? input_skip_bias_sum? ; epsilon:f"
    ),
    (MICROSOFT, "TransposeMatMul"): _MATMUL,
}
_TYPES: Final = {"f": "FLOAT", "i": "INT", "s": "STRING", "fs": "FLOATS", "is": "INTS", "ss": "STRINGS"}
_OPTIONS: Final = {"?": "Optional", "*": "Variadic"}


def runtime_operators(domain: str) -> tuple[str, ...]:
    """Return the operators of a domain that have a schema here."""
    return tuple(operator for found, operator in _DECLARED if found == domain)


@cache
def runtime_schema(domain: str, operator: str) -> Any:
    """Return the schema of an operator as an ``onnx.defs.OpSchema``, or None if it has none here."""
    from onnx.defs import OpSchema

    declared = _DECLARED.get((domain, operator))
    if declared is None:
        return None
    values, _, attributes = declared.partition(";")
    inputs, outputs = (
        [
            OpSchema.FormalParameter(
                name.rstrip("?*"),
                "T",
                param_option=getattr(OpSchema.FormalParameterOption, _OPTIONS.get(name[-1], "Single")),
            )
            for name in side.split()
        ]
        for side in values.split("->")
    )
    return OpSchema(
        operator,
        domain,
        1,
        inputs=inputs,
        outputs=outputs,
        # The importers check the element types.
        type_constraints=[("T", ["tensor(float)"], "")],
        attributes=[
            OpSchema.Attribute(name.rstrip("!"), getattr(OpSchema.AttrType, _TYPES[short]), required=name.endswith("!"))
            for name, short in (each.split(":") for each in attributes.split())
        ],
    )
