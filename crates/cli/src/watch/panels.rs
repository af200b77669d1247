//! The panels: curves, layers, incidents, the machine, the diary.
use super::{
    curve::SeenCurve,
    screen::ScreenLook,
    seen::{SeenRun, bytes_text, figure, valid_text},
};
use crate::out;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    symbols::Marker,
    text::{Line, Span},
    widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Row, Sparkline, Table, Wrap},
};
use serde_json::Value;

/// A curve with its name and colour.
type NamedCurve<'a> = (&'a str, &'a SeenCurve, Color);

/// Training and validation loss, and the rate below them.
pub fn curves(frame: &mut Frame<'_>, area: Rect, seen: &SeenRun, look: ScreenLook) {
    let m = &seen.metrics;
    let told_lines = if area.height > 12 && (m.last_valid.is_some() || m.test.is_some()) { 2 } else { 1 };
    let [line, above, below] = Layout::vertical([Constraint::Length(told_lines), Constraint::Fill(2), Constraint::Fill(1)]).areas(area);
    let last = |curve: &SeenCurve| figure(curve.last().map(|(_, v)| v));
    let mut told = format!("loss {}  rate {}  gradient norm {}", last(&m.loss), last(&m.rate), last(&m.norm));
    let between = if told_lines == 2 { "\n" } else { "  " };
    m.last_valid.iter().for_each(|valid| told += &format!("{between}valid {}", valid_text(valid)));
    m.test.iter().for_each(|test| told += &format!("{}test {}", if m.last_valid.is_some() { "  " } else { between }, valid_text(test)));
    frame.render_widget(Paragraph::new(told), line);
    // Of a run that logs no steps the epochs are what there is.
    let training = if m.loss.last().is_some() { &m.loss } else { &m.epoch_loss };
    draw_chart(frame, above, "loss", &[("training", training, Color::Cyan), ("validation", &m.valid, Color::Yellow)], look);
    draw_chart(frame, below, "rate", &[("rate", &m.rate, Color::Green)], look);
}
/// Curves over one range of steps.
fn draw_chart(frame: &mut Frame<'_>, area: Rect, title: &str, curves: &[NamedCurve<'_>], look: ScreenLook) {
    // The terminal may be too small for a legend: the title is one.
    let mut legend = vec![Span::raw(format!(" {title}"))];
    for (k, (name, _, colour)) in curves.iter().enumerate().filter(|(_, (_, curve, _))| curves.len() > 1 && curve.last().is_some()) {
        legend.push(Span::styled(format!(" {} {name}", if k == 0 { "⠒" } else { "•" }), Style::new().fg(*colour)));
    }
    legend.push(Span::raw(" "));
    let block = Block::bordered().title(Line::from(legend));
    let all: Vec<(&str, Vec<(f64, f64)>, Color)> =
        curves.iter().map(|(name, curve, colour)| (*name, curve.points(), *colour)).filter(|(_, points, _)| !points.is_empty()).collect();
    let range = |values: &mut dyn Iterator<Item = f64>| values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), v| (least.min(v), most.max(v)));
    let (first, last) = range(&mut all.iter().flat_map(|(_, points, _)| points.iter().map(|p| p.0)));
    let (least, most) = range(&mut all.iter().flat_map(|(_, points, _)| points.iter().map(|p| p.1)));
    if all.is_empty() || !(least.is_finite() && most.is_finite()) {
        frame.render_widget(Paragraph::new("no line yet").block(block), area);
        return;
    }
    // A curve that does not move is drawn in the middle.
    let margin = if most > least { 0.0 } else { (most.abs() / 2.0).max(f64::MIN_POSITIVE) };
    let (low, high) = (least - margin, most + margin);
    let end = if last > first { last } else { first + 1.0 };
    let datasets = all.iter().enumerate().map(|(k, (name, points, colour))| {
        // Without colours, curves differ in what they are drawn with.
        let marker = if k == 0 { Marker::Braille } else { Marker::Dot };
        let shape = if points.len() == 1 || k > 0 && !look.colours { GraphType::Scatter } else { GraphType::Line };
        Dataset::default().name(*name).marker(marker).graph_type(shape).style(Style::new().fg(*colour)).data(points)
    });
    let x = Axis::default().bounds([first, end]).labels([format!("{first:.0}"), format!("step {last:.0}")]);
    // Of a rate that has hardly moved four digits would say nothing.
    let label = |v: f64| if figure(Some(low)) == figure(Some(high)) { format!("{v:.6e}") } else { figure(Some(v)) };
    let y = Axis::default().bounds([low, high]).labels([label(low), label((low + high) / 2.0), label(high)]);
    frame.render_widget(Chart::new(datasets.collect()).block(block).x_axis(x).y_axis(y).legend_position(None), area);
}

/// What layers gave and what became of parameters, in the last look at them.
pub fn layers(frame: &mut Frame<'_>, area: Rect, seen: &SeenRun, scrolled: &mut usize) {
    let Some(line) = &seen.metrics.layers else {
        let text = "no line of kind `layers`: `stability.look_every = 100` in the description, or Trainer::look_every, looks at layers each 100 steps";
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }).block(Block::bordered().title(" layers ")), area);
        return;
    };
    let list = |of: &str| line[of].as_array().cloned().unwrap_or_default();
    let (layers, parameters) = (list("layers"), list("parameters"));
    let text = |of: &Value, key: &str| out::plain(of[key].as_str().unwrap_or("-")).into_owned();
    let number = |of: &Value, key: &str| figure(of[key].as_f64());
    let share = |of: &Value, key: &str| of[key].as_f64().map_or_else(|| "-".into(), |v| format!("{:.1} %", 100.0 * v));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let [above, below] = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
    *scrolled = (*scrolled).min(layers.len().max(parameters.len()).saturating_sub(1));
    let rows = layers.iter().skip(*scrolled).map(|l| {
        let op = text(l, "op");
        Row::new([
            text(l, "layer"),
            op.strip_prefix("adamant.").unwrap_or(&op).to_string(),
            number(l, "largest"),
            number(l, "mean"),
            share(l, "zeros"),
            share(l, "dead"),
            share(l, "saturated"),
        ])
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(9),
    ];
    let head = Row::new(["layer", "op", "largest", "mean |x|", "zeros", "dead", "saturated"]).style(bold);
    let title = format!(" layers after step {} ", line["step"].as_u64().unwrap_or(0));
    frame.render_widget(Table::new(rows, widths).header(head).block(Block::bordered().title(title)), above);
    let rows = parameters.iter().skip(*scrolled).map(|p| {
        let ratio = p["update"].as_f64().zip(p["weight"].as_f64()).map(|(update, weight)| update / weight);
        Row::new([text(p, "parameter"), number(p, "gradient"), number(p, "weight"), number(p, "update"), figure(ratio.filter(|r| r.is_finite()))])
    });
    let widths = [Constraint::Fill(1), Constraint::Length(10), Constraint::Length(10), Constraint::Length(10), Constraint::Length(10)];
    let head = Row::new(["parameter", "|gradient|", "|weight|", "|update|", "update/w"]).style(bold);
    frame.render_widget(Table::new(rows, widths).header(head).block(Block::bordered().title(" parameters ")), below);
}

/// Steps whose numbers were bad.
pub fn incidents(frame: &mut Frame<'_>, area: Rect, seen: &SeenRun, scrolled: &mut usize) {
    let block = Block::bordered().title(format!(" incidents: {} ", seen.incidents.len()));
    if seen.incidents.is_empty() {
        frame.render_widget(Paragraph::new("none: no step had numbers that are not finite").block(block), area);
        return;
    }
    *scrolled = (*scrolled).min(seen.incidents.len() - 1);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let lines: Vec<Line<'_>> = seen
        .incidents
        .iter()
        .rev()
        .skip(*scrolled)
        .flat_map(|incident| {
            let [first, second] = incident_text(incident);
            [Line::from(Span::styled(first, bold)), Line::raw(format!("  {second}"))]
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}
/// What happened, and where it comes from.
pub fn incident_text(incident: &Value) -> [String; 2] {
    let word = |of: &Value| of.as_str().map(|text| out::plain(text).into_owned());
    let origin = &incident["origin"];
    let op = &origin["op"];
    let what = word(&origin["kind"]).unwrap_or_else(|| "numbers that are not finite".into());
    let handled = word(&incident["handling"]).map_or_else(String::new, |by| format!(", handled by `{by}`"));
    let first = format!("step {} (epoch {}): {what}{handled}", incident["step"].as_u64().unwrap_or(0), incident["epoch"].as_u64().unwrap_or(0));
    let bad = incident["records"].as_array().map_or(0, |records| records.iter().filter(|r| r["finite"] == Value::Bool(false)).count());
    let mut parts: Vec<String> = Vec::new();
    parts.extend(word(&op["op"]).map(|op| format!("made by {op}")));
    parts.extend(word(&op["layer"]).filter(|layer| !layer.is_empty()).map(|layer| format!("in layer {layer}")));
    parts.extend(word(&origin["phase"]).map(|phase| format!("({phase})")));
    parts.extend((bad > 0).then(|| format!("{bad} records of the batch are not finite")));
    [first, if parts.is_empty() { "no origin was found".into() } else { parts.join(" ") }]
}

/// Rows in a second, memory, waiting for data.
pub fn machine(frame: &mut Frame<'_>, area: Rect, seen: &SeenRun) {
    let m = &seen.machine;
    let [rows, memory, wait] = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
    let last = |curve: &SeenCurve| curve.last().map(|(_, v)| v);
    let speed = format!(" rows/s: {} ", figure(last(&m.rows)));
    draw_bars(frame, rows, speed, &m.rows, Color::Cyan);
    let resident = format!(" memory of the process: {} ", last(&m.memory).map_or_else(|| "-".into(), bytes_text));
    draw_bars(frame, memory, resident, &m.memory, Color::Magenta);
    let waits = format!(" the loader was waited for, seconds between two lines: {} ", figure(last(&m.wait)));
    draw_bars(frame, wait, waits, &m.wait, Color::Yellow);
}
fn draw_bars(frame: &mut Frame<'_>, area: Rect, title: String, curve: &SeenCurve, colour: Color) {
    let newest = curve.newest(usize::from(area.width.saturating_sub(2)));
    let most = newest.iter().copied().fold(0.0, f64::max);
    let data: Vec<u64> = newest.iter().map(|v| if most > 0.0 { (1000.0 * v / most).max(0.0) as u64 } else { 0 }).collect();
    frame.render_widget(Sparkline::default().block(Block::bordered().title(title)).data(data).max(1000).style(Style::new().fg(colour)), area);
}

/// What happened, newest first: epochs, checkpoints, alerts, what was asked for.
pub fn diary(frame: &mut Frame<'_>, area: Rect, seen: &SeenRun, scrolled: &mut usize) {
    let step_of = |line: &&String| line.trim_start().split(' ').next().and_then(|step| step.parse::<u64>().ok()).unwrap_or(0);
    let mut notes: Vec<&String> = seen.metrics.notes.iter().chain(&seen.machine.notes).chain(&seen.alerts).rev().collect();
    notes.sort_by_key(|line| std::cmp::Reverse(step_of(line)));
    *scrolled = (*scrolled).min(notes.len().saturating_sub(1));
    let lines: Vec<Line<'_>> = notes.iter().skip(*scrolled).map(|line| Line::raw(line.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" step, what happened ")), area);
}
