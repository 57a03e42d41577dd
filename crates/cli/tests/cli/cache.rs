//! Compiled code outlives the process, and users can manage it.

use super::support::Workshop;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_second_process_compiles_nothing_and_cache_commands_manage_the_folder() {
    let workshop = Workshop::new();
    let (ok, fails) = (true, false);
    let folder = workshop.path("cache").display().to_string();
    let bench = |extra: &[&str], expected: bool| {
        let arguments = [
            "bench",
            "model.kiln",
            "--device",
            "cpu",
            "--cases",
            "cases",
            "--once",
            "--json",
        ];
        let arguments = [&arguments[..], &["--cache", &folder], extra].concat();
        let output = workshop.kiln(&arguments);
        assert_eq!(output.status.success(), expected, "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let cache = |arguments: &[&str], expected: bool| {
        let arguments = [&["cache", "--folder", &folder], arguments].concat();
        let output = workshop.kiln(&arguments);
        assert_eq!(output.status.success(), expected, "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    bench(&["--no-compile"], fails);
    let first = bench(&[], ok);
    assert!(!first.starts_with("{\"compiles\":0"), "{first}");
    let second = bench(&["--no-compile"], ok);
    let line: serde_json::Value = serde_json::from_str(second.lines().next().unwrap()).unwrap();
    assert_eq!(line["compiles"], 0);
    assert!(line["disk_hits"].as_u64().unwrap() > 0, "{line}");

    let list = cache(&["ls", "--json"], ok);
    let entries = list.lines().count();
    assert!(
        entries > 0 && list.contains("\"kind\":\"kernel\""),
        "{list}"
    );
    assert!(cache(&["ls"], ok).contains("llvm"));
    assert!(cache(&["stats"], ok).contains("kernel"));
    let stats: serde_json::Value = serde_json::from_str(&cache(&["stats", "--json"], ok)).unwrap();
    assert_eq!(stats["entries"].as_u64(), Some(entries as u64));
    assert!(cache(&["verify"], ok).contains(&format!("{entries} entries are intact")));
    let file = std::fs::read_dir(workshop.path("cache")).unwrap();
    let entry =
        |entry: &std::path::PathBuf| entry.extension().is_some_and(|ending| ending == "kiln2");
    let file = file.map(|file| file.unwrap().path()).find(entry).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert!(cache(&["verify", "--remove"], fails).contains("1 are not"));
    assert!(cache(&["clear"], ok).contains(&format!("removed {} entries", entries - 1)));
    assert_eq!(cache(&["ls"], ok), "");
}

#[test]
fn a_model_compiled_ahead_compiles_nothing_when_it_runs() {
    let workshop = Workshop::new();
    let kiln = |arguments: &[&str]| {
        let common = ["model.kiln", "--device", "cpu", "--cache", "cache"];
        let (command, rest) = arguments.split_first().unwrap();
        let arguments = [&[*command][..], &common, rest].concat();
        let output = workshop.kiln(&arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let compiled = kiln(&["compile", "--json"]);
    let compiled: serde_json::Value = serde_json::from_str(&compiled).unwrap();
    assert!(compiled["kernels"].as_u64().unwrap() > 0);
    assert_eq!(compiled["stored"], compiled["compiled"]);
    kiln(&[
        "run",
        "--cases",
        "cases",
        "--no-compile",
        "--save-profile",
        "profile.json",
    ]);
    let profile = std::fs::read_to_string(workshop.path("profile.json")).unwrap();
    assert!(profile.contains("\"calls\": 1"), "{profile}");
    let again = kiln(&["compile", "--profile", "profile.json", "--json"]);
    let again: serde_json::Value = serde_json::from_str(&again).unwrap();
    assert_eq!(
        (&again["compiled"], &again["shapes"]),
        (&0.into(), &2.into())
    );
    assert!(kiln(&["compile"]).contains("0 compiled"));
    let sampled = kiln(&["compile", "--samples", "3", "--grid", "N=2"]);
    assert!(sampled.contains("5 combinations of sizes"), "{sampled}");
}

#[test]
fn a_grid_without_a_number_or_of_another_dimension_is_refused() {
    let workshop = Workshop::new();
    for (grid, expected) in [
        ("N", "expected NAME=N"),
        ("N=x", "expected a number of sizes"),
        ("M=2", "no input has a dimension `M`"),
    ] {
        let output = workshop.kiln(&["compile", "model.kiln", "--grid", grid]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && error.contains(expected),
            "{error}"
        );
    }
}

#[test]
fn a_bundle_is_made_and_run_from_the_command_line() {
    let workshop = Workshop::new();
    let kiln = |arguments: &[&str], expected: bool| {
        let output = workshop.kiln(arguments);
        assert_eq!(output.status.success(), expected, "{output:?}");
        let text = if expected {
            output.stdout
        } else {
            output.stderr
        };
        String::from_utf8(text).unwrap()
    };
    let compile = "compile model.kiln --device cpu --cache off --json -o m.kiln-bundle";
    let compile: Vec<&str> = compile.split(' ').collect();
    let report: serde_json::Value = serde_json::from_str(&kiln(&compile, true)).unwrap();
    let bytes = std::fs::metadata(workshop.path("m.kiln-bundle"))
        .unwrap()
        .len();
    assert_eq!(report["bundle_bytes"].as_u64(), Some(bytes));
    let run = |model: &str, more: &[&str], expected| {
        let arguments = ["run", model, "--cases", "cases", "--cache", "off", "--json"];
        kiln(&[&arguments[..], more].concat(), expected)
    };
    let statistics = |text: &str| {
        let calls = text.lines().map(|line| {
            let call: serde_json::Value = serde_json::from_str(line).unwrap();
            call["outputs"].clone()
        });
        calls.collect::<Vec<_>>()
    };
    let expected = statistics(&run("model.kiln", &["--device", "cpu"], true));
    let found = run("m.kiln-bundle", &["--trust-bundle", "--no-compile"], true);
    assert_eq!(statistics(&found), expected);
    let error = run("m.kiln-bundle", &[], false);
    assert!(
        error.contains("error[E0997]") && error.contains("--trust-bundle"),
        "{error}"
    );
    // Sealed, then opened with the key.
    let file = workshop.path("bundles.key");
    std::fs::write(&file, [7; 32]).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let sealed: Vec<&str> =
        "compile model.kiln --device cpu --cache off -o s.kiln-bundle --seal bundles.key"
            .split(' ')
            .collect();
    kiln(&sealed, true);
    let with_key = ["--bundle-key", "bundles.key"];
    let found = run("s.kiln-bundle", &with_key, true);
    assert_eq!(statistics(&found), expected);
    let error = run("m.kiln-bundle", &with_key, false);
    assert!(error.contains("error[E0711]"), "{error}");
    let bundle = std::fs::read(workshop.path("m.kiln-bundle")).unwrap();
    std::fs::write(workshop.path("m.kiln-bundle"), &bundle[1..]).unwrap();
    let error = run("m.kiln-bundle", &["--trust-bundle"], false);
    assert!(
        error.contains("error[E0707]") && error.contains("m.kiln-bundle"),
        "{error}"
    );
}
