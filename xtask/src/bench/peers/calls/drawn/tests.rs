//! A seed is one list of calls, and every function of the registry is in it.
use super::*;

#[test]
fn a_seed_that_is_another_list_of_calls_each_time() {
    let names = |seed| cases(seed, 0..9, 12, |_| true).iter().map(|s| serde_json::to_string(s).unwrap()).collect::<Vec<_>>();
    assert_eq!(names(5), names(5));
    assert_ne!(names(5), names(6));
}
#[test]
fn a_case_that_is_not_said_again_by_its_name() {
    for sized in cases(3, 0..9, 8, |_| true) {
        let last = sized.last().unwrap();
        assert_eq!(serde_json::to_string(&again(&last.name).unwrap()[0]).unwrap(), serde_json::to_string(last).unwrap());
    }
    assert!(again("3").is_err() && again("3:x").is_err() && again("3:1.99").is_err());
}
#[test]
fn a_function_of_the_registry_that_is_neither_drawn_nor_named_with_a_reason() {
    let pool = CallPool::new();
    let absent: BTreeMap<String, String> = absent().into_iter().collect();
    let drawn: Vec<&str> = (0..pool.names.len()).map(|k| pool.called(pool.name(1, k))).collect();
    for name in pool.entries.keys() {
        assert!(drawn.contains(&name.as_str()) != absent.contains_key(name), "{name}");
    }
    assert!(absent.values().all(|why| !why.is_empty()));
    // Each once in a turn.
    let mut once = drawn.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), drawn.len());
}
