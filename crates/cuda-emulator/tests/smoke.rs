mod rig;
use rig::*;
#[test]
fn corpora_load() {
    for f in ["all", "fast", "b", "kern"] {
        let t = std::fs::read_to_string(format!("/tmp/hE1-w/{f}.ptx")).unwrap();
        let t0 = std::time::Instant::now();
        match adamant_cuda_emulator::machine::Module::parse(&t) {
            Ok(m) => println!("{f}: {} kernels {:?}", m.kernels().count(), t0.elapsed()),
            Err(e) => println!("{f}: {e}"),
        }
    }
}
#[test]
fn simple() {
    let Some(rig) = Rig::of(
        r#"extern "C" __global__ void f(float*o,const float*x,float a,int n){int i=blockIdx.x*blockDim.x+threadIdx.x;if(i<n)o[i]=a*x[i]+expf(x[i]);}
extern "C" __global__ void speed(float*o,int n){float a=threadIdx.x,b=1.0f;int c=threadIdx.x;for(int i=0;i<n;i++){a=a*1.0001f+b;b=b-a*0.5f;c=c*3+i;b+=1.5f;c^=i;}o[threadIdx.x]=a+b+c;}"#,
        &["-arch=sm_90a"],
    ) else {
        return;
    };
    let x: Vec<f32> = (0..1000).map(|i| i as f32 * 0.01 - 5.0).collect();
    let (a, o) = (rig.upload(&x), rig.empty::<f32>(1000));
    let ran = rig.go("f", 8, 128, &[Arg::P(o), Arg::P(a), Arg::F(2.0), Arg::I(1000)]);
    println!("{ran:?}");
    let y: Vec<f32> = rig.download(o, 1000);
    for i in 0..1000 {
        assert!((y[i] - (2.0 * x[i] + x[i].exp())).abs() < 1e-4, "{i} {}", y[i]);
    }
    let t0 = std::time::Instant::now();
    let ran = rig.go("speed", 1, 32, &[Arg::P(o), Arg::I(1000000)]);
    let t = t0.elapsed();
    println!("{ran:?} {t:?} {} ns", t.as_nanos() as f64 / ran.instructions as f64);
}
