//! The book under docs/book: each chapter is the documentation of an item here, so that `cargo test -p adamant-book` compiles and runs
//! its blocks, and checks that no chapter is left out. `mdbook build docs/book` makes pages of it.
#![forbid(unsafe_code)]

macro_rules! chapters {
    ($($name:ident $file:literal;)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../../docs/book/src/", $file))]
            pub struct $name;
        )*
        /// The files whose blocks run.
        pub const CHAPTERS: &[&str] = &[$($file),*];
    };
}
chapters! {
    Start "start.md";
    FromPyTorch "from-pytorch.md";
    Tensors "tensors.md";
    Autograd "autograd.md";
    Modules "modules.md";
    Data "data.md";
    Training "training.md";
    Devices "devices.md";
    Performance "performance.md";
    Extending "extending.md";
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    fn source() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src")
    }
    /// The targets of links of a text, without those of other sites.
    fn links(text: &str) -> Vec<&str> {
        text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|l| !l.starts_with("http")).collect()
    }
    #[test]
    fn a_chapter_whose_blocks_do_not_run() {
        let mut files: Vec<String> = fs::read_dir(source()).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        files.retain(|f| f != "SUMMARY.md");
        files.sort();
        let mut run: Vec<String> = super::CHAPTERS.iter().map(|f| f.to_string()).collect();
        run.sort();
        assert_eq!(run, files);
    }
    #[test]
    fn a_chapter_that_is_not_in_the_summary_and_a_link_to_nowhere() {
        let summary = fs::read_to_string(source().join("SUMMARY.md")).unwrap();
        let listed = links(&summary);
        assert_eq!(listed, super::CHAPTERS);
        for chapter in super::CHAPTERS {
            let text = fs::read_to_string(source().join(chapter)).unwrap();
            for link in links(&text) {
                let (file, part) = link.split_once('#').unwrap_or((link, ""));
                let target = fs::read_to_string(source().join(if file.is_empty() { chapter } else { file }));
                let target = target.unwrap_or_else(|_| panic!("{chapter}: a link to {link}"));
                let heads = target.lines().filter_map(|l| l.strip_prefix("## ")).map(|h| h.to_lowercase().replace(' ', "-"));
                assert!(part.is_empty() || heads.into_iter().any(|h| h == part), "{chapter}: a link to {link}");
            }
        }
    }
    /// A block of Rust that is not compiled and run would be an example that may be wrong.
    #[test]
    fn a_block_that_is_not_run() {
        for chapter in super::CHAPTERS {
            let text = fs::read_to_string(source().join(chapter)).unwrap();
            for (line, fence) in text.lines().enumerate().filter_map(|(k, l)| l.strip_prefix("```").map(|f| (k + 1, f))) {
                assert!(!fence.starts_with("rust") || fence == "rust", "{chapter}:{line}: {fence}");
            }
        }
    }
}
