//! The parts of a value that is read: the bounds go with each, and elements are counted.

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::bounds::Guard;

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Guard<'_, S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Guard::new(inner, self.bounds))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Guard<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<S>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error>
    where
        S: DeserializeSeed<'de>,
    {
        let element = self.inner.next_element_seed(Guard::new(seed, self.bounds))?;
        if self.counted && element.is_some() {
            self.bounds.count(A::Error::custom)?;
        }
        Ok(element)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.bounds.hint(self.inner.size_hint())
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Guard<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<S>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error>
    where
        S: DeserializeSeed<'de>,
    {
        let key = self.inner.next_key_seed(Guard::new(seed, self.bounds))?;
        if self.counted && key.is_some() {
            self.bounds.count(A::Error::custom)?;
        }
        Ok(key)
    }

    #[inline]
    fn next_value_seed<S>(&mut self, seed: S) -> Result<S::Value, A::Error>
    where
        S: DeserializeSeed<'de>,
    {
        self.inner.next_value_seed(Guard::new(seed, self.bounds))
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.bounds.hint(self.inner.size_hint())
    }
}

impl<'b, 'de, A: EnumAccess<'de>> EnumAccess<'de> for Guard<'b, A> {
    type Error = A::Error;
    type Variant = Guard<'b, A::Variant>;

    fn variant_seed<S>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error>
    where
        S: DeserializeSeed<'de>,
    {
        let (value, variant) = self.inner.variant_seed(seed)?;
        Ok((value, Guard::new(variant, self.bounds)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Guard<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S>(self, seed: S) -> Result<S::Value, A::Error>
    where
        S: DeserializeSeed<'de>,
    {
        self.inner.newtype_variant_seed(Guard::new(seed, self.bounds))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(len, Guard::new(visitor, self.bounds))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.struct_variant(fields, Guard::new(visitor, self.bounds))
    }
}
