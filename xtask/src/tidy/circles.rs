//! No more than two modules of a crate need each other in a circle.
//!
//! An exception is a row of `xtask/circles-allow.toml`: the crate, the modules and the reason. `a::*` stands for the modules
//! inside `a`. A row that is no longer needed is a problem too.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::tree::{Problem, Tree};
use crate::api;

const ALLOW: &str = "xtask/circles-allow.toml";

#[derive(Deserialize)]
struct Allowed {
    circle: Vec<Circle>,
}

/// An allowed cycle.
#[derive(Deserialize)]
struct Circle {
    #[serde(rename = "crate")]
    name: String,
    modules: Vec<String>,
    why: String,
}

impl Circle {
    /// Whether it lists exactly these modules: each module is named, and each name is that of a module.
    fn is_of(&self, modules: &[String]) -> bool {
        let names = |name: &str, module: &str| match name.strip_suffix('*') {
            Some(inside) => module.starts_with(inside),
            None => module == name,
        };
        modules
            .iter()
            .all(|module| self.modules.iter().any(|name| names(name, module)))
            && self
                .modules
                .iter()
                .all(|name| modules.iter().any(|module| names(name, module)))
    }
}

/// Checks the modules of every library.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let allowed: Allowed =
        toml::from_str(&tree.read(ALLOW)?).with_context(|| format!("cannot read {ALLOW}"))?;
    let mut unused = allowed.circle;
    let mut problems = Vec::new();
    for circle in unused.iter().filter(|circle| circle.why.is_empty()) {
        let message = format!("expected a reason for a circle of {}", circle.name);
        problems.push(Problem::new(ALLOW, message));
    }
    for (name, root) in tree.libraries() {
        for modules in api::circles(&root)? {
            let is_allowed = |circle: &Circle| circle.name == name && circle.is_of(&modules);
            if let Some(at) = unused.iter().position(is_allowed) {
                unused.remove(at);
                continue;
            }
            let message = format!(
                "{} modules need each other in a circle: {}; move what two of them share to a module below both",
                modules.len(),
                modules.join(", ")
            );
            problems.push(Problem::new(format!("crates/{name}/src/lib.rs"), message));
        }
    }
    problems.extend(unused.into_iter().map(|circle| {
        let message = format!(
            "{} has no circle of {} any more",
            circle.name,
            circle.modules.join(", ")
        );
        Problem::new(ALLOW, message)
    }));
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn circles_need_a_reason_and_reasons_a_circle() {
        let circle = [
            ("crates/a/src/lib.rs", "mod x; mod y; mod z;"),
            ("crates/a/src/x.rs", "use crate::y::Y; pub struct X(Y);"),
            ("crates/a/src/y.rs", "use crate::z::Z; pub struct Y(Z);"),
            ("crates/a/src/z.rs", "use crate::x::X; pub struct Z(X);"),
        ];
        let with = |allow: &str| {
            let files: Vec<_> = circle.into_iter().chain([(ALLOW, allow)]).collect();
            let (_folder, tree) = Tree::of(&files);
            said(&check(&tree).unwrap())
        };
        let row = "[[circle]]\ncrate = \"a\"\nmodules = [\"x\", \"y\", \"z\"]\n";
        assert_eq!(
            with(&format!("{row}why = \"one data structure\"\n")),
            [""; 0]
        );
        assert_eq!(
            with(&format!("{row}why = \"\"\n")),
            [format!("{ALLOW}: expected a reason for a circle of a")]
        );
        let all = row.replace("\"y\"", "\"*\"");
        assert_eq!(
            with(&format!("{all}why = \"one data structure\"\n")),
            [""; 0]
        );
        let found = with("circle = []");
        assert!(
            found[0].contains("3 modules need each other in a circle: x, y, z"),
            "{found:?}"
        );
        let gone = with(&format!("{row}why = \"\"\n").replace("\"y\", ", ""));
        assert!(
            gone.last()
                .unwrap()
                .contains("a has no circle of x, z any more"),
            "{gone:?}"
        );
    }
}
