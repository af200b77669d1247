//! What the weights of a run tell: the layers with their parameters, and how strongly each input counts for the first of
//! them. Must not know how a model is built: names, shapes and the description's own words are enough.
use super::{files::by_layer, sections::name};
use crate::plot::{Plot, Series, Stroke, escape};
use adamant_core::Device;
use adamant_formats::safetensors::SafeTensors;
use std::{collections::BTreeMap, fmt::Write, path::Path};
use toml::de::{DeTable, DeValue};

/// The most layers that are listed, and the most inputs that are drawn.
const MAX_LAYERS: usize = 400;
const MAX_INPUTS: usize = 1 << 16;
/// A larger weight is not read for a picture.
const MAX_ELEMENTS: usize = 1 << 26;

/// What `weights.safetensors` holds.
#[derive(Default)]
pub struct FileWeights {
    /// name and shape, by layer: `2.weight` before `10.weight`
    pub shapes: Vec<(String, Vec<usize>)>,
    /// the first weight of two axes or more, and for each of its inputs the root of the sum of squares
    pub inputs: Option<(String, Vec<f64>)>,
}
/// Reads them.
///
/// # Errors
/// The file cannot be read, in words.
pub fn read(path: &Path) -> Result<FileWeights, String> {
    let file = SafeTensors::open(path).map_err(|e| e.kind().to_string())?;
    let mut names = file.names();
    names.sort_by_cached_key(|n| by_layer(n));
    let mut weights = FileWeights::default();
    for name in names {
        let (dtype, shape) = file.meta(&name).map_err(|e| e.kind().to_string())?;
        let is_first = weights.inputs.is_none() && shape.rank() >= 2 && dtype.is_float() && shape[1] <= MAX_INPUTS && shape.elements() <= MAX_ELEMENTS;
        if is_first {
            let values = file.tensor(&name, Device::reference()).and_then(|t| t.to_vec_as::<f64>()).map_err(|e| e.kind().to_string())?;
            // [outputs, inputs, the rest of a kernel]
            let (inputs, rest) = (shape[1], shape[2..].iter().product::<usize>());
            let mut squares = vec![0.0f64; inputs];
            values.chunks(rest.max(1)).enumerate().for_each(|(k, of_input)| squares[k % inputs.max(1)] += of_input.iter().map(|v| v * v).sum::<f64>());
            weights.inputs = Some((name.clone(), squares.into_iter().map(f64::sqrt).collect()));
        }
        weights.shapes.push((name, shape.to_vec()));
    }
    Ok(weights)
}

/// A layer of the description, in its words.
struct DescribedLayer {
    name: String,
    kind: String,
}
/// The layers that a description lists.
fn described(config: Option<&str>) -> Vec<DescribedLayer> {
    let layers = |text: &str| -> Option<Vec<DescribedLayer>> {
        let all = DeValue::Table(DeTable::parse(text).ok()?.into_inner());
        let list = all.get("model")?.get_ref().get("layers")?.get_ref().as_array()?;
        let word = |layer: &DeValue<'_>, key: &str| Some(layer.get(key)?.get_ref().as_str()?.to_string());
        let layer =
            |k: usize, l: &DeValue<'_>| DescribedLayer { name: word(l, "name").unwrap_or_else(|| k.to_string()), kind: word(l, "kind").unwrap_or_default() };
        Some(list.iter().enumerate().map(|(k, l)| layer(k, l.get_ref())).collect())
    };
    config.and_then(layers).unwrap_or_default()
}
/// The table of layers: those of the description in its order, with what they hold, then what else there are weights of.
pub fn architecture(config: Option<&str>, weights: &FileWeights) -> String {
    let first = |name: &str| name.split('.').next().unwrap_or(name).to_string();
    let mut held: BTreeMap<String, Vec<&(String, Vec<usize>)>> = BTreeMap::new();
    weights.shapes.iter().for_each(|w| held.entry(first(&w.0)).or_default().push(w));
    let mut layers = described(config);
    for (name, _) in &weights.shapes {
        if !layers.iter().any(|l| l.name == first(name)) {
            layers.push(DescribedLayer { name: first(name), kind: String::new() });
        }
    }
    if layers.is_empty() {
        return String::new();
    }
    let count = |of: &[&(String, Vec<usize>)]| of.iter().map(|w| w.1.iter().product::<usize>()).sum::<usize>();
    let total: usize = held.values().map(|of| count(of)).sum();
    let mut out = format!(
        "<p class=\"hint\">{total} numbers in {} tensors.</p><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Layers\"><table class=\"rows\">\
         <thead><tr><th scope=\"col\">Layer</th><th scope=\"col\">Kind</th><th scope=\"col\">Tensors</th><th scope=\"col\">Numbers</th></tr></thead><tbody>",
        weights.shapes.len()
    );
    for layer in layers.iter().take(MAX_LAYERS) {
        let of = held.get(&layer.name).map_or(&[][..], |of| of);
        let shapes: Vec<String> = of.iter().map(|(n, shape)| format!("{} {shape:?}", n.strip_prefix(&format!("{}.", layer.name)).unwrap_or(n))).collect();
        let kind = if layer.kind.is_empty() { "–".to_string() } else { escape(&layer.kind) };
        let tensors = if shapes.is_empty() { "–".to_string() } else { escape(&shapes.join(", ")) };
        let _ = write!(out, "<tr><th scope=\"row\">{}</th><td>{kind}</td><td>{tensors}</td><td>{}</td></tr>", name(&layer.name), count(of));
    }
    if layers.len() > MAX_LAYERS {
        let _ = write!(out, "<tr><th scope=\"row\">…</th><td colspan=\"3\">{} more</td></tr>", layers.len() - MAX_LAYERS);
    }
    out + "</tbody></table></div>"
}
/// How strongly each input counts: the norm of its weights in the first layer.
pub fn features(weights: &FileWeights) -> String {
    let Some((of, norms)) = weights.inputs.as_ref().filter(|(_, norms)| norms.len() > 1) else { return String::new() };
    let points = norms.iter().enumerate().map(|(k, v)| (k as f64, *v)).collect();
    let plot = Plot {
        title: "Norm of each input's weights".into(),
        x_label: "input".into(),
        y_label: "norm".into(),
        series: vec![Series { name: of.clone(), points, stroke: Stroke::Solid, colour: 0 }],
        ..Plot::default()
    };
    let mut order: Vec<usize> = (0..norms.len()).collect();
    order.sort_by(|a, b| norms[*b].total_cmp(&norms[*a]).then(a.cmp(b)));
    let strongest: Vec<String> = order.iter().take(8).map(|k| format!("{k} ({:.3})", norms[*k])).collect();
    format!(
        "<p class=\"hint\">The weights of {} by input: what the first layer looks at. The strongest: {}.</p><div class=\"plots\"><figure>{}</figure></div>",
        name(of),
        strongest.join(", "),
        plot.svg("plot-features")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_core::Tensor;

    #[test]
    fn a_layer_an_input_or_a_count_that_the_page_gets_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.safetensors");
        Device::reference().make_current();
        let weight = Tensor::from_vec(vec![3.0f32, 0.0, 1.0, 4.0, 0.0, 0.0], [2, 3]);
        let state = [("10.weight", Tensor::zeros([2, 2])), ("0.weight", weight), ("0.bias", Tensor::zeros([2]))];
        adamant_formats::safetensors::save(&path, state, &BTreeMap::new()).unwrap();
        let weights = read(&path).unwrap();
        assert_eq!(weights.shapes.iter().map(|s| &*s.0).collect::<Vec<_>>(), ["0.bias", "0.weight", "10.weight"]);
        assert_eq!(weights.inputs, Some(("0.weight".into(), vec![5.0, 0.0, 1.0])));
        let config = "[model]\nlayers = [{ kind = \"Linear\" }, { kind = \"<ReLU>\" }]\n";
        let table = architecture(Some(config), &weights);
        for expected in ["12 numbers in 3 tensors", "Linear", "weight [2, 3]", "&lt;ReLU&gt;", "<td>8</td>", "<td>4</td>"] {
            assert!(table.contains(expected), "{expected}: {table}");
        }
        assert!(features(&weights).contains("0 (5.000), 2 (1.000), 1 (0.000)"));
        assert!(architecture(None, &FileWeights::default()).is_empty() && features(&FileWeights::default()).is_empty());
        assert!(read(&folder.path().join("none")).is_err());
    }
}
