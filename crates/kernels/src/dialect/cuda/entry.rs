//! A kernel as a global function of CUDA.
use super::{CUDA_BUFFERS, Cuda};
use crate::{
    dialect::c::{KernelModule, named, stored, threaded, to_c},
    frame::{KernelFrame, Numbering},
    preambles::preamble,
};

/// The text of a kernel.
///
/// # Errors
/// What CUDA cannot say.
pub(super) fn render(frame: &KernelFrame<'_>) -> Result<String, String> {
    let bindings = frame.bindings.places.len();
    if bindings > CUDA_BUFFERS {
        return Err(format!("a kernel of {bindings} buffers: at most {CUDA_BUFFERS} are bound"));
    }
    let name = named(frame);
    let module = KernelModule::of(name.clone(), frame.functions, bindings);
    let functions = threaded(frame.functions, &module)?;
    let body = threaded(&frame.body, &module)?;
    let lanes = frame.lanes;
    let numbers = match frame.numbered {
        Numbering::InWorkgroup => "const uint32_t lane = threadIdx.x;".to_string(),
        Numbering::InSubgroup(size) => format!("const uint32_t own = threadIdx.x / {size}u, lane = threadIdx.x % {size}u; (void)own;"),
    };
    let blocks = frame.blocks.map_or(String::new(), |blocks| format!(", {blocks}"));
    let shared: String = frame.shared.iter().map(|s| format!("    __shared__ __align__(16) {} {}[{}];\n", to_c(s.of, true), s.name, s.length)).collect();
    let taken: String = (0..bindings).map(|k| format!(", void *const buffer{k}")).collect();
    let bound: Vec<String> = (0..bindings).map(|k| format!("buffer{k}")).collect();
    let entry = format!(
        "extern \"C\" __global__ __launch_bounds__({lanes}{blocks}) void {name}(const __grid_constant__ adm_words given, const uint32_t *const gate{taken}) {{
    if (gate && *gate == 0u) return;
    const uint32_t *const words = given.at ? given.at : given.held;
    const adm_launch launch = {{words, {{{}}}}};
    const adm_launch *const L = &launch; (void)L;
{}    const adm_vec2_u32 group = {{blockIdx.x, blockIdx.y}}, groups = {{gridDim.x, gridDim.y}}; (void)group; (void)groups;
    {numbers} (void)lane;
{shared}{body}}}
",
        bound.join(", "),
        module.buffers
    );
    // By which statements in the language itself call the kernel's functions.
    let own = format!("#undef ADM_OWN\n#define ADM_OWN(name) {name}_##name\n");
    let code = format!("{functions}{own}{entry}");
    Ok(format!("{}{}{code}", preamble(&code, &Cuda), stored(&code)))
}
