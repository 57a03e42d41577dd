//! The list of a release's components, in CycloneDX's JSON: crates with their digests and dependencies, and packages of the
//! system with the libraries that are from them.
//!
//! Format: <https://cyclonedx.org/docs/1.6/json/>. It names neither a time nor a serial number, so that it is reproducible.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::components::{Components, Crate};
use super::libraries::Package;

/// The text of the list.
pub(super) fn text(components: &Components, packages: &[Package]) -> Result<String> {
    let crates = components.crates.iter().map(of_crate);
    let list: Vec<Value> = crates.chain(packages.iter().map(of_package)).collect();
    let program = of_crate(&components.program);
    let program = with(program, "type", json!("application"));
    let list = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": program },
        "components": list,
        "dependencies": dependencies(components, packages),
    });
    let text = serde_json::to_string_pretty(&list).context("cannot write the components")?;
    Ok(format!("{text}\n"))
}

fn of_crate(found: &Crate) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(found),
        "name": found.name,
        "version": found.version,
    });
    if found.source.is_some() {
        component = with(component, "purl", json!(reference(found)));
    }
    if let Some(licence) = &found.license {
        // The form before SPDX expressions.
        let expression = licence.replace('/', " OR ");
        component = with(component, "licenses", json!([{ "expression": expression }]));
    }
    if let Some(checksum) = &found.checksum {
        let hashes = json!([{ "alg": "SHA-256", "content": checksum }]);
        component = with(component, "hashes", hashes);
    }
    component
}

fn of_package(package: &Package) -> Value {
    let files = package.libraries.iter().map(|(name, digest)| {
        json!({
            "type": "file",
            "name": format!("lib/{name}"),
            "hashes": [{ "alg": "SHA-256", "content": digest }],
        })
    });
    json!({
        "type": "library",
        "bom-ref": system_reference(package),
        "name": package.name,
        "version": package.version,
        "purl": system_reference(package),
        "properties": [{ "name": "kiln:source-package", "value": package.source }],
        "components": files.collect::<Vec<Value>>(),
    })
}

fn dependencies(components: &Components, packages: &[Package]) -> Vec<Value> {
    let all: Vec<&Crate> = std::iter::once(&components.program)
        .chain(&components.crates)
        .collect();
    let entries = all.iter().map(|found| {
        let crates = all.iter().filter(|other| found.needs.contains(&other.id));
        let mut needs: Vec<String> = crates.map(|other| reference(other)).collect();
        if found.id == components.program.id {
            needs.extend(packages.iter().map(system_reference));
        }
        needs.sort();
        needs.dedup();
        json!({ "ref": reference(found), "dependsOn": needs })
    });
    entries.collect()
}

fn reference(found: &Crate) -> String {
    format!("pkg:cargo/{}@{}", found.name, found.version)
}

fn system_reference(package: &Package) -> String {
    // Characters of a version other than letters, digits, dots and hyphens are escaped.
    let version = package.version.replace('+', "%2B").replace(':', "%3A");
    let version = version.replace('~', "%7E");
    format!(
        "pkg:deb/debian/{}@{version}",
        package.name.replace('+', "%2B")
    )
}

fn with(mut component: Value, key: &str, value: Value) -> Value {
    if let Value::Object(fields) = &mut component {
        fields.insert(key.to_owned(), value);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_and_packages_are_listed_with_their_digests() {
        let tool = Crate {
            id: "t".to_owned(),
            name: "tool".to_owned(),
            version: "0.1.0".to_owned(),
            license: Some("MIT/Apache-2.0".to_owned()),
            needs: vec!["s".to_owned()],
            ..Crate::default()
        };
        let serde = Crate {
            id: "s".to_owned(),
            name: "serde".to_owned(),
            version: "1.0.1".to_owned(),
            source: Some("registry".to_owned()),
            checksum: Some("abc".to_owned()),
            ..Crate::default()
        };
        let components = Components {
            program: tool,
            crates: vec![serde],
        };
        let packages = [Package {
            name: "libstdc++6".to_owned(),
            version: "1:12.2~1+b1".to_owned(),
            source: "gcc-12 12.2".to_owned(),
            libraries: vec![("libstdc++.so.6".to_owned(), "def".to_owned())],
        }];
        let text = text(&components, &packages).unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        let program = &list["metadata"]["component"];
        assert_eq!(program["type"], "application");
        assert_eq!(program["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(program.get("purl"), None);
        assert_eq!(list["components"][0]["hashes"][0]["content"], "abc");
        let package = &list["components"][1];
        let reference = "pkg:deb/debian/libstdc%2B%2B6@1%3A12.2%7E1%2Bb1";
        assert_eq!(package["purl"], reference);
        assert_eq!(package["components"][0]["hashes"][0]["content"], "def");
        assert_eq!(
            list["dependencies"][0]["dependsOn"],
            json!(["pkg:cargo/serde@1.0.1", reference])
        );
        assert_eq!(list["dependencies"][1]["dependsOn"], json!([]));
    }
}
