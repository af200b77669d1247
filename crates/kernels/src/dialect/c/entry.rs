//! A kernel as a C function `void kernel_<what it does>(parameters, buffers, across, down)` that runs a launch of
//! `across` times `down` workgroups.
use super::{
    C,
    resumed::Resumed,
    translate::{KernelModule, TextWriter, to_c},
};
use crate::{
    frame::{KernelFrame, Numbering},
    preambles::preamble,
};

/// How elements are stored that have no type of their own.
const STORAGE: &str = include_str!("../../storage.wgsl");
/// The stored formats whose helpers are the same in every language.
const STORED: &str = "f8_";

/// The name of the function that runs a kernel's launches, from the kernel's text.
pub fn entry_of(text: &str) -> Option<&str> {
    let from = text.rfind("void kernel_")? + 5;
    text[from..].split('(').next()
}
/// The text of a kernel.
///
/// # Errors
/// What C cannot say.
pub(super) fn render(frame: &KernelFrame<'_>) -> Result<String, String> {
    let name = named(frame);
    let module = KernelModule::of(name.clone(), frame.functions, frame.bindings.places.len());
    let functions = TextWriter::new(frame.functions, true, Some(&module), None).written()?;
    let waits = frame.body.contains("adm_barrier(") || frame.body.contains("adm_subgroup_");
    let entry = if waits { together(frame, &module)? } else { alone(frame, &module)? };
    let code = format!("{functions}{entry}");
    Ok(format!("{}{}{code}", preamble(&code, &C), stored(&code)))
}
/// The name of a kernel's function: a hash of what it does.
pub(in crate::dialect) fn named(frame: &KernelFrame<'_>) -> String {
    let shared: String = frame.shared.iter().map(|s| format!("{} {} {}\n", s.name, s.of, s.length)).collect();
    let what = format!("{} {:?}\n{shared}{}\n{}", frame.lanes, frame.numbered, frame.functions, frame.body);
    format!("kernel_{:016x}", fnv(what.as_bytes()))
}
/// The helpers of stored formats that the code names.
pub(in crate::dialect) fn stored(code: &str) -> String {
    let mut stored = String::new();
    for helper in STORAGE.split("\nfn ").skip(1).filter(|h| h.starts_with(STORED)) {
        let helper_name = helper.split('(').next().unwrap_or_default();
        if code.contains(helper_name) {
            stored += &format!("#ifndef ADM_HAS_{helper_name}\n#define ADM_HAS_{helper_name}\n{}\n#endif\n", to_c(&format!("fn {helper}"), true));
        }
    }
    stored
}
/// Declarations of the numbers that an invocation knows itself by.
fn numbers(frame: &KernelFrame<'_>) -> String {
    match frame.numbered {
        Numbering::InWorkgroup => " const uint32_t lane = invocation, of_subgroup = 1u; (void)lane; (void)of_subgroup;\n".into(),
        Numbering::InSubgroup(size) => {
            format!(" const uint32_t of_subgroup = {size}u, own = invocation / of_subgroup, lane = invocation % of_subgroup; (void)own; (void)lane;\n")
        }
    }
}
const ARGUMENTS: &str = "const uint32_t *parameters, void *const *buffers, uint32_t across, uint32_t down";
/// Invocations that never wait.
fn alone(frame: &KernelFrame<'_>, module: &KernelModule) -> Result<String, String> {
    let (name, lanes) = (&module.prefix, frame.lanes);
    let body = TextWriter::new(&frame.body, true, Some(module), None).written()?;
    Ok(format!(
        "static void {name}_invocation(const adm_launch *const L, const adm_vec2_u32 group, const adm_vec2_u32 groups, const uint32_t invocation) {{
{}{} (void)group; (void)groups;
{body}}}
void {name}({ARGUMENTS}) {{
    const adm_launch launch = {{parameters, buffers}};
    const adm_vec2_u32 groups = {{across, down}};
    for (uint32_t y = 0; y < down; y++)
        for (uint32_t x = 0; x < across; x++)
            for (uint32_t k = 0; k < {lanes}u; k++) {name}_invocation(&launch, adm_make_vec2_u32(x, y), groups, k);
}}
",
        module.buffers,
        numbers(frame)
    ))
}
/// Invocations that wait for each other: in rounds, each up to where it waits. 0 is the end, 1 the subgroup, 2 the
/// workgroup.
fn together(frame: &KernelFrame<'_>, module: &KernelModule) -> Result<String, String> {
    let (name, lanes) = (&module.prefix, frame.lanes);
    let mut resumed = Resumed::new();
    let body = TextWriter::new(&frame.body, true, Some(module), Some(&mut resumed)).written()?;
    let element = |of: &str| to_c(of, true);
    let arrays: String = frame.shared.iter().map(|s| format!("{} {}[{}]; ", element(s.of), s.name, s.length)).collect();
    let names: String = frame.shared.iter().map(|s| format!(" {} *const {n} = g->{n};", element(s.of), n = s.name)).collect();
    Ok(format!(
        "struct {name}_state {{ unsigned at, turn, waits; {} }};
struct {name}_shared {{ {arrays}adm_word words[2][{lanes}]; }};
static unsigned {name}_invocation(const adm_launch *const L, struct {name}_shared *const g, struct {name}_state *const s, const adm_vec2_u32 group, const adm_vec2_u32 groups, const uint32_t invocation) {{
{}{} (void)group; (void)groups; (void)g;{names}
switch (s->at) {{ case 0:;
{body}}}
return 0;
}}
void {name}({ARGUMENTS}) {{
    const adm_launch launch = {{parameters, buffers}};
    const adm_vec2_u32 groups = {{across, down}};
    struct {name}_state states[{lanes}];
    struct {name}_shared shared;
    for (uint32_t y = 0; y < down; y++)
        for (uint32_t x = 0; x < across; x++) {{
            memset(states, 0, sizeof states);
            memset(&shared, 0xa5, sizeof shared);
            for (uint32_t k = 0; k < {lanes}u; k++) states[k].waits = 1;
            for (uint32_t live = {lanes}u; live > 0;) {{
                uint32_t waiting = 0;
                live = 0;
                for (uint32_t k = 0; k < {lanes}u; k++) {{
                    if (states[k].waits == 1) states[k].waits = {name}_invocation(&launch, &shared, &states[k], adm_make_vec2_u32(x, y), groups, k);
                    live += states[k].waits != 0;
                    waiting += states[k].waits == 2;
                }}
                if (waiting == live)
                    for (uint32_t k = 0; k < {lanes}u; k++) states[k].waits = states[k].waits != 0;
            }}
        }}
}}
",
        resumed.members(),
        module.buffers,
        numbers(frame)
    ))
}
/// Fowler, Noll and Vo's hash, 1a, of 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}
