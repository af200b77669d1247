//! The page's one document: markup, style and script, all of them in the program.
//!
//! The script is one function of several files, in this order; what it draws with is its own. It takes what the run says as text alone.
use adamant_train::{folder::text_of, plot::escape};
use std::path::Path;

const STYLE: &str = include_str!("page/style.css");
const MARKUP: &str = include_str!("page/page.html");
const SCRIPTS: [&str; 8] = [
    include_str!("page/draw.js"),
    include_str!("page/chart.js"),
    include_str!("page/known.js"),
    include_str!("page/trace.js"),
    include_str!("page/layers.js"),
    include_str!("page/flow.js"),
    include_str!("page/debugger.js"),
    include_str!("page/page.js"),
];

/// The document, for a run and the panels that it opens with.
pub fn html(run: &Path, panels: &str, nonce: &str) -> String {
    let script: String = SCRIPTS.concat();
    let name = escape(&text_of(run));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name} · adamant debug</title><link rel=\"icon\" href=\"data:,\">\n<style nonce=\"{nonce}\">\n{STYLE}</style></head>\n\
         <body data-run=\"{name}\" data-panels=\"{panels}\">\n{MARKUP}<script nonce=\"{nonce}\">\n(() => {{\n\"use strict\";\n{script}}})();\n</script></body></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_asks_elsewhere_or_takes_what_it_is_told_for_markup() {
        let page = html(Path::new("runs/<b>\"x\"&"), "gradients", "n");
        assert!(page.contains("data-run=\"runs/&lt;b&gt;") && !page.contains("<b>"), "{page:.800}");
        for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "import(", "//cdn", "localStorage", " style=\""]
        {
            assert!(!page.contains(word), "{word}");
        }
        // The namespace of pictures is a name, not an address that is asked.
        let addresses = page.matches("http://").count() + page.matches("https://").count();
        assert_eq!((addresses, page.matches("http://www.w3.org/2000/svg").count()), (1, 1));
        assert_eq!((page.matches("<script").count(), page.matches("</script>").count(), page.matches("nonce=\"n\"").count()), (1, 1, 2));
    }
}
