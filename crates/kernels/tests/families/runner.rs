//! A launcher whose device is a C compiler: launches are collected, their texts compiled into one program, and each case's
//! buffers sent through it.
use adamant_ir::{ErrorKind, Shape};
use adamant_kernels::{Again, Bindings, CompiledText, Found, Key, LaunchTarget, Launcher, Nest, Place, Strides, entry_of};
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

/// The texts of all cases, by the name of their function.
#[derive(Default)]
pub struct Texts(pub BTreeMap<String, String>);

/// One launch of a case.
pub struct Launch {
    entry: String,
    places: Vec<Place>,
    parameters: Vec<u32>,
    grid: [u32; 2],
}
/// Collects the launches of a case.
pub struct Sheet<'t> {
    target: LaunchTarget,
    texts: &'t mut Texts,
    compiled: Vec<String>,
    pub launches: Vec<Launch>,
    pub scratch: u64,
    pub reports: Vec<Found>,
    /// where workgroups are numbered along y too
    most: u64,
}
impl<'t> Sheet<'t> {
    pub fn new(target: LaunchTarget, texts: &'t mut Texts, most: u64) -> Sheet<'t> {
        Sheet { target, texts, compiled: Vec::new(), launches: Vec::new(), scratch: 0, reports: Vec::new(), most }
    }
}
impl Launcher for Sheet<'_> {
    fn target(&self) -> LaunchTarget {
        self.target
    }
    fn compile(&mut self, _: &Key, _: &Bindings, write: &mut dyn FnMut() -> Result<String, ErrorKind>) -> Result<CompiledText, ErrorKind> {
        let text = write()?;
        // A shader's entry has no name of its own.
        let entry = entry_of(&text).unwrap_or(&text).to_string();
        self.compiled.push(entry.clone());
        if let Some(other) = self.texts.0.insert(entry, text.clone()) {
            assert_eq!(other, text, "two texts of one name");
        }
        Ok(CompiledText(self.compiled.len() - 1))
    }
    fn known(&self, _: &[u8]) -> Result<Vec<Key>, ErrorKind> {
        // Not new: only what is launched is compiled.
        Ok(vec![Key::from_slice(&[0])])
    }
    fn is_new(&self) -> Result<bool, ErrorKind> {
        Ok(false)
    }
    fn warm_up(&mut self, _: Again<'_>) -> Result<(), ErrorKind> {
        Ok(())
    }
    fn nest(&mut self, _: u8, _: &Bindings, space: &Shape, [outer, inner]: [&[usize]; 2], operands: &[(usize, Strides)]) -> Result<Nest, ErrorKind> {
        Ok(Nest::new(space, outer, inner, operands))
    }
    fn report(&mut self, found: Found) -> u32 {
        self.reports.push(found);
        3 * (self.reports.len() as u32 - 1)
    }
    fn scratch(&mut self, words: u64) -> Result<(), ErrorKind> {
        self.scratch = self.scratch.max(words);
        Ok(())
    }
    fn launch_groups(&mut self, text: CompiledText, bindings: &Bindings, parameters: &[u32], groups: u64) {
        let rows = groups.div_ceil(self.most).max(1);
        let grid = [groups.div_ceil(rows) as u32, rows as u32];
        self.launches.push(Launch { entry: self.compiled[text.0].clone(), places: bindings.places.to_vec(), parameters: parameters.to_vec(), grid });
    }
}
/// What one case sends through the program.
pub struct Job {
    pub launches: Vec<Launch>,
    /// the buffers, by number
    pub buffers: Vec<Vec<u8>>,
    pub scratch: u64,
    pub reports: usize,
}
/// What comes back: the buffers, and three words of each report.
pub struct Answer {
    pub buffers: Vec<Vec<u8>>,
    pub reports: Vec<[u32; 3]>,
}
const DRIVER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static uint32_t word(void) { uint32_t w; if (fread(&w, 4, 1, stdin) != 1) exit(0); return w; }
static void *block(size_t bytes) { void *m = malloc(bytes ? bytes : 1); if (!m) exit(3); return m; }
int main(void) {
    for (;;) {
        uint32_t count = word();
        void *buffers[40];
        size_t sizes[40];
        for (uint32_t k = 0; k < count; k++) {
            sizes[k] = word();
            buffers[k] = block(sizes[k]);
            if (fread(buffers[k], 1, sizes[k], stdin) != sizes[k]) exit(4);
        }
        sizes[count] = (size_t)word() * 4;
        buffers[count] = block(sizes[count]);
        memset(buffers[count], 0xa5, sizes[count]);
        sizes[count + 1] = (size_t)word() * 12;
        buffers[count + 1] = block(sizes[count + 1]);
        memset(buffers[count + 1], 0xff, sizes[count + 1]);
        for (uint32_t launches = word(); launches > 0; launches--) {
            uint32_t number = word(), parameters = word();
            uint32_t *p = block((size_t)parameters * 4);
            for (uint32_t k = 0; k < parameters; k++) p[k] = word();
            void *bound[40];
            for (uint32_t k = 0, bindings = word(); k < bindings; k++) bound[k] = buffers[word()];
            uint32_t across = word(), down = word();
            table[number](p, bound, across, down);
            free(p);
        }
        for (uint32_t k = 0; k < count; k++) fwrite(buffers[k], 1, sizes[k], stdout);
        fwrite(buffers[count + 1], 1, sizes[count + 1], stdout);
        for (uint32_t k = 0; k < count + 2; k++) free(buffers[k]);
    }
}
"#;
fn push(to: &mut Vec<u8>, w: usize) {
    to.extend((w as u32).to_ne_bytes());
}
/// Compiles the texts and runs the jobs. Reads and writes beyond a buffer end the program, where the compiler can see to it.
pub fn run(cc: &str, folder: &Path, texts: &Texts, jobs: &[Job]) -> Result<Vec<Answer>, String> {
    let numbers: BTreeMap<&str, usize> = texts.0.keys().enumerate().map(|(k, name)| (name.as_str(), k)).collect();
    let binary = build(cc, folder, texts)?;
    let mut input = Vec::new();
    for job in jobs {
        push(&mut input, job.buffers.len());
        for b in &job.buffers {
            push(&mut input, b.len());
            input.extend(b);
        }
        push(&mut input, job.scratch as usize);
        push(&mut input, job.reports);
        push(&mut input, job.launches.len());
        for l in &job.launches {
            push(&mut input, numbers[l.entry.as_str()]);
            push(&mut input, l.parameters.len());
            l.parameters.iter().for_each(|&p| push(&mut input, p as usize));
            push(&mut input, l.places.len());
            for place in &l.places {
                push(
                    &mut input,
                    match *place {
                        Place::Buffer(k) => k,
                        Place::Scratch => job.buffers.len(),
                        Place::Faults => job.buffers.len() + 1,
                    },
                );
            }
            l.grid.iter().for_each(|&g| push(&mut input, g as usize));
        }
    }
    let mut child = Command::new(&binary)
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let (mut to, mut from, mut errors) = (child.stdin.take().unwrap(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let writer = thread::spawn(move || to.write_all(&input));
    let complaints = thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).map(|_| text)
    });
    let mut output = Vec::new();
    from.read_to_end(&mut output).map_err(|e| e.to_string())?;
    let status = child.wait().map_err(|e| e.to_string())?;
    let complaint = complaints.join().unwrap().unwrap_or_default();
    let _ = writer.join();
    let mut rest = &output[..];
    let mut take = |n: usize| -> Result<Vec<u8>, String> {
        let (own, behind) = rest.split_at_checked(n).ok_or_else(|| format!("the compiled texts ended early, with {status}:\n{complaint}"))?;
        rest = behind;
        Ok(own.to_vec())
    };
    let mut answers = Vec::new();
    for job in jobs {
        let buffers = job.buffers.iter().map(|b| take(b.len())).collect::<Result<Vec<_>, _>>()?;
        let words: Vec<u32> = take(job.reports * 12)?.as_chunks().0.iter().map(|w| u32::from_ne_bytes(*w)).collect();
        answers.push(Answer { buffers, reports: words.as_chunks().0.to_vec() });
    }
    if !status.success() {
        return Err(format!("the compiled texts ended with {status}:\n{complaint}"));
    }
    Ok(answers)
}
/// The texts in a few files, each compiled by itself, and a table of their functions.
fn build(cc: &str, folder: &Path, texts: &Texts) -> Result<PathBuf, String> {
    fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    let all: Vec<(&String, &String)> = texts.0.iter().collect();
    let arguments = "const uint32_t *, void *const *, uint32_t, uint32_t";
    let declared: String = all.iter().map(|(name, _)| format!("void {name}({arguments});\n")).collect();
    let table: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let driver =
        format!("#include <stdint.h>\n#include <string.h>\n{declared}static void (*const table[])({arguments}) = {{ {} }};\n{DRIVER}", table.join(", "));
    let mut sources = vec![driver];
    sources.extend(all.chunks(200).map(|some| some.iter().map(|(_, text)| text.as_str()).collect::<String>()));
    let checked = ["-fsanitize=address", "-fno-omit-frame-pointer"];
    let probe = folder.join("probe.c");
    fs::write(&probe, "int main(void) { return 0; }\n").map_err(|e| e.to_string())?;
    let can = Command::new(cc).args(checked).arg("-o").arg(folder.join("probe")).arg(&probe).output().is_ok_and(|o| o.status.success());
    let flags: &[&str] = if can { &checked } else { &[] };
    let queue = Mutex::new(sources.into_iter().enumerate());
    let worker = || -> Result<Vec<PathBuf>, String> {
        let mut objects = Vec::new();
        while let Some((k, source)) = { queue.lock().unwrap().next() } {
            objects.push(object(cc, folder, k, &source, flags)?);
        }
        Ok(objects)
    };
    let workers = thread::available_parallelism().map_or(1, |n| n.get());
    let objects: Vec<PathBuf> = thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        running.into_iter().map(|r| r.join().unwrap()).collect::<Result<Vec<_>, _>>().map(|all| all.concat())
    })?;
    let binary = folder.join("texts");
    let linked = Command::new(cc).args(flags).arg("-o").arg(&binary).args(&objects).arg("-lm").output().map_err(|e| e.to_string())?;
    if linked.status.success() { Ok(binary) } else { Err(String::from_utf8_lossy(&linked.stderr).into_owned()) }
}
/// One file, compiled.
fn object(cc: &str, folder: &Path, k: usize, source: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let (path, object) = (folder.join(format!("texts{k}.c")), folder.join(format!("texts{k}.o")));
    fs::write(&path, source).map_err(|e| e.to_string())?;
    let warnings = ["-Werror=implicit-function-declaration", "-Werror=int-conversion", "-Werror=incompatible-pointer-types"];
    let compiled = Command::new(cc)
        .args(["-std=c99", "-O0", "-fwrapv", "-ffp-contract=off", "-c"])
        .args(warnings)
        .args(flags)
        .arg("-o")
        .arg(&object)
        .arg(&path)
        .output()
        .map_err(|e| e.to_string())?;
    if !compiled.status.success() {
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        return Err(format!("{} does not compile:\n{}", path.display(), said.lines().take(40).collect::<Vec<_>>().join("\n")));
    }
    Ok(object)
}
