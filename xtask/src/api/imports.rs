//! `use` trees, flattened: one `Import` per name brought in.

/// One name that a `use` brings in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The path as written, without `as`; for a glob, that of the module.
    pub(crate) path: Vec<String>,
    /// The name to which it is bound; `None` for a glob.
    pub(crate) name: Option<String>,
}

/// Every import of one `use` item.
pub(crate) fn flatten(tree: &syn::UseTree) -> Vec<Import> {
    let mut imports = Vec::new();
    let mut pending = vec![(Vec::new(), tree)];
    while let Some((mut path, tree)) = pending.pop() {
        match tree {
            syn::UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                pending.push((path, &inner.tree));
            }
            syn::UseTree::Name(inner) => imports.push(named(path, inner.ident.to_string(), None)),
            syn::UseTree::Rename(inner) => {
                imports.push(named(
                    path,
                    inner.ident.to_string(),
                    Some(inner.rename.to_string()),
                ));
            }
            syn::UseTree::Glob(_) => imports.push(Import { path, name: None }),
            syn::UseTree::Group(inner) => {
                pending.extend(inner.items.iter().map(|tree| (path.clone(), tree)));
            }
        }
    }
    imports
}

/// `use a::b::{self}` names `a::b` itself.
fn named(mut path: Vec<String>, last: String, rename: Option<String>) -> Import {
    if last != "self" || path.is_empty() {
        path.push(last);
    }
    let name = rename.or_else(|| path.last().cloned());
    Import { path, name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_tree_becomes_one_import_per_name() {
        let item: syn::ItemUse = syn::parse_str("use a::{b, c as d, e::{self, *}};").unwrap();
        let mut imports: Vec<String> = flatten(&item.tree)
            .iter()
            .map(|import| {
                format!(
                    "{} as {}",
                    import.path.join("::"),
                    import.name.as_deref().unwrap_or("*")
                )
            })
            .collect();
        imports.sort();
        assert_eq!(
            imports,
            ["a::b as b", "a::c as d", "a::e as *", "a::e as e"]
        );
    }
}
