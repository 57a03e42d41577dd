//! Constants, and the blob map for large constants in the text form.
//!
//! A constant up to [`INLINE_LIMIT`] elements prints its elements; a larger one prints its digest, and a reader
//! resolves the digest in a [`BlobMap`]. Invariant: the digest covers dtype, shape and the elements' little-endian
//! bytes, so equal digests mean equal constants. A constant whose elements also exist elsewhere, in a different order,
//! may release its own, which are then recomputed when they are read.

use arc_swap::ArcSwap;
use kiln_fork_lock::ForkCell;
use kiln_tensor::{DType, Tensor, TensorError};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Constants with more elements than this print as a digest.
pub const INLINE_LIMIT: usize = 64;

/// A constant tensor with its digest, computed once on demand. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Constant(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Swapped, never locked: a forked child must find the elements, regardless of what other threads were doing.
    elements: ArcSwap<Elements>,
    digest: ForkCell<Digest>,
}

#[derive(Debug)]
enum Elements {
    Held(Tensor),
    Released(Released),
}

/// Recomputes the elements of a constant that has released them.
type Remake = dyn Fn() -> Result<Tensor, TensorError> + Send + Sync;

/// What remains of a tensor whose elements were released.
struct Released {
    dtype: DType,
    shape: Box<[usize]>,
    remake: Arc<Remake>,
}

impl Constant {
    /// Wraps a tensor, made contiguous.
    ///
    /// # Errors
    /// When a strided view cannot be copied for lack of memory.
    pub fn new(tensor: Tensor) -> Result<Self, TensorError> {
        Ok(Self::of(tensor.contiguous()?, ForkCell::new()))
    }

    /// Wraps a tensor whose digest is known, for example from a store. With a wrong digest, it is taken for another
    /// constant.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_known_digest(tensor: Tensor, digest: Digest) -> Result<Self, TensorError> {
        Ok(Self::of(tensor.contiguous()?, ForkCell::from(digest)))
    }

    fn of(tensor: Tensor, digest: ForkCell<Digest>) -> Self {
        Self(Arc::new(Inner {
            elements: ArcSwap::from_pointee(Elements::Held(tensor)),
            digest,
        }))
    }

    /// The tensor, contiguous. If the constant [released](Self::release) its elements, reading those of the result
    /// recomputes them, and they are freed with the result.
    pub fn tensor(&self) -> Tensor {
        match &**self.0.elements.load() {
            Elements::Held(tensor) => tensor.clone(),
            Elements::Released(released) => released.tensor(),
        }
    }

    /// Releases the elements, for all clones of the constant: from now on, `remake` recomputes them whenever they are
    /// read, as a tensor of the same dtype and number of elements, in row-major order. Tensors taken earlier keep
    /// theirs.
    ///
    /// # Errors
    /// When elements that are not loaded yet, and have no digest, cannot be loaded. Nothing is released then.
    ///
    /// ```
    /// use kiln_ir::Constant;
    /// use kiln_tensor::Tensor;
    ///
    /// let constant = Constant::new(Tensor::from_slice(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0])?)?;
    /// let transposed = Tensor::from_slice(&[2, 2], &[1.0f32, 3.0, 2.0, 4.0])?;
    /// constant.release(move || transposed.transpose(&[1, 0]))?;
    /// assert!(constant.is_released());
    /// assert_eq!(constant.tensor().to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), kiln_tensor::TensorError>(())
    /// ```
    pub fn release(
        &self,
        remake: impl Fn() -> Result<Tensor, TensorError> + Send + Sync + 'static,
    ) -> Result<(), TensorError> {
        let tensor = self.tensor();
        if self.0.digest.get().is_none() {
            // The digest of elements that cannot be read would be wrong.
            tensor.as_bytes()?;
            self.digest();
        }
        let released = Released {
            dtype: tensor.dtype(),
            shape: tensor.shape().into(),
            remake: Arc::new(remake),
        };
        let elements = Arc::new(Elements::Released(released));
        self.0.elements.store(elements);
        Ok(())
    }

    /// Whether its elements were released.
    pub fn is_released(&self) -> bool {
        matches!(**self.0.elements.load(), Elements::Released(_))
    }

    /// Whether the text form prints the elements rather than the digest.
    pub fn is_inline(&self) -> bool {
        self.tensor().len() <= INLINE_LIMIT
    }

    /// The digest of dtype, shape and elements.
    pub fn digest(&self) -> Digest {
        *self.0.digest.get_or_init(|| {
            let tensor = self.tensor();
            let mut hasher = blake3::Hasher::new();
            hasher.update(format!("{}{:?}\n", tensor.dtype(), tensor.shape()).as_bytes());
            // `new` made the tensor contiguous, which is all that `as_bytes` requires.
            hasher.update(tensor.as_bytes().unwrap_or_default());
            Digest(*hasher.finalize().as_bytes())
        })
    }
}

impl Released {
    fn tensor(&self) -> Tensor {
        let remake = Arc::clone(&self.remake);
        Tensor::deferred(self.dtype, &self.shape, move || remake())
            .unwrap_or_else(|_| unreachable!("a tensor had this shape"))
    }
}

impl fmt::Debug for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Released({}{:?})", self.dtype, self.shape)
    }
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.digest() == other.digest()
    }
}

impl Eq for Constant {}

/// A BLAKE3 digest; prints and parses as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `text`.
    pub fn of_text(text: &str) -> Self {
        Self(*blake3::hash(text.as_bytes()).as_bytes())
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a digest of 64 hexadecimal digits")]
pub struct ParseDigestError;

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        blake3::Hash::from_hex(text)
            .map(|hash| Self(*hash.as_bytes()))
            .map_err(|_| ParseDigestError)
    }
}

/// Large constants by digest, which the text form omits.
#[derive(Clone, Debug, Default)]
pub struct BlobMap(BTreeMap<Digest, Constant>);

impl BlobMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a constant under its digest.
    pub fn insert(&mut self, constant: Constant) {
        self.0.insert(constant.digest(), constant);
    }

    /// The constant with that digest.
    pub fn get(&self, digest: Digest) -> Option<&Constant> {
        self.0.get(&digest)
    }

    /// The constants in the order of their digests.
    pub fn iter(&self) -> impl Iterator<Item = (Digest, &Constant)> {
        self.0.iter().map(|(&digest, constant)| (digest, constant))
    }

    /// The number of constants.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no constants.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn constant(shape: &[usize], values: &[f32]) -> Constant {
        Constant::new(Tensor::from_slice(shape, values).unwrap()).unwrap()
    }

    #[test]
    fn a_digest_covers_dtype_shape_and_elements() {
        let base = constant(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(base, constant(&[2, 2], &[1.0, 2.0, 3.0, 4.0]));
        assert_ne!(base, constant(&[4], &[1.0, 2.0, 3.0, 4.0]));
        assert_ne!(base, constant(&[2, 2], &[1.0, 2.0, 3.0, 5.0]));
        let bits = [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_bits);
        let other_dtype = Constant::new(Tensor::from_slice(&[2, 2], &bits).unwrap()).unwrap();
        assert_ne!(base, other_dtype);
    }

    #[test]
    fn a_view_of_a_constant_equals_the_constant() {
        let tensor = Tensor::from_slice(&[2, 2], &[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
        let transposed = Constant::new(tensor.transpose(&[1, 0]).unwrap()).unwrap();
        assert_eq!(transposed, constant(&[2, 2], &[1.0, 3.0, 2.0, 4.0]));
    }

    #[test]
    fn released_elements_are_made_when_they_are_read_and_belong_to_the_reader() {
        let base = constant(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let (clone, before) = (base.clone(), base.tensor());
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        base.release(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Tensor::from_slice(&[4], &[1.0_f32, 2.0, 3.0, 4.0])
        })
        .unwrap();
        assert!(clone.is_released());
        assert_eq!(before.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
        // Neither sizes nor the digest need the elements.
        assert_eq!(clone.tensor().shape(), [2, 2]);
        assert_eq!(clone, constant(&[2, 2], &[1.0, 2.0, 3.0, 4.0]));
        assert_eq!(made.load(Ordering::Relaxed), 0);
        for reads in 1..3 {
            assert_eq!(clone.tensor().as_slice::<f32>().unwrap()[3], 4.0);
            assert_eq!(made.load(Ordering::Relaxed), reads);
        }
    }

    #[test]
    fn elements_that_cannot_be_read_are_not_released() {
        let gone = || Err(TensorError::Deferred("the file is gone".into()));
        let tensor = Tensor::deferred(DType::F32, &[2], gone).unwrap();
        let constant = Constant::new(tensor).unwrap();
        let remake = || Tensor::full(&[2], 1.0_f32);
        assert_eq!(constant.release(remake).unwrap_err().code(), "E0943");
        assert!(!constant.is_released());
    }

    #[test]
    fn digests_round_trip_as_text() {
        let digest = Digest::of_text("kiln");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!(format!("{digest:?}"), digest.to_string());
        assert_eq!("12".parse::<Digest>(), Err(ParseDigestError));
        assert_eq!(digest.as_bytes().len(), 32);
    }

    #[test]
    fn a_blob_map_is_ordered_by_digest() {
        let mut blobs = BlobMap::new();
        assert!(blobs.is_empty());
        for value in 0..5_u8 {
            blobs.insert(constant(&[1], &[f32::from(value)]));
        }
        blobs.insert(constant(&[1], &[0.0]));
        assert_eq!(blobs.len(), 5);
        assert!(blobs.iter().map(|(digest, _)| digest).is_sorted());
        assert!(
            blobs
                .iter()
                .all(|(digest, constant)| blobs.get(digest) == Some(constant))
        );
    }
}
