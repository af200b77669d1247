//! Programs beside PyTorch, without PyTorch: `programs.json` is a slice of a campaign with its answers, a program and an
//! answer a line, which `cargo xtask programs --write` wrote.
#![allow(clippy::unwrap_used, clippy::panic)]
use adamant_conformance::programs::{TorchAnswer, TorchProgram, campaign::Campaign, plants::Plant, registered, replay, table::TorchFunction};
use adamant_core::Device;

fn slice() -> Vec<(TorchProgram, TorchAnswer)> {
    include_str!("programs.json").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
fn campaign(functions: &[TorchFunction]) -> Campaign {
    let known = replay::known(functions);
    let mut campaign = Campaign::default();
    Device::reference().scoped(|| {
        for (program, answer) in slice() {
            let compared = replay::compare(&program, &answer, &known);
            campaign.add(&program, &answer, &compared, replay::flow(&program, &answer, &known, &compared));
        }
    });
    campaign
}

#[test]
fn each_call_is_pytorchs_or_differs_by_name() {
    let campaign = campaign(&registered::functions());
    let texts: Vec<&str> = campaign.failures.iter().map(|f| f.text.as_str()).collect();
    assert!(texts.is_empty(), "{texts:#?}");
    let total = campaign.total();
    assert!(campaign.programs >= 50 && total.same >= 300, "{total:?}");
    // A function that is called otherwise by now says nothing: few may be so, until the slice is written anew.
    assert!(total.unknown * 10 < total.same, "{:?}: write the slice anew", campaign.unknown());
    assert!(campaign.gradients >= 30, "{}", campaign.gradients);
}
#[test]
fn planted_faults_are_found() {
    for plant in Plant::ALL {
        let mut functions = registered::functions();
        plant.into_functions(&mut functions);
        assert!(!campaign(&functions).failures.is_empty(), "{plant:?} is not found");
    }
}
#[test]
fn every_difference_has_a_name_of_its_own_and_a_reason() {
    let lines = adamant_conformance::programs::differences::LINES;
    for (k, line) in lines.iter().enumerate() {
        assert!(!line.name.is_empty() && line.reason.len() > 20, "{}", line.name);
        assert!(lines[..k].iter().all(|other| other.name != line.name), "{} is there twice", line.name);
    }
}
