//! `#[derive(Module)]`: writes `walk`, which hands every part of a model to a walker under the name of its field.
//! So state-dict keys are field paths, without a second list of names to keep in step.
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

/// The names bound to the fields in a pattern, and the calls that walk them.
fn walk_fields(fields: &Fields, nn: &TokenStream) -> syn::Result<(Vec<Ident>, TokenStream, Vec<Type>)> {
    let (mut bindings, mut calls, mut walked) = (Vec::new(), TokenStream::new(), Vec::new());
    for (k, field) in fields.iter().enumerate() {
        let binding = format_ident!("part{}", k);
        let wish = wish(&field.attrs)?;
        if !wish.skip && !is_plain(&field.ty) {
            let name = wish.rename.unwrap_or_else(|| field.ident.as_ref().map_or(k.to_string(), |i| i.to_string().trim_start_matches("r#").to_string()));
            // A layer's site stands for the layer itself, under the layer's own path.
            let is_site = matches!(&field.ty, Type::Path(p) if p.path.segments.last().is_some_and(|s| s.ident == "Site"));
            calls.extend(if wish.flatten || is_site { quote!(#nn::Walk::walk(#binding, walker);) } else { quote!(walker.child(#name, #binding);) });
            walked.push(field.ty.clone());
        } else {
            calls.extend(quote!(let _ = #binding;));
        }
        bindings.push(binding);
    }
    Ok((bindings, calls, walked))
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
    let mut walked = Vec::new();
    let arms: TokenStream = match &input.data {
        Data::Struct(s) => {
            let (bindings, calls, types) = walk_fields(&s.fields, nn)?;
            walked.extend(types);
            let pattern = pattern(quote!(#name), &s.fields, &bindings);
            quote!(#pattern => { #calls })
        }
        Data::Enum(e) => {
            let mut arms = TokenStream::new();
            for v in &e.variants {
                let (bindings, calls, types) = walk_fields(&v.fields, nn)?;
                walked.extend(types);
                let ident = &v.ident;
                let pattern = pattern(quote!(#name::#ident), &v.fields, &bindings);
                arms.extend(quote!(#pattern => { #calls }));
            }
            arms
        }
        Data::Union(_) => return Err(syn::Error::new_spanned(name, "a union cannot be a module")),
    };
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
                #[allow(clippy::match_single_binding)]
                match self { #arms }
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
