//! The book under docs/book: each chapter is the documentation of an item here, so that `cargo test -p adamant-book` compiles and runs
//! its blocks, and checks that no chapter is left out. `mdbook build docs/book` makes pages of it.
#![forbid(unsafe_code)]

pub mod peers;

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
    FromBurn "from-burn.md";
    FromCandle "from-candle.md";
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
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    fn source() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src")
    }
    /// The lines of a text outside of its blocks of code.
    fn prose(text: &str) -> impl Iterator<Item = &str> {
        let mut inside = false;
        text.lines().filter(move |l| {
            let fence = l.trim_start().starts_with("```");
            inside ^= fence;
            !inside && !fence
        })
    }
    /// The targets of links of a text, without those of other sites.
    fn links(text: &str) -> Vec<&str> {
        prose(text).flat_map(|l| l.split("](").skip(1)).filter_map(|rest| rest.split(')').next()).filter(|l| !l.starts_with("http")).collect()
    }
    /// What a heading is called in a link.
    fn anchor(heading: &str) -> String {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_');
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    }
    /// The links of a file of Markdown whose file or heading is not there.
    fn dead(file: &Path) -> Vec<String> {
        let text = fs::read_to_string(file).unwrap();
        let is_dead = |link: &&str| {
            let (path, part) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { file.to_path_buf() } else { file.parent().unwrap().join(path) };
            let heads = || fs::read_to_string(&target).is_ok_and(|t| prose(&t).any(|l| l.starts_with('#') && anchor(l.trim_start_matches('#').trim()) == part));
            !target.exists() || !part.is_empty() && !heads()
        };
        links(&text).iter().filter(|l| is_dead(l)).map(|l| format!("{}: a link to {l}", file.display())).collect()
    }
    fn markdown(folder: &Path) -> Vec<PathBuf> {
        let files = fs::read_dir(folder).unwrap().map(|f| f.unwrap().path());
        let mut files: Vec<PathBuf> = files.filter(|f| f.extension().is_some_and(|e| e == "md")).collect();
        files.sort();
        files
    }
    #[test]
    fn a_link_to_nowhere_in_the_book_the_docs_or_a_readme() {
        let root = source().join("../../..");
        let mut files = markdown(&source());
        files.extend(markdown(&root));
        files.extend(markdown(&root.join("docs")));
        files.extend(fs::read_dir(root.join("examples")).unwrap().map(|f| f.unwrap().path().join("README.md")).filter(|f| f.exists()));
        let dead: Vec<String> = files.iter().flat_map(|f| dead(f)).collect();
        assert!(files.len() > 30 && dead.is_empty(), "{}", dead.join("\n"));
    }
    /// In pages of the book, other files of the repository are named and not linked: there is nothing of them beside the pages.
    #[test]
    fn a_link_out_of_the_book() {
        for chapter in super::CHAPTERS {
            let text = fs::read_to_string(source().join(chapter)).unwrap();
            assert!(links(&text).iter().all(|l| !l.starts_with("..")), "{chapter}");
        }
    }
    #[test]
    fn a_planted_link_to_nowhere() {
        let file = std::env::temp_dir().join(format!("adamant-book-links-{}.md", std::process::id()));
        fs::write(&file, "# A b: `c`\n[x](#a-b-c) [y](#no) [z](no.md) [w](https://github.com)\n```\n[v](none)\n```\n").unwrap();
        let found = dead(&file);
        fs::remove_file(&file).unwrap();
        assert_eq!(found.iter().map(|l| l.rsplit(' ').next().unwrap()).collect::<Vec<_>>(), ["#no", "no.md"]);
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
    fn a_chapter_that_is_not_in_the_summary() {
        let summary = fs::read_to_string(source().join("SUMMARY.md")).unwrap();
        assert_eq!(links(&summary), super::CHAPTERS);
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
