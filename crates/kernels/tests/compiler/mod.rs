//! A C compiler, where the machine has one, and naga, which is always there.
#![allow(dead_code, reason = "each test file uses a part")]
use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Parses and validates a WGSL module, with 64-bit integers.
pub fn validate(source: &str) -> Result<(), String> {
    let module = naga::front::wgsl::parse_str(source).map_err(|e| e.emit_to_string(source))?;
    let capabilities = naga::valid::Capabilities::SHADER_INT64 | naga::valid::Capabilities::SUBGROUP;
    let mut validator = naga::valid::Validator::new(naga::valid::ValidationFlags::all(), capabilities);
    validator.subgroup_stages(naga::valid::ShaderStages::COMPUTE).subgroup_operations(naga::valid::SubgroupOperationSet::all());
    validator.validate(&module).map(|_| ()).map_err(|e| format!("{e:?}"))
}

/// The C compiler. Without one the caller's comparison is skipped, and the output says so.
pub fn find() -> Option<String> {
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let there = Command::new(&cc).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    if !there {
        let _ = writeln!(std::io::stderr(), "skipped: no C compiler `{cc}`, so the texts were not compiled or compared");
    }
    there.then_some(cc)
}
/// A program that reads (function, x, y) as 64-bit words and writes the functions' results, of one type.
pub fn dispatch(definitions: &str, t: &str, bodies: &[String]) -> String {
    let functions: String = bodies.iter().enumerate().map(|(k, body)| format!("static {t} f{k}({t} x, {t} y) {{ (void)x; (void)y; {body} }}\n")).collect();
    let table: Vec<String> = (0..bodies.len()).map(|k| format!("f{k}")).collect();
    format!(
        "#include <stdio.h>\n{definitions}\n{functions}
static {t} (*table[])({t}, {t}) = {{ {} }};
int main(void) {{
    uint64_t in[3];
    while (fread(in, 8, 3, stdin) == 3) {{
        {t} x, y;
        memcpy(&x, &in[1], sizeof x);
        memcpy(&y, &in[2], sizeof y);
        {t} z = table[in[0]](x, y);
        uint64_t out = 0;
        memcpy(&out, &z, sizeof z);
        fwrite(&out, 8, 1, stdout);
    }}
    return 0;
}}\n",
        table.join(", ")
    )
}
/// Compiles a program and runs it on the words.
pub fn run(cc: &str, name: &str, program: &str, input: &[[u64; 3]]) -> Vec<u64> {
    let folder: PathBuf = std::env::temp_dir().join(format!("adamant-kernels-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (source, binary) = (folder.join("text.c"), folder.join("text"));
    fs::write(&source, program).unwrap();
    let compiled = Command::new(cc)
        .args(["-std=c11", "-O1", "-fwrapv", "-ffp-contract=off", "-Wno-unused-function", "-o"])
        .arg(&binary)
        .arg(&source)
        .arg("-lm")
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut child = Command::new(&binary).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let bytes: Vec<u8> = input.iter().flatten().flat_map(|w| w.to_ne_bytes()).collect();
    let mut to = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || to.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "the compiled texts crashed: {:?}", output.status);
    fs::remove_dir_all(&folder).unwrap();
    output.stdout.chunks_exact(8).map(|c| u64::from_ne_bytes(c.try_into().unwrap())).collect()
}
