//! The command as seen by shells: completions, manual pages, exit statuses, closed pipes, colours.

use super::support::{Workshop, stderr, stdout};
use std::fs;

#[test]
fn completions_and_manual_pages_name_every_command() {
    let workshop = Workshop::new();
    for shell in ["bash", "zsh", "fish"] {
        let output = workshop.kiln(&["completions", shell]);
        assert!(output.status.success());
        for word in ["report", "completions", "save-profile"] {
            assert!(stdout(&output).contains(word), "{shell}: {word}");
        }
    }
    let output = workshop.kiln(&["man", "pages"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let page = fs::read_to_string(workshop.path("pages/kiln-run.1")).unwrap();
    assert!(
        page.contains("save\\-profile") || page.contains("save-profile"),
        "{page}"
    );
    assert!(
        workshop.path("pages/kiln.1").exists() && workshop.path("pages/kiln-cache-ls.1").exists()
    );
}

#[test]
fn exit_statuses_are_those_of_the_book() {
    let workshop = Workshop::new();
    let status = |arguments: &[&str]| workshop.kiln(arguments).status.code();
    assert_eq!(status(&["run", "model.kiln", "--size", "N=2"]), Some(0));
    assert_eq!(status(&["--help"]), Some(0));
    assert_eq!(status(&["run", "absent.kiln"]), Some(1));
    assert_eq!(status(&["run", "model.kiln", "--no-such-option"]), Some(2));
    assert_eq!(status(&["no-such-command"]), Some(2));
    assert_eq!(status(&[]), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_leaves_ends_long_outputs_quietly() {
    let workshop = Workshop::new();
    for arguments in [
        &["completions", "bash"][..],
        &["run", "model.kiln", "--size", "N=9", "--values"],
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kiln"));
        command.current_dir(workshop.folder.path()).args(arguments);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.stdout(writer).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    }
}

#[test]
fn what_is_not_a_terminal_gets_no_colours() {
    let workshop = Workshop::new();
    for arguments in [&["--help"][..], &["run", "--no-such-option"], &["doctor"]] {
        let output = workshop.kiln(arguments);
        assert!(!stdout(&output).contains('\u{1b}') && !stderr(&output).contains('\u{1b}'));
    }
}
