//! What the terminal that stdout goes to is like: how wide, and whether it shows more than ASCII.
use adamant_train::summary::Style;
use console::Term;
use std::env;

/// The style of tables on stdout. Where stdout is no terminal, nothing is cut, unless `COLUMNS` says how wide a line may be.
pub fn style() -> Style {
    let named = env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok()).filter(|columns| *columns > 0);
    let terminal = Term::stdout();
    let measured = terminal.is_term().then(|| terminal.size_checked()).flatten().map(|(_, columns)| usize::from(columns)).filter(|columns| *columns > 0);
    Style { width: measured.or(named), ascii: ascii(|name| env::var(name).ok()) }
}
/// The first of the variables that name a character set decides, as in every program of the system; `NO_UNICODE` stands above
/// them. Where none is set, most terminals of today know UTF-8.
fn ascii(variable: impl Fn(&str) -> Option<String>) -> bool {
    if variable("NO_UNICODE").is_some_and(|value| !value.is_empty()) {
        return true;
    }
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        !(locale.contains("utf-8") || locale.contains("utf8"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_that_is_taken_for_another() {
        let cases: [(&[(&str, &str)], bool); 9] = [
            (&[], false),
            (&[("LC_ALL", "C")], true),
            (&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")], true),
            (&[("LC_ALL", ""), ("LANG", "en_US.UTF-8")], false),
            (&[("LC_CTYPE", "de_DE.utf8"), ("LANG", "C")], false),
            (&[("LANG", "POSIX")], true),
            (&[("LANG", "de_DE.ISO-8859-1")], true),
            (&[("LANG", "C.UTF-8"), ("NO_UNICODE", "1")], true),
            (&[("LANG", "C.UTF-8"), ("NO_UNICODE", "")], false),
        ];
        for (set, want) in cases {
            let variable = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
            assert_eq!(ascii(variable), want, "{set:?}");
        }
    }
}
