//! `kiln profile --estimates` end to end: fusion's estimates next to the measured gains.

use crate::support::Workshop;

#[test]
fn estimates_are_printed_next_to_measurements() {
    let workshop = Workshop::new();
    let arguments = ["profile", "model.kiln", "--cases", "cases", "--calls", "2"];
    let output = workshop.kiln(&[&arguments[..], &["--estimates"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for title in ["a: ", "b: "] {
        assert!(
            text.lines().any(|line| line.starts_with(title)),
            "{title} {text}"
        );
    }
    assert_eq!(text.matches("rank correlation").count(), 2, "{text}");
}

#[test]
fn estimates_are_refused_with_json() {
    let workshop = Workshop::new();
    let arguments = ["profile", "model.kiln", "--cases", "cases", "--json"];
    let output = workshop.kiln(&[&arguments[..], &["--estimates"]].concat());
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn rates_of_all_calls_are_one_table() {
    let workshop = Workshop::new();
    let arguments = ["profile", "model.kiln", "--cases", "cases", "--calls", "2"];
    let output = workshop.kiln(&[&arguments[..], &["--rates"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("work "), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("memory ")),
        "{text}"
    );
    assert_eq!(
        text.matches("the shortest kernel took").count(),
        1,
        "{text}"
    );
}
