//! The screen: where the run is, a panel, what was answered. It is drawn whole each time, for a terminal of any size.
use super::{
    keys::{PANELS, ViewerKeys},
    link::LinkState,
    panels,
    seen::{SeenRun, figure},
};
use crate::out;
use ratatui::{
    Frame,
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, LineGauge, Paragraph, Tabs, Wrap},
};

const HELP: &str = "\
q            leaves; the run goes on
c            a checkpoint now
p            pauses the run, or resumes it
r            the learning rate × 0.5 (asks first)
e            ends the run behind this epoch (asks first)
Tab, 1 to 5  panels
↑ ↓          scrolls
?            this page; any key leaves it";
const FOOTER: &str = "q leave  c checkpoint  p pause  r rate × 0.5  e end  Tab panels  ? help";
/// Lines of a screen from which on keys and answers have a line each.
const TALL: u16 = 12;

/// What the terminal shows.
#[derive(Clone, Copy)]
pub struct ScreenLook {
    pub colours: bool,
    pub ascii: bool,
}

pub fn draw(frame: &mut Frame<'_>, look: ScreenLook, seen: &SeenRun, link: &LinkState, keys: &mut ViewerKeys) {
    let one = Constraint::Length(1);
    let tall = u16::from(frame.area().height >= TALL);
    let [head, gauge, tabs, body, foot, hints] = Layout::vertical([one, one, one, Constraint::Min(0), one, Constraint::Length(tall)]).areas(frame.area());
    let state = StateShown::of(seen, link);
    let head_line =
        Line::from(vec![Span::styled(state.word.clone(), Style::new().fg(state.colour).add_modifier(Modifier::BOLD)), Span::raw(format!("  {}", state.more))]);
    frame.render_widget(Paragraph::new(head_line), head);
    draw_progress(frame, gauge, seen, link);
    let titles = PANELS.iter().enumerate().map(|(k, name)| format!("{} {name}", k + 1));
    let chosen = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(Tabs::new(titles).select(keys.panel).highlight_style(chosen).divider(" "), tabs);
    match keys.panel {
        0 => panels::curves(frame, body, seen, look),
        1 => panels::layers(frame, body, seen, &mut keys.scrolled),
        2 => panels::incidents(frame, body, seen, &mut keys.scrolled),
        3 => panels::machine(frame, body, seen),
        _ => panels::diary(frame, body, seen, &mut keys.scrolled),
    }
    let hint = Line::styled(FOOTER, Style::new().add_modifier(Modifier::DIM));
    let said = match keys.question() {
        Some(question) => Line::styled(question, Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD)),
        None if keys.said.is_empty() && tall == 0 => hint.clone(),
        None => Line::raw(out::plain(&keys.said).replace('\n', " ")),
    };
    frame.render_widget(Paragraph::new(said), foot);
    frame.render_widget(Paragraph::new(hint), hints);
    if keys.helps {
        draw_help(frame);
    }
    fit(frame.buffer_mut(), look);
}
/// The state of a run in a word, and what there is to say beside it.
pub struct StateShown {
    pub word: String,
    pub more: String,
    pub colour: Color,
}
impl StateShown {
    pub fn of(seen: &SeenRun, link: &LinkState) -> StateShown {
        let folder = out::plain(&seen.folder.to_string_lossy()).into_owned();
        let shown = |word: &str, more: String, colour| StateShown { word: word.into(), more, colour };
        if let Some(status) = &link.status {
            let colour = if status.state == "paused" { Color::Yellow } else { Color::Green };
            let ends = if status.stops_after_epoch { ", ends behind this epoch" } else { "" };
            return shown(&status.state, format!("{folder}  epoch {}{ends}  process {}", status.epoch, status.pid), colour);
        }
        if let Some(result) = seen.result() {
            let why = result["stopped"].as_str().map_or_else(String::new, |why| format!("  {}", out::plain(why)));
            return shown("ended", format!("{folder}{why}"), Color::Cyan);
        }
        if link.why.is_none() {
            return shown("asking", folder, Color::Reset);
        }
        shown("not running", format!("{folder}  `--resume {folder}` goes on with it"), Color::Red)
    }
}
fn draw_progress(frame: &mut Frame<'_>, area: Rect, seen: &SeenRun, link: &LinkState) {
    let done = link.status.as_ref().map_or(seen.metrics.step, |status| status.step);
    let steps = link.status.as_ref().map(|status| status.steps).or_else(|| seen.result()?["steps"].as_u64());
    let rows = seen.machine.rows.last().filter(|_| link.status.is_some()).map_or_else(String::new, |(_, v)| format!("  {} rows/s", figure(Some(v))));
    match steps.filter(|steps| *steps > 0) {
        Some(steps) => {
            let ratio = (done as f64 / steps as f64).clamp(0.0, 1.0);
            let filled = Style::new().fg(Color::Cyan);
            let gauge = LineGauge::default().ratio(ratio).filled_style(filled).label(format!("step {done} of {steps}{rows}"));
            frame.render_widget(gauge, area);
        }
        None => frame.render_widget(Paragraph::new(format!("step {done}{rows}")), area),
    }
}
fn draw_help(frame: &mut Frame<'_>) {
    let all = frame.area();
    let (width, height) = (all.width.min(58), all.height.min(10));
    let area = Rect { x: all.x + (all.width - width) / 2, y: all.y + (all.height - height) / 2, width, height };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP).wrap(Wrap { trim: false }).block(Block::bordered().title(" Keys ")), area);
}
/// Takes from the screen what the terminal is not to get: colours, characters beyond ASCII.
fn fit(buffer: &mut Buffer, look: ScreenLook) {
    for cell in &mut buffer.content {
        if !look.colours {
            (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
        }
        if look.ascii && !cell.symbol().is_ascii() {
            let plain = match cell.symbol() {
                "─" | "━" | "═" => "-",
                "│" | "┃" => "|",
                "┌" | "┐" | "└" | "┘" | "├" | "┤" | "┬" | "┴" | "┼" => "+",
                "×" => "x",
                "↑" => "^",
                "↓" => "v",
                "\u{2800}" => " ",
                "▁" | "▂" => "_",
                "▃" | "▄" | "▅" => "=",
                "▆" | "▇" | "█" => "#",
                "•" => "o",
                "–" => "-",
                // Braille: what curves are drawn with.
                other if other.chars().all(|c| ('\u{2801}'..='\u{28ff}').contains(&c)) => "*",
                _ => "?",
            };
            cell.set_symbol(plain);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use ratatui::{Terminal, backend::TestBackend};
    use std::fs;

    /// A run with something for each panel.
    fn run() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let mut metrics = String::new();
        let mut timing = String::new();
        for step in 1..=200 {
            metrics += &format!("{{\"kind\":\"step\",\"step\":{step},\"epoch\":1,\"loss\":{},\"lr\":0.1,\"grad_norm\":1}}\n", 1.0 / f64::from(step));
            timing += &format!("{{\"kind\":\"step\",\"step\":{step},\"rows_per_second\":100,\"loader_wait_seconds\":0.1,\"rss_bytes\":{}}}\n", 1000 * step);
        }
        metrics += "{\"kind\":\"layers\",\"step\":200,\"epoch\":1,\"layers\":[{\"layer\":\"0.tief\",\"op\":\"matmul\",\"largest\":1,\"mean\":0.5,\"zeros\":0,\"dead\":null,\"saturated\":0.25}],\"parameters\":[{\"parameter\":\"0.weight\",\"gradient\":null,\"weight\":2,\"update\":1e-9}]}\n";
        metrics += "{\"kind\":\"epoch\",\"step\":200,\"epoch\":1,\"loss\":0.1,\"lr\":0.1,\"valid\":{\"loss\":0.2}}\n";
        fs::write(folder.path().join("metrics.jsonl"), metrics).unwrap();
        fs::write(folder.path().join("timing.jsonl"), timing).unwrap();
        fs::write(
            folder.path().join("incidents.jsonl"),
            "{\"step\":3,\"epoch\":1,\"handling\":\"stop\",\"origin\":{\"kind\":\"NaN\",\"op\":{\"op\":\"log\",\"layer\":\"0\"}}}\n{}\n",
        )
        .unwrap();
        folder
    }
    fn drawn(seen: &SeenRun, look: ScreenLook, keys: &mut ViewerKeys, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let dead = LinkState { status: None, why: Some("it is not running".into()) };
        terminal.draw(|frame| draw(frame, look, seen, &dead, keys)).unwrap();
        let buffer = terminal.backend().buffer();
        assert!(look.colours || buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
        buffer.content.chunks(usize::from(width).max(1)).map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }
    #[test]
    fn a_terminal_of_a_size_that_ends_the_viewer() {
        let folder = run();
        let mut full = SeenRun::of(folder.path());
        full.read_all().unwrap();
        let empty = tempfile::tempdir().unwrap();
        for seen in [&full, &SeenRun::of(empty.path())] {
            for size in [(200, 60), (80, 24), (79, 23), (40, 12), (20, 6), (10, 3), (3, 10), (1, 1), (2, 1), (1, 40), (300, 1)] {
                for panel in 0..PANELS.len() {
                    for (helps, colours, ascii) in [(false, true, false), (true, false, true)] {
                        let mut keys = ViewerKeys { panel, helps, scrolled: 1000, said: "x".repeat(500), ..ViewerKeys::default() };
                        let text = drawn(seen, ScreenLook { colours, ascii }, &mut keys, size);
                        assert!(!ascii || text.is_ascii(), "{size:?} {panel}: {text}");
                    }
                }
            }
        }
    }
    #[test]
    fn a_panel_that_does_not_show_what_it_is_for() {
        let folder = run();
        let mut seen = SeenRun::of(folder.path());
        seen.read_all().unwrap();
        let look = ScreenLook { colours: true, ascii: false };
        for (panel, says) in [
            (0, &["not running", "step 200", "training", "validation", "rate"][..]),
            (1, &["0.tief", "matmul", "0.weight", "1.000e-9"]),
            (2, &["step 3", "NaN", "log"]),
            (3, &["rows/s", "100.0", "195 KiB", "loader"]),
            (4, &["epoch 1: loss 0.1000, valid loss 0.2000"]),
        ] {
            let text = drawn(&seen, look, &mut ViewerKeys { panel, ..ViewerKeys::default() }, (80, 24));
            says.iter().for_each(|part| assert!(text.contains(part), "{part} in\n{text}"));
        }
        let text = drawn(&seen, look, &mut ViewerKeys { helps: true, ..ViewerKeys::default() }, (80, 24));
        assert!(text.contains("pauses the run, or resumes it"), "{text}");
    }
}
