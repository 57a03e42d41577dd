//! Stores that the user configures in addition to the cache folder: [`Stores`].

use std::fmt;
use std::sync::Arc;

use kiln_kernel_cache::Tier;

#[cfg(any(feature = "native", feature = "onnx"))]
use crate::cache::Cache;

/// The user's tiers, in the order in which they are queried.
#[derive(Clone, Default)]
pub(crate) struct Stores(Vec<Arc<dyn Tier>>);

impl Stores {
    /// Adds a store, which is queried last.
    pub(crate) fn with(mut self, tier: Arc<dyn Tier>) -> Self {
        self.0.push(tier);
        self
    }

    /// Whether there are no stores.
    #[cfg(any(feature = "onnx", feature = "native"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The cache folder, if there is one, then these.
    #[cfg(feature = "native")]
    pub(crate) fn after(&self, cache: &Cache) -> Vec<Arc<dyn Tier>> {
        let mut tiers = of_folder(cache);
        tiers.extend(self.0.iter().cloned());
        tiers
    }
}

/// The cache folder, if there is one.
#[cfg(any(feature = "native", feature = "onnx"))]
pub(crate) fn of_folder(cache: &Cache) -> Vec<Arc<dyn Tier>> {
    let folder = cache.open().map(|disk| Arc::new(disk) as Arc<dyn Tier>);
    folder.into_iter().collect()
}

/// Stores are equal only if they are the same objects.
impl PartialEq for Stores {
    fn eq(&self, other: &Self) -> bool {
        let (one, another) = (&self.0, &other.0);
        one.len() == another.len() && one.iter().zip(another).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|tier| tier.name());
        f.debug_list().entries(names).finish()
    }
}
