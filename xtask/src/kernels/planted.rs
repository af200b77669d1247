//! Faults planted into the texts of kernels, each of which the check must tell of: a kernel that spills, a Map that moves its elements
//! word by word, a product whose loop does much else.
use super::{compiled, judged::JudgedText};
use crate::exit::Exit;
use std::path::Path;

/// A fault: which texts can have it, what is changed in one, and what must be said of it.
struct TextPlant {
    what: &'static str,
    fits: fn(&JudgedText) -> bool,
    /// pieces of the text, and what stands there instead
    changes: &'static [[&'static str; 2]],
    said: &'static str,
}
const PLANTS: [TextPlant; 4] = [
    TextPlant {
        what: "fewer registers than sums",
        fits: |t| t.family == "matmul" && t.text.contains("adm_multiply_slices<") && t.text.contains("__launch_bounds__(256) void"),
        changes: &[["__launch_bounds__(256) void", "__launch_bounds__(256, 4) void"]],
        said: "bytes spilled",
    },
    TextPlant {
        what: "a Map that loads word by word",
        fits: |t| t.is_dense && t.text.contains("adm_take_4<4>(b0"),
        changes: &[["((const uint4 *)from)[k]", "make_uint4(((const volatile uint32_t *)from)[4 * k], ((const volatile uint32_t *)from)[4 * k + 1], 0u, 0u)"]],
        said: "loads and",
    },
    TextPlant {
        what: "a dense Map without pieces",
        fits: |t| t.is_dense && t.text.contains("adm_put_4<4>(b"),
        changes: &[["adm_take_4<4>(b", "adm_take_4<4>((const void *)b"], ["adm_put_4<4>(b", "adm_put_4<4>((void *)b"]],
        said: "does not move 16 bytes at once",
    },
    TextPlant {
        what: "a product's loop that reads besides",
        fits: |t| t.family == "matmul" && t.text.matches("adm_copied<").count() == 2,
        changes: &[[
            "        __syncthreads();\n        fill(",
            "        __syncthreads();\n        _Pragma(\"unroll\") for (uint32_t n = 0; n < 80u; n++) { uint32_t y; asm volatile(\"ld.volatile.shared.u32 %0, [%1];\" : \"=r\"(y) : \"r\"(left_shared + 4u * n)); }\n        fill(",
        ]],
        said: "of the inner loop are the matrix unit's",
    },
];

/// Plants each fault into the first text that can have it, and looks at both.
pub fn planted(texts: &[JudgedText], architecture: &str, disassembler: Option<&Path>) -> Exit {
    if disassembler.is_none() {
        println!("skipped: no nvdisasm");
        return Exit::Skipped;
    }
    let mut missed = 0;
    for plant in &PLANTS {
        let caught = caught(plant, texts, architecture, disassembler);
        missed += usize::from(caught.is_err());
        match caught {
            Ok(said) => println!("{architecture}: {}: caught: {said}", plant.what),
            Err(why) => println!("{architecture}: {}: MISSED: {why}", plant.what),
        }
    }
    println!("{} of {} faults caught: {}", PLANTS.len() - missed, PLANTS.len(), if missed == 0 { "passed" } else { "FAILED" });
    if missed == 0 { Exit::Passed } else { Exit::Failed }
}
/// What is said of a text with its fault, and not without.
///
/// # Errors
/// No text for it, nothing said, or the same said of the text as it is.
fn caught(plant: &TextPlant, texts: &[JudgedText], architecture: &str, disassembler: Option<&Path>) -> Result<String, String> {
    let sound = texts.iter().find(|t| (plant.fits)(t)).ok_or("no text is one for it")?;
    let mut faulty = sound.clone();
    for [from, to] in plant.changes {
        faulty.text = faulty.text.replace(from, to);
    }
    if faulty.text == sound.text {
        return Err("nothing was changed".into());
    }
    let said = |text: &JudgedText| -> Result<Vec<String>, String> {
        Ok(compiled(std::slice::from_ref(text), architecture, disassembler)?.into_iter().flat_map(|look| look.wrong).collect())
    };
    let (of_faulty, of_sound) = (said(&faulty)?, said(sound)?);
    if let Some(alarm) = of_sound.first() {
        return Err(format!("a false alarm without it: {alarm}"));
    }
    of_faulty.iter().find(|what| what.contains(plant.said)).cloned().ok_or_else(|| format!("what was said is {of_faulty:?}"))
}
