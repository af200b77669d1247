//! `#[derive(Module)]`: writes `walk`, which hands every part of a model to a walker under the name of its field.
//! So state-dict keys are field paths, without a second list of names to keep in step. And `duplicate`, which makes the
//! same parts anew.
//!
//! Fields whose type cannot hold parameters (numbers, text, `PhantomData`) are passed over; every other field must
//! be walkable or carry `#[module(skip)]`, so that a forgotten derive is a compile error and not a layer that
//! silently does not train.
//!
//! `#[profile]`: makes the calls of a function ranges of the profile.
#![forbid(unsafe_code)]

mod profile;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Data, DeriveInput, Fields, Ident, LitStr, Type, parse_macro_input, parse_quote};

/// Implements `Walk` for a struct or an enum.
///
/// Field attributes: `#[module(skip)]` (holds nothing to walk), `#[module(rename = "name")]` (another name in the
/// state dict), `#[module(flatten)]` (its parts appear under this module's own names).
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand(parse_macro_input!(input as DeriveInput), &quote!(::adamant_nn)).unwrap_or_else(|e| e.to_compile_error()).into()
}
/// The same for programs that depend on the facade `adamant` alone, where `adamant::nn::Module` names this macro.
#[proc_macro_derive(FacadeModule, attributes(module))]
pub fn derive_facade_module(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand(parse_macro_input!(input as DeriveInput), &quote!(::adamant::nn)).unwrap_or_else(|e| e.to_compile_error()).into()
}
/// Makes every call of a function a range of the profile, under its name or another: `#[profile]`, `#[profile("forward")]`.
/// Without the feature `profiling` the range is nothing. Not for `async` and `const` functions.
#[proc_macro_attribute]
pub fn profile(name: proc_macro::TokenStream, function: proc_macro::TokenStream) -> proc_macro::TokenStream {
    profile::expand(name.into(), function.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// What a field's attribute asks for.
#[derive(Default)]
struct Wish {
    skip: bool,
    flatten: bool,
    rename: Option<String>,
}
fn wish(attributes: &[Attribute]) -> syn::Result<Wish> {
    let mut wish = Wish::default();
    for attribute in attributes.iter().filter(|a| a.path().is_ident("module")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("skip") {
                wish.skip = true;
            } else if meta.path.is_ident("flatten") {
                wish.flatten = true;
            } else if meta.path.is_ident("rename") {
                wish.rename = Some(meta.value()?.parse::<LitStr>()?.value());
            } else {
                return Err(meta.error("unknown; there are skip, flatten and rename = \"name\""));
            }
            Ok(())
        })?;
    }
    Ok(wish)
}

/// Types that cannot hold a parameter, by their last path segment.
fn is_plain(ty: &Type) -> bool {
    const PLAIN: [&str; 19] =
        ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64", "bool", "char", "String", "str", "PhantomData"];
    match ty {
        Type::Path(p) => p.path.segments.last().is_some_and(|last| {
            let wraps_plain = (last.ident == "Option" || last.ident == "Vec")
                && matches!(&last.arguments, syn::PathArguments::AngleBracketed(a) if a.args.iter().all(|a| matches!(a, syn::GenericArgument::Type(t) if is_plain(t))));
            PLAIN.iter().any(|name| last.ident == name) || wraps_plain
        }),
        Type::Array(a) => is_plain(&a.elem),
        Type::Tuple(t) => t.elems.iter().all(is_plain),
        Type::Reference(r) => is_plain(&r.elem),
        _ => false,
    }
}

/// What is written of the fields of a struct or variant.
#[derive(Default)]
struct OfFields {
    /// the names bound to them in a pattern
    bindings: Vec<Ident>,
    /// the calls that walk them
    calls: TokenStream,
    /// what makes each anew
    copies: Vec<TokenStream>,
    walked: Vec<Type>,
}
fn of_fields(fields: &Fields, nn: &TokenStream) -> syn::Result<OfFields> {
    let OfFields { mut bindings, mut calls, mut copies, mut walked } = OfFields::default();
    for (k, field) in fields.iter().enumerate() {
        let binding = format_ident!("part{}", k);
        let wish = wish(&field.attrs)?;
        let own_name = field.ident.as_ref().map_or(k.to_string(), |i| i.to_string().trim_start_matches("r#").to_string());
        if !wish.skip && !is_plain(&field.ty) {
            copies.push(quote!(#nn::Walk::duplicate(#binding, copies)?));
            let name = wish.rename.unwrap_or(own_name);
            // A layer's site stands for the layer itself, under the layer's own path.
            let is_site = matches!(&field.ty, Type::Path(p) if p.path.segments.last().is_some_and(|s| s.ident == "Site"));
            calls.extend(if wish.flatten || is_site { quote!(#nn::Walk::walk(#binding, walker);) } else { quote!(walker.child(#name, #binding);) });
            walked.push(field.ty.clone());
        } else {
            calls.extend(quote!(let _ = #binding;));
            // Which of two methods is found tells whether the type is `Clone`.
            copies.push(quote!((&#nn::duplicate::Passed(#binding)).copied(#own_name)?));
        }
        bindings.push(binding);
    }
    Ok(OfFields { bindings, calls, copies, walked })
}
/// A struct or variant of new fields.
fn built(path: &TokenStream, fields: &Fields, copies: &[TokenStream]) -> TokenStream {
    match fields {
        Fields::Named(named) => {
            let names = named.named.iter().map(|f| &f.ident);
            quote!(#path { #(#names: #copies),* })
        }
        Fields::Unnamed(_) => quote!(#path(#(#copies),*)),
        Fields::Unit => quote!(#path),
    }
}

fn expand(mut input: DeriveInput, nn: &TokenStream) -> syn::Result<TokenStream> {
    let name = &input.ident;
    let pattern = |path: TokenStream, fields: &Fields, bindings: &[Ident]| match fields {
        Fields::Named(named) => {
            let names = named.named.iter().map(|f| &f.ident);
            quote!(#path { #(#names: #bindings),* })
        }
        Fields::Unnamed(_) => quote!(#path(#(#bindings),*)),
        Fields::Unit => path,
    };
    let (mut walked, mut arms, mut copied) = (Vec::new(), TokenStream::new(), TokenStream::new());
    let mut add = |path: TokenStream, fields: &Fields| -> syn::Result<()> {
        let of = of_fields(fields, nn)?;
        walked.extend(of.walked);
        let (pattern, calls, built) = (pattern(path.clone(), fields, &of.bindings), of.calls, built(&path, fields, &of.copies));
        arms.extend(quote!(#pattern => { #calls }));
        copied.extend(quote!(#pattern => #built,));
        Ok(())
    };
    match &input.data {
        Data::Struct(s) => add(quote!(#name), &s.fields)?,
        Data::Enum(e) => {
            for v in &e.variants {
                let ident = &v.ident;
                add(quote!(#name::#ident), &v.fields)?;
            }
        }
        Data::Union(_) => return Err(syn::Error::new_spanned(name, "a union cannot be a module")),
    };
    let kind = name.to_string();
    // Fields whose type mentions a type parameter must be walkable; the others are checked where they stand.
    let parameters: Vec<Ident> = input.generics.type_params().map(|p| p.ident.clone()).collect();
    let clause = input.generics.make_where_clause();
    for ty in walked {
        if parameters.iter().any(|p| mentions(&ty, p)) {
            clause.predicates.push(parse_quote!(#ty: #nn::Walk));
        }
    }
    clause.predicates.push(parse_quote!(Self: ::core::marker::Send + ::core::marker::Sync));
    let name = &input.ident;
    let (generics, arguments, clause) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics #nn::Walk for #name #arguments #clause {
            fn walk(&self, walker: &mut #nn::Walker<'_>) {
                walker.module(#kind);
                #[allow(clippy::match_single_binding)]
                match self { #arms }
            }
            #[allow(unused_imports, unused_variables, clippy::all)]
            fn duplicate(&self, copies: &mut #nn::Copies) -> #nn::duplicate::Copied<Self> {
                use #nn::duplicate::{PassedClone as _, PassedOther as _};
                ::core::result::Result::Ok(match self { #copied })
            }
        }
    })
}
fn mentions(ty: &Type, parameter: &Ident) -> bool {
    fn in_stream(stream: TokenStream, parameter: &Ident) -> bool {
        stream.into_iter().any(|t| match t {
            proc_macro2::TokenTree::Ident(i) => i == *parameter,
            proc_macro2::TokenTree::Group(g) => in_stream(g.stream(), parameter),
            _ => false,
        })
    }
    in_stream(quote!(#ty), parameter)
}
