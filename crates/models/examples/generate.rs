//! What a GPT-2 says next: reads a folder of transformers (`config.json` and the weights) and continues token ids.
//!
//! cargo run --release -p adamant-models --example generate -- FOLDER 464 3290 318
use adamant_backend_cpu as _;
use adamant_core::Tensor;
use adamant_models::{FromFolder, Gpt2LmHead, generate::GenerateOptions};
use std::{error::Error, time::Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("give a folder, then token ids")?;
    let prompt = arguments.map(|id| id.parse::<i64>()).collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    let model = Gpt2LmHead::from_folder(&folder)?;
    println!("read in {:.1} s", begun.elapsed().as_secs_f64());
    let ids = Tensor::from_slice(&prompt, [1, prompt.len()]);
    let begun = Instant::now();
    let options = GenerateOptions { max_new_tokens: 32, temperature: 0.8, top_k: Some(50), top_p: Some(0.95), seed: 1, ..Default::default() };
    let all = model.generate(&ids, None, &options)?.to_vec::<i64>()?;
    println!("{:?}", &all[prompt.len()..]);
    println!("{:.0} ms a token", begun.elapsed().as_secs_f64() * 1e3 / (all.len() - prompt.len()) as f64);
    Ok(())
}
