//! What a run can be asked for, and how it stands in a line.
use super::{Breakpoint, ElementPlace, breakpoint::phase_of};
use crate::{
    Failure,
    failure::shown,
    folder::{any_number, number, read_number},
};
use serde_json::{Map, Value, json};

/// What a run can be asked for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ControlRequest {
    /// where it is
    Status,
    /// a checkpoint of now
    Checkpoint,
    /// no more steps until it is resumed
    Pause,
    /// goes on after a pause
    Resume,
    /// the learning rate times a factor, for all that follows
    Rate {
        /// finite and above 0
        factor: f64,
    },
    /// the next step is recorded: what ran in it, when, for how long
    Profile,
    /// the end behind the epoch
    StopAfterEpoch,
    /// a checkpoint and the end
    Stop,
    /// stops where this is met
    Break(Breakpoint),
    /// one breakpoint less, or all
    Unbreak {
        /// its number; none: all of this client
        breakpoint: Option<u64>,
    },
    /// where it is stopped, and what can be looked at
    Where,
    /// figures of a value
    Look {
        /// its name
        of: String,
    },
    /// elements of a value
    Slice {
        /// its name
        of: String,
        /// which
        at: ElementPlace,
    },
    /// elements become a number
    Set {
        /// the value's name
        of: String,
        /// which
        at: ElementPlace,
        /// the number; NaN and infinities too
        value: f64,
    },
    /// goes on to the next op, layer or step, and stops there
    Next {
        /// what
        of: NextStop,
    },
    /// goes on
    Continue,
}
/// Where a run that goes on stops again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStop {
    /// behind the next op, or what its rule makes of gradients
    Op,
    /// behind the first op of another layer
    Layer,
    /// before the next step
    Step,
}
const STOPS: [(NextStop, &str); 3] = [(NextStop::Op, "op"), (NextStop::Layer, "layer"), (NextStop::Step, "step")];
impl NextStop {
    /// Its word in the protocol.
    pub fn name(self) -> &'static str {
        STOPS.iter().find(|(stop, _)| *stop == self).map_or("", |(_, name)| name)
    }
}
impl ControlRequest {
    /// Its word in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            ControlRequest::Status => "status",
            ControlRequest::Checkpoint => "checkpoint",
            ControlRequest::Pause => "pause",
            ControlRequest::Resume => "resume",
            ControlRequest::Rate { .. } => "rate",
            ControlRequest::Profile => "profile",
            ControlRequest::StopAfterEpoch => "stop_after_epoch",
            ControlRequest::Stop => "stop",
            ControlRequest::Break(_) => "break",
            ControlRequest::Unbreak { .. } => "unbreak",
            ControlRequest::Where => "where",
            ControlRequest::Look { .. } => "look",
            ControlRequest::Slice { .. } => "slice",
            ControlRequest::Set { .. } => "set",
            ControlRequest::Next { .. } => "next",
            ControlRequest::Continue => "continue",
        }
    }
    /// Is it of somebody who debugs the run? Breakpoints belong to the connection that set them, so such requests share one.
    pub fn debugs(&self) -> bool {
        use ControlRequest::{Break, Continue, Look, Next, Set, Slice, Unbreak, Where};
        matches!(self, Break(_) | Unbreak { .. } | Where | Look { .. } | Slice { .. } | Set { .. } | Next { .. } | Continue)
    }
    /// The request as the protocol has it.
    ///
    /// ```
    /// use adamant_train::control::ControlRequest;
    /// let request = ControlRequest::Rate { factor: 0.5 };
    /// assert_eq!(request.to_json().to_string(), r#"{"do":"rate","factor":0.5}"#);
    /// assert_eq!(ControlRequest::parse(br#"{"do": "rate", "factor": 0.5}"#)?, request);
    /// # Ok::<(), adamant_train::Failure>(())
    /// ```
    pub fn to_json(&self) -> Value {
        let mut request = json!({ "do": self.name() });
        match self {
            ControlRequest::Rate { factor } => request["factor"] = number(*factor),
            ControlRequest::Break(breakpoint) => {
                if let (Value::Object(into), Ok(Value::Object(fields))) = (&mut request, serde_json::to_value(breakpoint)) {
                    into.extend(fields);
                }
            }
            ControlRequest::Unbreak { breakpoint: Some(breakpoint) } => request["breakpoint"] = json!(breakpoint),
            ControlRequest::Look { of } => request["of"] = json!(of),
            ControlRequest::Slice { of, at } => (request["of"], request["at"]) = (json!(of), json!(at)),
            ControlRequest::Set { of, at, value } => (request["of"], request["at"], request["value"]) = (json!(of), json!(at), any_number(*value)),
            ControlRequest::Next { of } => request["of"] = json!(of.name()),
            _ => {}
        }
        request
    }
    /// Reads a line of the protocol.
    ///
    /// # Errors
    /// `Usage`: it is no JSON object, asks for something that there is not, says too much or too little, or has a factor that no rate can be
    /// multiplied by.
    pub fn parse(line: &[u8]) -> Result<ControlRequest, Failure> {
        let refuse = |what: String| Err(Failure::Usage(format!("{what}; a request is a line such as {{\"do\": \"status\"}}")));
        let fields = match serde_json::from_slice::<Value>(line) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return refuse("no JSON object".into()),
            Err(e) => return refuse(format!("no JSON: {e}")),
        };
        let Some(word) = fields.get("do").and_then(Value::as_str) else { return refuse("`do` is missing, or no text".into()) };
        let Some((_, takes)) = WORDS.iter().find(|(known, _)| *known == word) else {
            let known = WORDS.map(|(known, _)| known).join(", ");
            return refuse(format!("`{}` is nothing that a run can be asked for: {known}", shown(word)));
        };
        if let Some(key) = fields.keys().find(|key| *key != "do" && !takes.contains(&key.as_str())) {
            return refuse(format!("`{word}` takes no `{}`", shown(key)));
        }
        match request_of(word, &fields) {
            Ok(request) => Ok(request),
            Err(what) => refuse(what),
        }
    }
    /// The learning rate times a factor.
    ///
    /// # Errors
    /// `Usage`: the factor is not finite, or not above 0.
    pub fn rate(factor: f64) -> Result<ControlRequest, Failure> {
        factor_of(factor).map_err(Failure::Usage)
    }
}
fn factor_of(factor: f64) -> Result<ControlRequest, String> {
    match factor.is_finite() && factor > 0.0 {
        true => Ok(ControlRequest::Rate { factor }),
        false => Err(format!("a rate cannot be multiplied by {factor}: take a finite number above 0")),
    }
}
/// The words of the protocol, and what each takes.
const WORDS: [(&str, &[&str]); 16] = [
    ("status", &[]),
    ("checkpoint", &[]),
    ("pause", &[]),
    ("resume", &[]),
    ("rate", &["factor"]),
    ("profile", &[]),
    ("stop_after_epoch", &[]),
    ("stop", &[]),
    ("break", &["step", "layer", "op", "phase", "when"]),
    ("unbreak", &["breakpoint"]),
    ("where", &[]),
    ("look", &["of"]),
    ("slice", &["of", "at"]),
    ("set", &["of", "at", "value"]),
    ("next", &["of"]),
    ("continue", &[]),
];
/// The request of a word that takes these fields.
fn request_of(word: &str, fields: &Map<String, Value>) -> Result<ControlRequest, String> {
    let text = |key: &str| match fields.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{key}` is no text")),
    };
    let whole = |key: &str| match fields.get(key) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| format!("`{key}` is no whole number")),
    };
    let needed = |key: &str| text(key)?.ok_or_else(|| format!("`{key}` is missing"));
    let place = || text("at")?.map_or_else(|| Ok(ElementPlace::default()), |at| at.parse());
    Ok(match word {
        "status" => ControlRequest::Status,
        "checkpoint" => ControlRequest::Checkpoint,
        "pause" => ControlRequest::Pause,
        "resume" => ControlRequest::Resume,
        "rate" => factor_of(fields.get("factor").and_then(Value::as_f64).ok_or("`factor` is missing, or no number")?)?,
        "profile" => ControlRequest::Profile,
        "stop_after_epoch" => ControlRequest::StopAfterEpoch,
        "stop" => ControlRequest::Stop,
        "break" => {
            let (phase, when) = (text("phase")?.map(|p| phase_of(&p)).transpose()?, text("when")?.map(|w| w.parse()).transpose()?);
            let breakpoint = Breakpoint { step: whole("step")?, layer: text("layer")?, op: text("op")?, phase, when };
            match breakpoint {
                Breakpoint { step: Some(0), .. } => return Err("`step` counts from 1".into()),
                _ if breakpoint == Breakpoint::default() => return Err("`break` needs one of `step`, `layer`, `op`, `phase`, `when`".into()),
                _ => ControlRequest::Break(breakpoint),
            }
        }
        "unbreak" => ControlRequest::Unbreak { breakpoint: whole("breakpoint")? },
        "where" => ControlRequest::Where,
        "look" => ControlRequest::Look { of: needed("of")? },
        "slice" => ControlRequest::Slice { of: needed("of")?, at: place()? },
        "set" => {
            let value = fields.get("value").and_then(read_number).ok_or("`value` is missing, or no number")?;
            if !fields.contains_key("at") {
                return Err("`at` is missing: it says which elements, `:` all".into());
            }
            ControlRequest::Set { of: needed("of")?, at: place()?, value }
        }
        "next" => {
            let of = needed("of")?;
            let stop = STOPS.iter().find(|(_, name)| *name == of).ok_or_else(|| format!("`{}` is nothing to stop at: op, layer or step", shown(&of)))?;
            ControlRequest::Next { of: stop.0 }
        }
        _ => ControlRequest::Continue,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use adamant_stability::StepPhase;

    #[test]
    fn a_line_that_is_taken_for_a_request() {
        for (line, says) in [
            ("", "no JSON:"),
            ("{\"do\":", "no JSON:"),
            ("\u{0}\u{1}\u{2}", "no JSON:"),
            ("[]", "no JSON object"),
            ("\"pause\"", "no JSON object"),
            ("{}", "`do` is missing"),
            ("{\"do\": 3}", "`do` is missing"),
            ("{\"do\": \"paus\"}", "`paus` is nothing that a run can be asked for"),
            ("{\"do\": \"rate\"}", "`factor` is missing"),
            ("{\"do\": \"rate\", \"factor\": \"x\"}", "`factor` is missing"),
            ("{\"do\": \"rate\", \"factor\": 0}", "a rate cannot be multiplied by 0:"),
            ("{\"do\": \"rate\", \"factor\": -0.5}", "a rate cannot be multiplied by -0.5:"),
            ("{\"do\": \"rate\", \"factor\": 1e999}", "no JSON:"),
            ("{\"do\": \"pause\", \"factor\": 1}", "`pause` takes no `factor`"),
            ("{\"do\": \"rate\", \"factor\": 1, \"of\": 2}", "`rate` takes no `of`"),
            ("{\"do\": \"break\"}", "`break` needs one of"),
            ("{\"do\": \"break\", \"step\": 0}", "`step` counts from 1"),
            ("{\"do\": \"break\", \"step\": -1}", "`step` is no whole number"),
            ("{\"do\": \"break\", \"layer\": 3}", "`layer` is no text"),
            ("{\"do\": \"break\", \"phase\": \"data\"}", "`data` is no part of a step"),
            ("{\"do\": \"break\", \"when\": \"big\"}", "`big` is no condition"),
            ("{\"do\": \"look\"}", "`of` is missing"),
            ("{\"do\": \"slice\", \"of\": \"x\", \"at\": \"a\"}", "`a` is no place"),
            ("{\"do\": \"set\", \"of\": \"x\", \"at\": \"0\"}", "`value` is missing"),
            ("{\"do\": \"set\", \"of\": \"x\", \"value\": 1}", "`at` is missing"),
            ("{\"do\": \"set\", \"of\": \"x\", \"at\": \"0\", \"value\": \"big\"}", "`value` is missing, or no number"),
            ("{\"do\": \"next\", \"of\": \"epoch\"}", "`epoch` is nothing to stop at"),
        ] {
            let failure = ControlRequest::parse(line.as_bytes()).unwrap_err();
            assert!(failure.exit_code() == 2 && failure.to_string().starts_with(says), "{line}: {failure}");
        }
        let deep = "[".repeat(4000);
        assert!(ControlRequest::parse(deep.as_bytes()).is_err());
    }
    #[test]
    fn a_request_that_does_not_come_back_from_its_line() {
        let all = [
            ControlRequest::Status,
            ControlRequest::Checkpoint,
            ControlRequest::Pause,
            ControlRequest::Resume,
            ControlRequest::Rate { factor: 0.1 + 0.2 },
            ControlRequest::Profile,
            ControlRequest::StopAfterEpoch,
            ControlRequest::Stop,
            ControlRequest::Break(Breakpoint { step: Some(12), ..Breakpoint::default() }),
            ControlRequest::Break(Breakpoint {
                step: None,
                layer: Some("fc*".into()),
                op: Some("matmul".into()),
                phase: Some(StepPhase::Backward),
                when: Some("absmax > 1e4".parse().unwrap()),
            }),
            ControlRequest::Unbreak { breakpoint: None },
            ControlRequest::Unbreak { breakpoint: Some(3) },
            ControlRequest::Where,
            ControlRequest::Look { of: "fc1.weight".into() },
            ControlRequest::Slice { of: "out.0".into(), at: "0, -3:".parse().unwrap() },
            ControlRequest::Set { of: "out.0".into(), at: ":".parse().unwrap(), value: f64::NEG_INFINITY },
            ControlRequest::Set { of: "in.0".into(), at: "".parse().unwrap(), value: 0.1 + 0.2 },
            ControlRequest::Next { of: NextStop::Layer },
            ControlRequest::Continue,
        ];
        for request in all {
            assert_eq!(ControlRequest::parse(request.to_json().to_string().as_bytes()).unwrap(), request);
        }
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(ControlRequest::rate(factor).is_err(), "{factor}");
        }
    }
}
