//! A finished graph: one that was built or recorded, or read from a text.
//!
//! Invariant: graphs with the same digest have the same text and the same constants.

use crate::options::Options;
use kiln_ir::Graph;
#[cfg(feature = "native")]
use {
    super::{ConstantPlace, ModelDigest},
    kiln_fork_lock::ForkCell,
    kiln_ir::{Constant, Digest, Op},
    kiln_tensor::Tensor,
    std::collections::BTreeMap,
};

/// A graph, and the digest under which its program is kept.
pub(crate) struct GraphOrigin {
    graph: Graph,
    #[cfg(feature = "native")]
    digest: Option<ModelDigest>,
    /// Its large constants by digest; computed when needed.
    #[cfg(feature = "native")]
    constants: ForkCell<BTreeMap<Digest, Constant>>,
}

impl GraphOrigin {
    /// A verified graph.
    #[cfg_attr(
        not(feature = "native"),
        expect(unused_variables, reason = "only compiled programs are kept")
    )]
    pub(super) fn new(graph: Graph, options: &Options) -> Self {
        Self {
            // Digesting takes time, and is only useful if the program is kept.
            #[cfg(feature = "native")]
            digest: match options.keeps_programs() {
                true => digest_of(&graph),
                false => None,
            },
            #[cfg(feature = "native")]
            constants: ForkCell::new(),
            graph,
        }
    }

    pub(super) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The digest of its text, which refers to large constants by digest; `None` if programs are not kept.
    #[cfg(feature = "native")]
    pub(super) fn digest(&self) -> Option<&ModelDigest> {
        self.digest.as_ref()
    }

    /// A large constant.
    #[cfg(feature = "native")]
    pub(super) fn constant(&self, digest: Digest) -> Option<Tensor> {
        self.constants().get(&digest).map(Constant::tensor)
    }

    /// The places of its large constants: they come with the graph, and need no entries in a store.
    #[cfg(feature = "native")]
    pub(super) fn constant_places(&self) -> BTreeMap<Digest, ConstantPlace> {
        let digests = self.constants().keys();
        let place = |&digest: &Digest| {
            let name = digest.to_string();
            let (file, offset) = (None, 0);
            (digest, ConstantPlace { name, file, offset })
        };
        digests.map(place).collect()
    }

    #[cfg(feature = "native")]
    fn constants(&self) -> &BTreeMap<Digest, Constant> {
        self.constants.get_or_init(|| {
            let constants = constants_of(&self.graph).filter(|constant| !constant.is_inline());
            constants
                .map(|constant| (constant.digest(), constant.clone()))
                .collect()
        })
    }
}

#[cfg(feature = "native")]
fn constants_of(graph: &Graph) -> impl Iterator<Item = &Constant> {
    graph.ops().filter_map(|(_, data)| match &data.op {
        Op::Constant(constant) => Some(constant),
        _ => None,
    })
}

#[cfg(feature = "native")]
fn digest_of(graph: &Graph) -> Option<ModelDigest> {
    // Elements that cannot be read have no digest.
    let is_read = |constant: &Constant| constant.tensor().as_bytes().is_ok();
    let text = constants_of(graph)
        .all(is_read)
        .then(|| kiln_ir::text::print(graph).to_string())?;
    Some(*Digest::of_text(&text).as_bytes())
}
