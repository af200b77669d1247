//! What llama.cpp's files of GPT-2 call the parameters of [`Gpt2LmHead`](crate::Gpt2LmHead).
//!
//! Source: `gguf-py/gguf/tensor_mapping.py` of llama.cpp.

/// Names in files, and the model's without `transformer.`: those of the whole network, and those of a layer.
const OF_NETWORK: [(&str, &str); 4] = [("token_embd", "wte"), ("position_embd", "wpe"), ("output_norm", "ln_f"), ("output", "lm_head")];
const OF_LAYER: [(&str, &str); 6] = [
    ("attn_norm", "ln_1"),
    ("attn_qkv", "attn.c_attn"),
    ("attn_output", "attn.c_proj"),
    ("ffn_norm", "ln_2"),
    ("ffn_up", "mlp.c_fc"),
    ("ffn_down", "mlp.c_proj"),
];

/// The parameter of [`Gpt2LmHead`](crate::Gpt2LmHead) that a name in a file means; an unknown one means itself.
///
/// ```
/// use adamant_models::gguf::gpt2_name;
/// assert_eq!(gpt2_name("blk.11.attn_qkv.weight").as_deref(), Some("transformer.h.11.attn.c_attn.weight"));
/// ```
pub fn gpt2_name(name: &str) -> Option<String> {
    Some(renamed(name, false).unwrap_or_else(|| name.to_string()))
}
/// The name in a file of a parameter of [`Gpt2LmHead`](crate::Gpt2LmHead): `None` for the head, which files leave out where it is the table of
/// tokens.
///
/// ```
/// use adamant_models::gguf::gpt2_name_in_file;
/// assert_eq!(gpt2_name_in_file("transformer.wte.weight").as_deref(), Some("token_embd.weight"));
/// ```
pub fn gpt2_name_in_file(name: &str) -> Option<String> {
    if name.starts_with("lm_head.") { None } else { renamed(name, true) }
}
fn renamed(name: &str, to_file: bool) -> Option<String> {
    let (path, end) = name.rsplit_once('.')?;
    let other = |pairs: &[(&str, &str)], of: &str| {
        let pair = pairs.iter().find(|(file, own)| of == if to_file { *own } else { *file });
        pair.map(|(file, own)| if to_file { file.to_string() } else { own.to_string() })
    };
    let body = if to_file { path.strip_prefix("transformer.").unwrap_or(path) } else { path };
    let prefix = if to_file { "h." } else { "blk." };
    let made = match body.strip_prefix(prefix).and_then(|rest| rest.split_once('.')) {
        Some((layer, part)) => format!("{}{layer}.{}", if to_file { "blk." } else { "h." }, other(&OF_LAYER, part)?),
        None => other(&OF_NETWORK, body)?,
    };
    let start = if to_file || made == "lm_head" { "" } else { "transformer." };
    Some(format!("{start}{made}.{end}"))
}
