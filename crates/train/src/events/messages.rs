//! The protobuf messages of an event file, as far as this program writes them. Numbers of fields and their types are
//! those of TensorFlow's `event.proto`, `summary.proto` and `tensor.proto`; fields that are not listed are skipped when
//! read.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    #[prost(double, tag = "1")]
    pub wall_time: f64,
    #[prost(int64, tag = "2")]
    pub step: i64,
    #[prost(oneof = "EventWhat", tags = "3, 5, 7")]
    pub what: Option<EventWhat>,
}
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum EventWhat {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    SessionLog(SessionLog),
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct SessionLog {
    /// 1: start
    #[prost(int32, tag = "1")]
    pub status: i32,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub value: Vec<Value>,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct Value {
    #[prost(string, tag = "1")]
    pub tag: String,
    #[prost(message, optional, tag = "9")]
    pub metadata: Option<SummaryMetadata>,
    #[prost(oneof = "ValueMeasured", tags = "2, 5, 8")]
    pub measured: Option<ValueMeasured>,
}
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ValueMeasured {
    #[prost(float, tag = "2")]
    SimpleValue(f32),
    #[prost(message, tag = "5")]
    Histogram(Histogram),
    #[prost(message, tag = "8")]
    Tensor(TensorProto),
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct SummaryMetadata {
    #[prost(message, optional, tag = "1")]
    pub plugin_data: Option<PluginData>,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct PluginData {
    #[prost(string, tag = "1")]
    pub plugin_name: String,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct Histogram {
    #[prost(double, tag = "1")]
    pub min: f64,
    #[prost(double, tag = "2")]
    pub max: f64,
    #[prost(double, tag = "3")]
    pub num: f64,
    #[prost(double, tag = "4")]
    pub sum: f64,
    #[prost(double, tag = "5")]
    pub sum_squares: f64,
    /// the right ends of the buckets
    #[prost(double, repeated, tag = "6")]
    pub bucket_limit: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    pub bucket: Vec<f64>,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorProto {
    /// 7: string
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShape>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub string_val: Vec<Vec<u8>>,
}
/// A scalar's shape: no axes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorShape {}
