//! Kiln's reference interpreter: the meaning of every operation.
