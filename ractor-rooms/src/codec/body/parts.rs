//! The parts of a value that is written: the bounds go with each, and elements are counted.

use serde::ser::{
    Error, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
};

use super::bounds::Guard;

macro_rules! elements {
    ($trait:ident, $name:ident) => {
        impl<C: $trait> $trait for Guard<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            #[inline]
            fn $name<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
                if self.counted {
                    self.bounds.count(C::Error::custom)?;
                }
                self.inner.$name(&Guard::new(value, self.bounds))
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        }
    };
}

elements!(SerializeSeq, serialize_element);
elements!(SerializeTuple, serialize_element);
elements!(SerializeTupleStruct, serialize_field);
elements!(SerializeTupleVariant, serialize_field);

impl<C: SerializeMap> SerializeMap for Guard<'_, C> {
    type Ok = C::Ok;
    type Error = C::Error;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), C::Error> {
        self.bounds.count(C::Error::custom)?;
        self.inner.serialize_key(&Guard::new(key, self.bounds))
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
        self.inner.serialize_value(&Guard::new(value, self.bounds))
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.inner.end()
    }
}

macro_rules! fields {
    ($trait:ident) => {
        impl<C: $trait> $trait for Guard<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            #[inline]
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), C::Error> {
                self.inner.serialize_field(name, &Guard::new(value, self.bounds))
            }

            // A field that is sometimes left out shifts all that follow: it could not be read back.
            fn skip_field(&mut self, name: &'static str) -> Result<(), C::Error> {
                Err(C::Error::custom(format!(
                    "field `{name}` is left out by skip_serializing_if; expected every field"
                )))
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        }
    };
}

fields!(SerializeStruct);
fields!(SerializeStructVariant);
