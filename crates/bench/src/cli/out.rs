//! What a verb says and writes. Nothing that was measured is lost because it cannot be shown: text that stdout does not
//! take ends the program only after its records are written, and where something is written is looked at before anything
//! is measured.
use super::{Ended, Exit};
use crate::record::holds_records;
use std::{
    fmt::Display,
    fs,
    io::{self, ErrorKind, Write},
    path::Path,
};

/// Stdout. A reader that has gone (`bench list | head -1`) has seen what it wanted; whatever else goes wrong is told at the
/// end.
#[derive(Debug, Default)]
pub struct OutStream {
    failed: Option<io::Error>,
}
impl OutStream {
    /// A line.
    pub fn say(&mut self, text: impl Display) {
        self.put(&format!("{text}\n"));
    }
    /// Text as it is.
    pub fn put(&mut self, text: &str) {
        let mut stdout = io::stdout().lock();
        if let Err(e) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            self.failed.get_or_insert(e);
        }
    }
    /// The end of a verb that would end so.
    ///
    /// # Errors
    /// Something could not be said, and nothing else went wrong.
    pub fn end(self, exit: Exit) -> Result<Exit, Ended> {
        match self.failed.filter(|e| e.kind() != ErrorKind::BrokenPipe) {
            Some(e) if exit == Exit::Passed => Err((Exit::Unwritable, format!("stdout: {e}"))),
            // What went wrong before is what the caller must know.
            Some(e) => {
                note(format_args!("stdout: {e}"));
                Ok(exit)
            }
            None => Ok(exit),
        }
    }
}
/// A line for people, on stderr. A full log is no reason to end.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
/// Can a file be written? Asked before something is measured, and of a file that is there it changes nothing.
///
/// # Errors
/// It cannot, or holds records, which nothing but a record is written to.
pub fn writable(file: Option<&Path>) -> Result<(), Ended> {
    let Some(file) = file else { return Ok(()) };
    free(file)?;
    appendable(file)
}
/// Can a record be added to a file?
///
/// # Errors
/// It cannot.
pub fn appendable(file: &Path) -> Result<(), Ended> {
    let kind = fs::metadata(file);
    // To open a pipe would wait for its reader.
    if kind.as_ref().is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        return Ok(());
    }
    in_folder(file).and_then(|()| fs::OpenOptions::new().create(true).append(true).open(file)).map_err(|e| unwritable(file, &e))?;
    // It was made to see whether it can be made.
    if kind.is_err() {
        fs::remove_file(file).map_err(|e| unwritable(file, &e))?;
    }
    Ok(())
}
/// Writes to a file, or to stdout.
///
/// # Errors
/// The file cannot be written, or holds records.
pub fn write(text: &str, file: Option<&Path>, out: &mut OutStream) -> Result<(), Ended> {
    let Some(file) = file else {
        out.put(text);
        return Ok(());
    };
    free(file)?;
    in_folder(file).and_then(|()| fs::write(file, text)).map_err(|e| unwritable(file, &e))
}
/// Records took hours: a name in the wrong place does not cost them.
fn free(file: &Path) -> Result<(), Ended> {
    if holds_records(file) {
        return Err((Exit::Usage, format!("{} holds records, and would be replaced: name another file", file.display())));
    }
    Ok(())
}
fn in_folder(file: &Path) -> io::Result<()> {
    file.parent().filter(|p| !p.as_os_str().is_empty()).map_or(Ok(()), fs::create_dir_all)
}
/// The end of a verb that cannot write to a file.
pub fn unwritable(file: &Path, e: &io::Error) -> Ended {
    (Exit::Unwritable, format!("{}: {e}", file.display()))
}
