//! Keys: frozen, sensitive to every field, and the same in every process.

use std::process::Command;

use super::*;
use kiln_kernel::canonicalize;
use kiln_kernel::text::read;
use kiln_kernel::verify;

const NORM: &str = include_str!("../../../testkit/testdata/examples/norm.kernel");
const CONV: &str = include_str!("../../../testkit/testdata/examples/conv.kernel");

fn canonical(text: &str) -> String {
    let kernel = verify(read(text).unwrap()).unwrap();
    canonicalize(&kernel).text()
}

fn fields() -> KeyFields {
    KeyFields {
        kernel: canonical(NORM),
        variant: BTreeSet::from(["s0 % 8 == 0".to_owned(), "s1 == 384".to_owned()]),
        schedule: Schedule::new("row").with_text("loops { rows 2 }"),
        target: Target {
            backend: "llvm".to_owned(),
            level: "avx2+fma".to_owned(),
        },
        features: BTreeSet::from(["+avx2".to_owned(), "+fma".to_owned()]),
        kiln: "0.1.0".to_owned(),
        compiler: "llvm 19.1.7".to_owned(),
        options: BTreeMap::from([("fast_math".to_owned(), "off".to_owned())]),
    }
}

/// A change here invalidates every cache: state the reason in the commit message.
#[test]
fn the_key_of_a_kernel_is_frozen() {
    insta::assert_snapshot!(stable_key(&fields()));
}

type Mutation = (&'static str, fn(&mut KeyFields));

#[test]
fn changing_any_field_changes_the_key() {
    let mutations: &[Mutation] = &[
        ("kernel", |f| f.kernel = canonical(CONV)),
        ("kernel", |f| f.kernel.push('\n')),
        ("variant", |f| {
            f.variant.insert("s0 == 1".to_owned());
        }),
        ("variant", |f| f.variant.clear()),
        ("variant", |f| {
            f.variant = BTreeSet::from(["s0 % 8 == 0s1 == 384".to_owned()])
        }),
        ("schedule", |f| f.schedule.name.push('s')),
        ("schedule", |f| {
            f.schedule = f.schedule.clone().with_text("loops { rows 3 }")
        }),
        ("schedule", |f| f.schedule.text.clear()),
        ("target", |f| f.target.backend = "cuda".to_owned()),
        ("target", |f| f.target.level = "avx512".to_owned()),
        ("target", |f| {
            f.target = Target {
                backend: "llvma".to_owned(),
                level: "vx2+fma".to_owned(),
            };
        }),
        ("features", |f| {
            f.features.insert("+f16c".to_owned());
        }),
        ("features", |f| f.features.clear()),
        ("kiln", |f| f.kiln = "0.1.1".to_owned()),
        ("compiler", |f| f.compiler = "llvm 20.1.0".to_owned()),
        ("options", |f| {
            f.options.insert("fast_math".to_owned(), "on".to_owned());
        }),
        ("options", |f| f.options.clear()),
    ];
    let original = fields();
    let mut keys = BTreeSet::from([stable_key(&original)]);
    for (place, (name, mutate)) in mutations.iter().enumerate() {
        let mut changed = original.clone();
        mutate(&mut changed);
        assert_eq!(original.differences(&changed), [*name], "mutation {place}");
        assert!(keys.insert(stable_key(&changed)), "mutation {place}");
    }
}

/// Every difference in meaning between two kernels is visible in their canonical texts.
#[test]
fn changing_any_part_of_a_kernel_changes_its_canonical_text() {
    let mut texts = BTreeSet::from([canonical(NORM)]);
    let changes = [
        ("in f32", "in f16", true),
        ("%x[i, j, r] - s0", "%x[i, j, r] + s0", false),
        ("reduce add[r < 384] %x", "reduce max[r < 384] %x", false),
        ("/ 384.0)", "/ 383.0)", false),
        ("1e-12", "1e-5", false),
        ("%g: const", "%g: in", false),
        (
            "out f32[B, S, 384]",
            "out f32[B, S, 384] strides [512*S, 512, 1]",
            false,
        ),
        ("* %g[r]", "* %b[r]", false),
    ];
    for (from, to, needs_casts) in changes {
        let mut text = NORM.replacen(from, to, 1);
        if needs_casts {
            text = text.replace("%x[i, j, r]", "f32(%x[i, j, r])");
        }
        assert_ne!(text, NORM, "{from}");
        assert!(texts.insert(canonical(&text)), "{from} -> {to}");
    }
}

/// Names, and the order in which symbols and axes were created, are not part of a key.
#[test]
fn names_and_orders_of_insertion_do_not_change_the_key() {
    let renamed = NORM
        .replace("@norm", "@other")
        .replace("%x", "%input")
        .replace("s0", "mean")
        .replace("[B, S", "[Batch, Length")
        .replace("i < B, j < S", "n < Batch, t < Length")
        .replace("[i, j, ", "[n, t, ");
    assert_eq!(canonical(&renamed), canonical(NORM));
    let mut backwards = fields();
    for (name, value) in [("b", "2"), ("a", "1")] {
        backwards.options.insert(name.to_owned(), value.to_owned());
    }
    let mut forwards = fields();
    for (name, value) in [("a", "1"), ("b", "2")] {
        forwards.options.insert(name.to_owned(), value.to_owned());
    }
    assert_eq!(stable_key(&forwards), stable_key(&backwards));
}

/// Prints the key for [`twenty_processes_agree_on_a_key`].
#[test]
#[ignore = "run by another test, in processes of its own"]
fn print_the_key() {
    let mut keys: Vec<String> = vec![stable_key(&fields()).to_string()];
    for text in [NORM, CONV] {
        keys.push(
            blake3::hash(canonical(text).as_bytes())
                .to_hex()
                .to_string(),
        );
    }
    // The test harness prints nothing more on this line.
    println!("key:{}", keys.join(","));
}

#[test]
fn twenty_processes_agree_on_a_key() {
    let program = std::env::current_exe().unwrap();
    let children: Vec<_> = (0..20)
        .map(|_| {
            Command::new(&program)
                .args([
                    "--exact",
                    "key::tests::print_the_key",
                    "--ignored",
                    "--nocapture",
                ])
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut found = BTreeSet::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, key) = text.split_once("key:").unwrap();
        found.insert(key.lines().next().unwrap().to_owned());
    }
    assert_eq!(found.len(), 1, "{found:?}");
    let expected = stable_key(&fields()).to_string();
    assert!(found.first().is_some_and(|key| key.starts_with(&expected)));
}

#[test]
fn keys_print_and_read_back() {
    let key = stable_key(&fields());
    assert_eq!(key.to_string().parse(), Ok(key));
    assert_eq!(format!("{key:?}"), format!("Key({key})"));
    assert_eq!(Key::from(*key.as_bytes()), key);
    let json = serde_json::to_string(&key).unwrap();
    assert_eq!(serde_json::from_str::<Key>(&json).unwrap(), key);
    assert!(serde_json::from_str::<Key>("\"abc\"").is_err());
    let upper = key.to_string().to_uppercase();
    for wrong in [
        "",
        "0",
        &"g".repeat(64),
        &"0".repeat(63),
        &"é".repeat(32),
        upper.as_str(),
    ] {
        assert_eq!(
            wrong.parse::<Key>().map_err(|error| error.code()),
            Err("E0250")
        );
    }
}
