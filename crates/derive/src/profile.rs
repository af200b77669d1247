//! `#[profile]`: a guard as the first statement of a function.
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Ident, ItemFn, LitStr};

pub fn expand(name: TokenStream, function: TokenStream) -> syn::Result<TokenStream> {
    let ItemFn { attrs, vis, sig, block } = syn::parse2(function)?;
    let name = if name.is_empty() { LitStr::new(&sig.ident.to_string(), sig.ident.span()) } else { syn::parse2(name)? };
    if let Some(word) = &sig.asyncness {
        return Err(syn::Error::new_spanned(word, "a range belongs to a thread, and an async function to none: name the blocks between its awaits"));
    }
    if let Some(word) = &sig.constness {
        return Err(syn::Error::new_spanned(word, "a const function may run where there is no clock"));
    }
    // A name that the function itself cannot say.
    let range = Ident::new("range", Span::mixed_site());
    let statements = &block.stmts;
    Ok(quote! {
        #(#attrs)*
        #vis #sig {
            let #range = ::adamant::profile::record_function(#name);
            #(#statements)*
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_cannot_be_a_range_and_becomes_one() {
        let refused = |name: &str, function: &str| expand(name.parse().unwrap(), function.parse().unwrap()).map(|t| t.to_string());
        for (name, function) in [("", "async fn f() {}"), ("", "const fn f() {}"), ("", "struct S;"), ("name", "fn f() {}"), ("\"a\", 1", "fn f() {}")] {
            assert!(refused(name, function).is_err(), "{function}");
        }
        let kept = refused("\"named\"", "/// text\n pub unsafe fn f<T: Copy>(mut range: T) -> T where T: Send { range = range; range }").unwrap();
        assert!(kept.contains("record_function (\"named\")") && kept.contains("pub unsafe fn f < T : Copy >") && kept.contains("text"), "{kept}");
    }
}
