//! The standard set of blueprints: files that are also examples of the format.

/// A blueprint that comes with the crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandardBlueprint {
    /// Its name.
    pub name: &'static str,
    /// Its document.
    pub json: &'static str,
}

macro_rules! standard {
    ($($name:literal),+ $(,)?) => {
        &[$(StandardBlueprint {
            name: $name,
            json: include_str!(concat!("../../blueprints/", $name, ".json")),
        }),+]
    };
}

/// The standard set: the common building blocks of networks, each with symbolic sizes.
pub const STANDARD: &[StandardBlueprint] = standard![
    "dense",
    "conv_norm_activation",
    "mlp",
    "residual_block",
    "attention_block",
    "unet_small",
];
