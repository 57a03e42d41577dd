//! The stored form of ids of other crates' arenas: their numbers.

use cranelift_entity::EntityRef;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list of ids.
pub(crate) mod list {
    use super::*;

    pub(crate) fn serialize<'a, T, L, S>(ids: &'a L, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: EntityRef + 'a,
        &'a L: IntoIterator<Item = &'a T>,
        S: Serializer,
    {
        let numbers: Vec<usize> = ids.into_iter().map(|id| id.index()).collect();
        numbers.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T, L, D>(deserializer: D) -> Result<L, D::Error>
    where
        T: EntityRef,
        L: FromIterator<T>,
        D: Deserializer<'de>,
    {
        let numbers: Vec<u32> = Vec::deserialize(deserializer)?;
        // The maximum number represents no id.
        Ok(numbers
            .into_iter()
            .map(|number| T::new(number.min(u32::MAX - 1) as usize))
            .collect())
    }
}

/// A list of values with their buffers.
pub(crate) mod pairs {
    use super::*;
    use crate::ids::BufferId;
    use kiln_ir::ValueId;

    pub(crate) fn serialize<S: Serializer>(
        pairs: &[(ValueId, BufferId)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let numbers: Vec<(usize, BufferId)> = pairs
            .iter()
            .map(|&(value, buffer)| (value.index(), buffer))
            .collect();
        numbers.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(ValueId, BufferId)>, D::Error> {
        let numbers: Vec<(u32, BufferId)> = Vec::deserialize(deserializer)?;
        let value = |number: u32| ValueId::new(number.min(u32::MAX - 1) as usize);
        Ok(numbers
            .into_iter()
            .map(|(number, buffer)| (value(number), buffer))
            .collect())
    }
}
