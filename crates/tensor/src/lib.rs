//! Host tensors for Kiln: dtypes, storage, strided views, .npy.
