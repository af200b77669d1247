//! What errors tell, of every function and every way to call it wrongly that the registry knows.
use adamant_conformance::{lines, registry::entries, wrong::JudgedErrors};
use adamant_core::{DType, Device, Error, ErrorKind, Tensor};

#[test]
fn an_error_that_does_not_tell_what_its_kind_must() {
    let texts = lines::lint(Device::reference()).texts;
    println!("{} errors, without a hint {:?}, {} snippets", texts.told, texts.without_hint, texts.snippets.len());
    assert!(texts.told > 5000, "{}", texts.told);
    let lines = texts.lines();
    assert!(lines.is_empty(), "{} offences:\n{}", lines.len(), lines.join("\n"));
}
/// A text that lacks something is found.
#[test]
fn a_text_that_lacks_a_fact_is_found() {
    let ty = |t: &Tensor| adamant_core::TensorType { shape: t.shape().unwrap(), dtype: t.dtype().unwrap() };
    Device::reference().scoped(|| {
        let x = Tensor::zeros([2, 3]);
        let cases: Vec<(&str, Error)> = vec![
            ("the function that was called", Error::new("gather", ErrorKind::Argument("no".into())).given([ty(&x)])),
            ("what was given", Error::new("i", ErrorKind::Argument("no".into()))),
            ("the axis", Error::new("i", ErrorKind::Index { index: 3, axis: None, bound: 2, position: Some(1) })),
            ("a cause that is no bug of the library's", Error::new("i", ErrorKind::Internal("no".into()))),
            ("code apart from words in the hint", Error::new("i", ErrorKind::Argument("no".into())).given([ty(&x)]).hint("use `x.cast(DType::F32)`")),
        ];
        for (lacks, error) in cases {
            let mut judged = JudgedErrors::default();
            judged.judge(("Tensor::i", "x[0].i(3)"), true, "planted", &error);
            assert_eq!(judged.offences.keys().copied().collect::<Vec<_>>(), [lacks], "{error}");
        }
        let mut judged = JudgedErrors::default();
        let good = x.cast(DType::F32).sum(7).error().unwrap();
        judged.judge(("Tensor::sum", "x[0].sum(7)"), true, "right", &good);
        assert!(judged.offences.is_empty(), "{:?}", judged.offences);
    });
    assert!(entries().iter().flat_map(|e| &e.errors).count() > 250);
}
