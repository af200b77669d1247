//! What keys do. Nothing here asks the run: a request is given back.
use super::link::LinkState;
use adamant_train::control::ControlRequest;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The panels, in the order of their numbers.
pub const PANELS: [&str; 5] = ["Curves", "Layers", "Incidents", "Machine", "Diary"];
/// What `r` multiplies the rate by.
const FACTOR: f64 = 0.5;

/// What is shown, and what was pressed.
#[derive(Default)]
pub struct ViewerKeys {
    pub panel: usize,
    /// lines that a panel was scrolled by; the panel bounds it by what it has
    pub scrolled: usize,
    pub helps: bool,
    /// waits for a yes
    pub asks: Option<ControlRequest>,
    /// the last answer
    pub said: String,
    pub leaves: bool,
}
impl ViewerKeys {
    /// Takes an event; gives what the run is to be asked for.
    pub fn press(&mut self, event: &Event, state: &LinkState) -> Option<ControlRequest> {
        let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else { return None };
        if *code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL) {
            self.leaves = true;
            return None;
        }
        if let Some(request) = self.asks.take() {
            if matches!(code, KeyCode::Char('y' | 'Y')) {
                return Some(request);
            }
            self.said = "nothing was asked for".into();
            return None;
        }
        if std::mem::take(&mut self.helps) {
            return None;
        }
        match code {
            KeyCode::Char('q') | KeyCode::Esc => self.leaves = true,
            KeyCode::Char('?' | 'h') => self.helps = true,
            KeyCode::Tab | KeyCode::Right => self.turn_to(self.panel + 1),
            KeyCode::BackTab | KeyCode::Left => self.turn_to(self.panel + PANELS.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => self.turn_to((*digit as usize) - ('1' as usize)),
            KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scrolled = self.scrolled.saturating_add(1),
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(10),
            KeyCode::PageDown => self.scrolled = self.scrolled.saturating_add(10),
            KeyCode::Home => self.scrolled = 0,
            KeyCode::Char(letter @ ('c' | 'p' | 'r' | 'e')) => return self.action(*letter, state),
            _ => {}
        }
        None
    }
    fn turn_to(&mut self, panel: usize) {
        (self.panel, self.scrolled) = (panel % PANELS.len(), 0);
    }
    fn action(&mut self, letter: char, state: &LinkState) -> Option<ControlRequest> {
        let Some(status) = &state.status else {
            self.said = state.why.clone().unwrap_or_else(|| "the run has not answered yet".into());
            return None;
        };
        match letter {
            'c' => Some(ControlRequest::Checkpoint),
            'p' if status.state == "paused" => Some(ControlRequest::Resume),
            'p' => Some(ControlRequest::Pause),
            'e' => {
                self.asks = Some(ControlRequest::StopAfterEpoch);
                None
            }
            _ => {
                self.asks = Some(ControlRequest::Rate { factor: FACTOR });
                None
            }
        }
    }
    /// The question that waits for a yes.
    pub fn question(&self) -> Option<String> {
        Some(match self.asks.as_ref()? {
            ControlRequest::Rate { factor } => format!("the rate × {factor} from the next step on, for good? y/n"),
            _ => "end the run behind this epoch? y/n".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn state(of: &str) -> LinkState {
        let status = serde_json::json!({ "step": 1, "steps": 2, "epoch": 1, "state": of, "stops_after_epoch": false, "pid": 1 });
        LinkState { status: Some(serde_json::from_value(status).unwrap()), why: None }
    }
    #[test]
    fn a_key_that_does_something_else() {
        let rate = ControlRequest::Rate { factor: 0.5 };
        let cases: [(&str, &str, &[ControlRequest], usize, bool); 12] = [
            ("c", "training", &[ControlRequest::Checkpoint], 0, false),
            ("p", "training", &[ControlRequest::Pause], 0, false),
            ("p", "paused", &[ControlRequest::Resume], 0, false),
            ("r", "training", &[], 0, false),
            ("ry", "training", &[rate], 0, false),
            ("rn", "training", &[], 0, false),
            ("rq", "training", &[], 0, false),
            ("rccq", "training", &[ControlRequest::Checkpoint], 0, true),
            ("ey", "training", &[ControlRequest::StopAfterEpoch], 0, false),
            ("35", "training", &[], 4, false),
            ("?q", "training", &[], 0, false),
            ("?qq", "training", &[], 0, true),
        ];
        for (pressed, of, want, panel, leaves) in cases {
            let mut keys = ViewerKeys::default();
            let press = |key: char| keys.press(&Event::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE)), &state(of));
            let asked: Vec<ControlRequest> = pressed.chars().filter_map(press).collect();
            assert_eq!((&*asked, keys.panel, keys.leaves), (want, panel, leaves), "{pressed}");
        }
        // Of a run that is not running nothing is asked, and that is said.
        let mut keys = ViewerKeys::default();
        for key in ['c', 'p', 'r', 'e', 'y'] {
            assert_eq!(keys.press(&Event::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE)), &LinkState::default()), None);
        }
        assert_eq!(keys.said, "the run has not answered yet");
        assert_eq!(keys.press(&Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), &LinkState::default()), None);
        assert!(keys.leaves);
    }
}
