//! Recurrent networks, attention and transformers: modules with several inputs or outputs.
use super::BuiltModule;
use crate::goldens::call::{OpCall, argument};
use adamant::{
    Error,
    nn::{self, Masks, RecurrentOptions, RnnNonlinearity, TransformerOptions},
};

/// The module, if its name is one of these.
pub fn build(name: &str, call: &OpCall) -> Result<Option<BuiltModule>, Error> {
    let sizes = || Ok::<_, Error>((call.size("input_size")?, call.size("hidden_size")?));
    let bias = call.bool_or("bias", true)?;
    Ok(Some(match name {
        "RNN" => {
            let (input, hidden) = sizes()?;
            BuiltModule::new(nn::Rnn::with(input, hidden, nonlinearity(call)?, recurrent(call)?)?, |m, call| {
                let (y, h) = m.forward_state(call.tensor(0)?, call.optional(1))?;
                Ok(vec![y, h])
            })
        }
        "GRU" => {
            let (input, hidden) = sizes()?;
            BuiltModule::new(nn::Gru::with(input, hidden, recurrent(call)?)?, |m, call| {
                let (y, h) = m.forward_state(call.tensor(0)?, call.optional(1))?;
                Ok(vec![y, h])
            })
        }
        "LSTM" => {
            let (input, hidden) = sizes()?;
            BuiltModule::new(nn::Lstm::with(input, hidden, recurrent(call)?)?, |m, call| {
                let (y, h, c) = m.forward_state(call.tensor(0)?, call.optional(1).zip(call.optional(2)))?;
                Ok(vec![y, h, c])
            })
        }
        "RNNCell" => {
            let (input, hidden) = sizes()?;
            BuiltModule::new(nn::RnnCell::with(input, hidden, bias, nonlinearity(call)?)?, |m, call| {
                Ok(vec![m.forward_state(call.tensor(0)?, call.optional(1))?])
            })
        }
        "GRUCell" => {
            let (input, hidden) = sizes()?;
            BuiltModule::new(nn::GruCell::with(input, hidden, bias)?, |m, call| Ok(vec![m.forward_state(call.tensor(0)?, call.optional(1))?]))
        }
        "LSTMCell" => {
            let (input, hidden) = sizes()?;
            BuiltModule::new(nn::LstmCell::with(input, hidden, bias)?, |m, call| {
                let (h, c) = m.forward_state(call.tensor(0)?, call.optional(1).zip(call.optional(2)))?;
                Ok(vec![h, c])
            })
        }
        "MultiheadAttention" => BuiltModule::new(attention(call)?, |m, call| {
            let (y, weights) = m.forward_weights(call.tensor(0)?, call.tensor(1)?, call.tensor(2)?, &Masks::default())?;
            Ok(vec![y, weights])
        }),
        "TransformerEncoderLayer" => {
            BuiltModule::new(nn::TransformerEncoderLayer::with(call.size("d_model")?, call.size("nhead")?, transformer(call)?)?, |m, call| {
                Ok(vec![m.forward_masked(call.tensor(0)?, &masked(call, 1))?])
            })
        }
        "TransformerDecoderLayer" => {
            BuiltModule::new(nn::TransformerDecoderLayer::with(call.size("d_model")?, call.size("nhead")?, transformer(call)?)?, |m, call| {
                Ok(vec![m.forward(call.tensor(0)?, call.tensor(1)?, &masked(call, 2), &masked(call, 3))?])
            })
        }
        "Transformer" => {
            let layers = |side: &str| call.int_or(side, 6).map(|n| n as usize);
            let (encoder, decoder) = (layers("num_encoder_layers")?, layers("num_decoder_layers")?);
            let model = nn::Transformer::with(call.int_or("d_model", 512)? as usize, call.int_or("nhead", 8)? as usize, encoder, decoder, transformer(call)?)?;
            BuiltModule::new(model, |m, call| {
                let (source, target) = (call.tensor(0)?, call.tensor(1)?);
                Ok(vec![m.forward(source, target, &masked(call, 2), &masked(call, 3), &masked(call, 4))?])
            })
        }
        _ => return Ok(None),
    }))
}
/// The mask that torch takes at this position.
fn masked<'a>(call: &'a OpCall, position: usize) -> Masks<'a> {
    Masks { attn_mask: call.optional(position), ..Masks::default() }
}
fn nonlinearity(call: &OpCall) -> Result<RnnNonlinearity, Error> {
    match call.text_or("nonlinearity", "tanh")? {
        "tanh" => Ok(RnnNonlinearity::Tanh),
        "relu" => Ok(RnnNonlinearity::Relu),
        other => Err(argument(format!("nonlinearity {other}"))),
    }
}
fn recurrent(call: &OpCall) -> Result<RecurrentOptions, Error> {
    Ok(RecurrentOptions {
        num_layers: call.int_or("num_layers", 1)? as usize,
        bias: call.bool_or("bias", true)?,
        batch_first: call.bool_or("batch_first", false)?,
        dropout: call.float_or("dropout", 0.0)?,
        bidirectional: call.bool_or("bidirectional", false)?,
        proj_size: call.int_or("proj_size", 0)? as usize,
    })
}
fn attention(call: &OpCall) -> Result<nn::MultiheadAttention, Error> {
    let features = |name: &str| Ok::<_, Error>(call.maybe_int(name)?.map(|n| n as usize));
    let options = nn::MultiheadAttentionOptions {
        dropout: call.float_or("dropout", 0.0)?,
        bias: call.bool_or("bias", true)?,
        add_bias_kv: call.bool_or("add_bias_kv", false)?,
        add_zero_attn: call.bool_or("add_zero_attn", false)?,
        kdim: features("kdim")?,
        vdim: features("vdim")?,
        batch_first: call.bool_or("batch_first", false)?,
    };
    nn::MultiheadAttention::with(call.size("embed_dim")?, call.size("num_heads")?, options)
}
fn transformer(call: &OpCall) -> Result<TransformerOptions, Error> {
    Ok(TransformerOptions {
        dim_feedforward: call.int_or("dim_feedforward", 2048)? as usize,
        dropout: call.float_or("dropout", 0.1)?,
        activation: match call.text_or("activation", "relu")? {
            "relu" => nn::Activation::Relu,
            "gelu" => nn::Activation::Gelu,
            other => return Err(argument(format!("activation {other}"))),
        },
        layer_norm_eps: call.float_or("layer_norm_eps", 1e-5)?,
        batch_first: call.bool_or("batch_first", false)?,
        norm_first: call.bool_or("norm_first", false)?,
        bias: call.bool_or("bias", true)?,
        is_causal: false,
    })
}
