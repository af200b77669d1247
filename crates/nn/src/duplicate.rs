//! Copies of models: the same parts anew. A derive goes field by field; parameters and places that several parts share are
//! copied once, and shared by the copies.
use crate::{Criterion, Module, Param, Site, Walk, parametrize::Parametrization};
use adamant_core::{Error, ErrorKind, Result};
use std::collections::HashMap;

/// What a copy that is being made has so far.
#[derive(Default)]
pub struct Copies {
    params: HashMap<usize, (Param, Param)>,
    sites: HashMap<usize, (Site, Site)>,
}
impl Copies {
    /// The copy of a parameter, the same one each time.
    #[track_caller]
    pub(crate) fn param(&mut self, original: &Param) -> Result<Param> {
        if let Some((_, copy)) = self.params.get(&original.id()) {
            return Ok(copy.clone());
        }
        let copy = original.apart(self)?;
        // The original is held, so that no other gets its number meanwhile.
        self.params.insert(original.id(), (original.clone(), copy.clone()));
        Ok(copy)
    }
    #[track_caller]
    pub(crate) fn site(&mut self, original: &Site) -> Result<Site> {
        if let Some((_, copy)) = self.sites.get(&original.id()) {
            return Ok(copy.clone());
        }
        let copy = original.apart(self)?;
        self.sites.insert(original.id(), (original.clone(), copy.clone()));
        Ok(copy)
    }
}

#[track_caller]
pub(crate) fn by_hand<T>(name: &str) -> Result<T> {
    Err(Error::new("deep_copy", ErrorKind::Argument(format!("{name} cannot be copied: its `Walk` is written by hand")))
        .hint("write `Walk::duplicate` beside `Walk::walk`, or derive `Module`"))
}
/// What a box or an `Arc` may hold in a model: any module, `dyn Module`, `dyn Criterion`. For a trait object of one's own:
/// `impl Boxed for dyn MyLayer {}`, which cannot be copied unless the method is written too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` in a box is no part of a model",
    note = "for a trait of your own whose supertrait is Walk, write `impl adamant_nn::Boxed for dyn MyTrait {{}}`"
)]
pub trait Boxed {
    /// A copy in a box of its own.
    ///
    /// # Errors
    /// As [`Walk::deep_copy`].
    #[track_caller]
    fn boxed_duplicate(&self, _copies: &mut Copies) -> Result<Box<Self>> {
        by_hand(std::any::type_name::<Self>())
    }
}
impl<T: Walk> Boxed for T {
    fn boxed_duplicate(&self, copies: &mut Copies) -> Result<Box<T>> {
        Ok(Box::new(self.duplicate(copies)?))
    }
}
macro_rules! objects {
    ($($(#[$doc:meta])* $object:ident $trait:ident $method:ident;)*) => { $(
        $(#[$doc])*
        pub trait $object {
            /// A copy in a box.
            ///
            /// # Errors
            /// As [`Walk::deep_copy`].
            #[track_caller]
            fn $method<'a>(&self, copies: &mut Copies) -> Result<Box<dyn $trait + 'a>>
            where
                Self: 'a;
        }
        impl<T: $trait> $object for T {
            fn $method<'a>(&self, copies: &mut Copies) -> Result<Box<dyn $trait + 'a>>
            where
                Self: 'a,
            {
                Ok(Box::new(self.duplicate(copies)?))
            }
        }
        impl Boxed for dyn $trait {
            fn boxed_duplicate(&self, copies: &mut Copies) -> Result<Box<dyn $trait>> {
                self.$method(copies)
            }
        }
    )* };
}
objects! {
    /// What every [`Module`] has, so that one behind a box can be copied.
    DuplicateModule Module duplicate_module;
    /// What every [`Criterion`] has, so that one behind a box can be copied.
    DuplicateCriterion Criterion duplicate_criterion;
    /// What every [`Parametrization`] has, so that one behind a box can be copied.
    DuplicateParametrization Parametrization duplicate_parametrization;
}

/// What the derive returns: it may stand where nothing else of this library is in scope.
#[doc(hidden)]
pub type Copied<T> = Result<T>;
/// A field that is passed over: copied if it is `Clone`, as the derive finds out by which of two methods there is.
#[doc(hidden)]
pub struct Passed<'a, T>(pub &'a T);
#[doc(hidden)]
pub trait PassedClone<T> {
    fn copied(&self, field: &str) -> Result<T>;
}
impl<T: Clone> PassedClone<T> for Passed<'_, T> {
    fn copied(&self, _: &str) -> Result<T> {
        Ok(self.0.clone())
    }
}
#[doc(hidden)]
pub trait PassedOther<T> {
    fn copied(&self, field: &str) -> Result<T>;
}
impl<T> PassedOther<T> for &Passed<'_, T> {
    #[track_caller]
    fn copied(&self, field: &str) -> Result<T> {
        Err(Error::new("deep_copy", ErrorKind::Argument(format!("the field `{field}`, a {}, cannot be copied", std::any::type_name::<T>())))
            .hint("derive `Clone` on its type"))
    }
}
