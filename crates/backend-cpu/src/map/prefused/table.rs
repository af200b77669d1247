//! Loops compiled ahead of time, by `cargo xtask prefuse`.
use super::{loops, words::*};

loops! {
    /// Relu
    L0 "c c div(0,1) -> 2" (| v0 v1) -> 1 {
        let v2 = div(v0, v1);
        [v2]
    }
    /// SGD
    L1 "c x0 x1 mul(1,2) c mul(3,4) mul(0,5) mul(6,1) -> 7" (v1 v2 | v0 v4) -> 1 {
        let v3 = mul(v1, v2); let v5 = mul(v3, v4); let v6 = mul(v0, v5); let v7 = mul(v6, v1);
        [v7]
    }
    /// SGD
    L2 "c x0 x1 mul(1,2) c mul(3,4) mul(0,5) mul(6,2) -> 7" (v1 v2 | v0 v4) -> 1 {
        let v3 = mul(v1, v2); let v5 = mul(v3, v4); let v6 = mul(v0, v5); let v7 = mul(v6, v2);
        [v7]
    }
    /// one function of an element
    L3 "x0 abs(0) -> 1" (v0 | ) -> 1 {
        let v1 = abs(v0);
        [v1]
    }
    /// one function of an element and a number
    L4 "x0 c add(0,1) -> 2" (v0 | v1) -> 1 {
        let v2 = add(v0, v1);
        [v2]
    }
    /// Relu
    L5 "x0 c div(0,1) -> 2" (v0 | v1) -> 1 {
        let v2 = div(v0, v1);
        [v2]
    }
    /// one function of an element and a number
    L6 "x0 c div(1,0) -> 2" (v0 | v1) -> 1 {
        let v2 = div(v1, v0);
        [v2]
    }
    /// attention with a mask
    L7 "x0 c eq(0,1) c select(2,3,0) -> 4" (v0 | v1 v3) -> 1 {
        let v2 = eq(v0, v1); let v4 = select(v2, v3, v0);
        [v4]
    }
    /// attention with a mask
    L8 "x0 c eq(0,1) c select(2,3,0) x1 log(0) add(5,6) c eq(7,8) c select(9,10,7) -> 4 11" (v0 v5 | v1 v3 v8 v10) -> 2 {
        let v2 = eq(v0, v1); let v4 = select(v2, v3, v0); let v6 = log(v0); let v7 = add(v5, v6); let v9 = eq(v7, v8); let v11 = select(v9, v10, v7);
        [v4, v11]
    }
    /// convolution, batch norm, ReLU
    L9 "x0 c le(0,1) c x1 c mul(0,5) mul(4,6) select(2,3,7) -> 8" (v0 v4 | v1 v3 v5) -> 1 {
        let v2 = le(v0, v1); let v6 = mul(v0, v5); let v7 = mul(v4, v6); let v8 = select(v2, v3, v7);
        [v8]
    }
    /// one function of an element and a number
    L10 "x0 c maximum(0,1) -> 2" (v0 | v1) -> 1 {
        let v2 = maximum(v0, v1);
        [v2]
    }
    /// one function of an element and a number
    L11 "x0 c minimum(0,1) -> 2" (v0 | v1) -> 1 {
        let v2 = minimum(v0, v1);
        [v2]
    }
    /// one function of an element and a number
    L12 "x0 c mul(0,1) -> 2" (v0 | v1) -> 1 {
        let v2 = mul(v0, v1);
        [v2]
    }
    /// attention with a mask
    L13 "x0 c mul(0,1) c mul(0,3) c mul(0,5) -> 2 4 6" (v0 | v1 v3 v5) -> 3 {
        let v2 = mul(v0, v1); let v4 = mul(v0, v3); let v6 = mul(v0, v5);
        [v2, v4, v6]
    }
    /// SGD with momentum
    L14 "x0 c mul(0,1) x1 add(2,3) x2 c mul(4,6) sub(5,7) -> 4 8" (v0 v3 v5 | v1 v6) -> 2 {
        let v2 = mul(v0, v1); let v4 = add(v2, v3); let v7 = mul(v4, v6); let v8 = sub(v5, v7);
        [v4, v8]
    }
    /// SGD with Nesterov's momentum
    L15 "x0 c mul(0,1) x1 add(2,3) x2 mul(4,1) add(3,6) c mul(7,8) sub(5,9) -> 4 10" (v0 v3 v5 | v1 v8) -> 2 {
        let v2 = mul(v0, v1); let v4 = add(v2, v3); let v6 = mul(v4, v1); let v7 = add(v3, v6); let v9 = mul(v7, v8); let v10 = sub(v5, v9);
        [v4, v10]
    }
    /// convolution, batch norm, ReLU
    L16 "x0 c mul(0,1) x1 c mul(3,4) add(2,5) -> 6" (v0 v3 | v1 v4) -> 1 {
        let v2 = mul(v0, v1); let v5 = mul(v3, v4); let v6 = add(v2, v5);
        [v6]
    }
    /// convolution, batch norm, ReLU
    L17 "x0 c mul(0,1) x1 c mul(3,4) c mul(5,6) add(2,7) -> 8" (v0 v3 | v1 v4 v6) -> 1 {
        let v2 = mul(v0, v1); let v5 = mul(v3, v4); let v7 = mul(v5, v6); let v8 = add(v2, v7);
        [v8]
    }
    /// RMSprop
    L18 "x0 c mul(0,1) x1 mul(3,3) c mul(4,5) add(2,6) x2 c mul(3,9) sqrt(7) c add(11,12) div(10,13) sub(8,14) -> 7 15" (v0 v3 v8 | v1 v5 v9 v12) -> 2 {
        let v2 = mul(v0, v1); let v4 = mul(v3, v3); let v6 = mul(v4, v5); let v7 = add(v2, v6); let v10 = mul(v3, v9); let v11 = sqrt(v7); let v13 = add(v11, v12); let v14 = div(v10, v13); let v15 = sub(v8, v14);
        [v7, v15]
    }
    /// SGD with momentum
    L19 "x0 c mul(0,1) x1 x2 c mul(4,5) add(3,6) add(2,7) c mul(8,9) sub(4,10) -> 8 11" (v0 v3 v4 | v1 v5 v9) -> 2 {
        let v2 = mul(v0, v1); let v6 = mul(v4, v5); let v7 = add(v3, v6); let v8 = add(v2, v7); let v10 = mul(v8, v9); let v11 = sub(v4, v10);
        [v8, v11]
    }
    /// SGD with Nesterov's momentum
    L20 "x0 c mul(0,1) x1 x2 c mul(4,5) add(3,6) add(2,7) mul(8,1) add(7,9) c mul(10,11) sub(4,12) -> 8 13" (v0 v3 v4 | v1 v5 v11) -> 2 {
        let v2 = mul(v0, v1); let v6 = mul(v4, v5); let v7 = add(v3, v6); let v8 = add(v2, v7); let v9 = mul(v8, v1); let v10 = add(v7, v9); let v12 = mul(v10, v11); let v13 = sub(v4, v12);
        [v8, v13]
    }
    /// RMSprop
    L21 "x0 c mul(0,1) x1 x2 c mul(4,5) add(3,6) mul(7,7) c mul(8,9) add(2,10) c mul(7,12) sqrt(11) c add(14,15) div(13,16) sub(4,17) -> 11 18" (v0 v3 v4 | v1 v5 v9 v12 v15) -> 2 {
        let v2 = mul(v0, v1); let v6 = mul(v4, v5); let v7 = add(v3, v6); let v8 = mul(v7, v7); let v10 = mul(v8, v9); let v11 = add(v2, v10); let v13 = mul(v7, v12); let v14 = sqrt(v11); let v16 = add(v14, v15); let v17 = div(v13, v16); let v18 = sub(v4, v17);
        [v11, v18]
    }
    /// one function of an element and a number
    L22 "x0 c sub(0,1) -> 2" (v0 | v1) -> 1 {
        let v2 = sub(v0, v1);
        [v2]
    }
    /// one function of an element and a number
    L23 "x0 c sub(1,0) -> 2" (v0 | v1) -> 1 {
        let v2 = sub(v1, v0);
        [v2]
    }
    /// one function of an element
    L24 "x0 erf(0) -> 1" (v0 | ) -> 1 {
        let v1 = erf(v0);
        [v1]
    }
    /// one function of an element
    L25 "x0 exp(0) -> 1" (v0 | ) -> 1 {
        let v1 = exp(v0);
        [v1]
    }
    /// one function of an element
    L26 "x0 expm1(0) -> 1" (v0 | ) -> 1 {
        let v1 = expm1(v0);
        [v1]
    }
    /// one function of an element
    L27 "x0 gelu(0) -> 1" (v0 | ) -> 1 {
        let v1 = gelu(v0);
        [v1]
    }
    /// a scaled or shifted row and GELU
    L28 "x0 gelu(0) x1 mul(1,2) -> 3" (v0 v2 | ) -> 1 {
        let v1 = gelu(v0); let v3 = mul(v1, v2);
        [v3]
    }
    /// one function of an element
    L29 "x0 gelu_tanh(0) -> 1" (v0 | ) -> 1 {
        let v1 = gelu_tanh(v0);
        [v1]
    }
    /// a scaled or shifted row and GELU by tanh
    L30 "x0 gelu_tanh(0) x1 mul(1,2) -> 3" (v0 v2 | ) -> 1 {
        let v1 = gelu_tanh(v0); let v3 = mul(v1, v2);
        [v3]
    }
    /// one function of an element
    L31 "x0 log(0) -> 1" (v0 | ) -> 1 {
        let v1 = log(v0);
        [v1]
    }
    /// one function of an element
    L32 "x0 log1p(0) -> 1" (v0 | ) -> 1 {
        let v1 = log1p(v0);
        [v1]
    }
    /// one function of an element
    L33 "x0 neg(0) -> 1" (v0 | ) -> 1 {
        let v1 = neg(v0);
        [v1]
    }
    /// one function of an element
    L34 "x0 reciprocal(0) -> 1" (v0 | ) -> 1 {
        let v1 = reciprocal(v0);
        [v1]
    }
    /// one function of an element
    L35 "x0 relu(0) -> 1" (v0 | ) -> 1 {
        let v1 = relu(v0);
        [v1]
    }
    /// a scaled or shifted row and ReLU
    L36 "x0 relu(0) x1 mul(1,2) -> 3" (v0 v2 | ) -> 1 {
        let v1 = relu(v0); let v3 = mul(v1, v2);
        [v3]
    }
    /// one function of an element
    L37 "x0 rsqrt(0) -> 1" (v0 | ) -> 1 {
        let v1 = rsqrt(v0);
        [v1]
    }
    /// one function of an element
    L38 "x0 sigmoid(0) -> 1" (v0 | ) -> 1 {
        let v1 = sigmoid(v0);
        [v1]
    }
    /// a scaled or shifted row and sigmoid
    L39 "x0 sigmoid(0) x1 mul(1,2) -> 3" (v0 v2 | ) -> 1 {
        let v1 = sigmoid(v0); let v3 = mul(v1, v2);
        [v3]
    }
    /// recurrent cells
    L40 "x0 sigmoid(0) x1 sigmoid(2) c mul(3,4) x2 sigmoid(6) x3 tanh(8) mul(7,9) add(5,10) tanh(11) mul(1,12) -> 13" (v0 v2 v6 v8 | v4) -> 1 {
        let v1 = sigmoid(v0); let v3 = sigmoid(v2); let v5 = mul(v3, v4); let v7 = sigmoid(v6); let v9 = tanh(v8); let v10 = mul(v7, v9); let v11 = add(v5, v10); let v12 = tanh(v11); let v13 = mul(v1, v12);
        [v13]
    }
    /// recurrent cells
    L41 "x0 sigmoid(0) x1 sigmoid(2) x2 sigmoid(4) c mul(5,6) x3 sigmoid(8) x4 tanh(10) mul(9,11) add(7,12) mul(3,13) x5 sigmoid(15) x6 tanh(17) mul(16,18) add(14,19) tanh(20) mul(1,21) -> 22" (v0 v2 v4 v8 v10 v15 v17 | v6) -> 1 {
        let v1 = sigmoid(v0); let v3 = sigmoid(v2); let v5 = sigmoid(v4); let v7 = mul(v5, v6); let v9 = sigmoid(v8); let v11 = tanh(v10); let v12 = mul(v9, v11); let v13 = add(v7, v12); let v14 = mul(v3, v13); let v16 = sigmoid(v15); let v18 = tanh(v17); let v19 = mul(v16, v18); let v20 = add(v14, v19); let v21 = tanh(v20); let v22 = mul(v1, v21);
        [v22]
    }
    /// one function of an element
    L42 "x0 silu(0) -> 1" (v0 | ) -> 1 {
        let v1 = silu(v0);
        [v1]
    }
    /// a scaled or shifted row and SiLU
    L43 "x0 silu(0) x1 mul(1,2) -> 3" (v0 v2 | ) -> 1 {
        let v1 = silu(v0); let v3 = mul(v1, v2);
        [v3]
    }
    /// one function of an element
    L44 "x0 sqrt(0) -> 1" (v0 | ) -> 1 {
        let v1 = sqrt(v0);
        [v1]
    }
    /// Relu
    L45 "x0 square(0) -> 1" (v0 | ) -> 1 {
        let v1 = square(v0);
        [v1]
    }
    /// one function of an element
    L46 "x0 tanh(0) -> 1" (v0 | ) -> 1 {
        let v1 = tanh(v0);
        [v1]
    }
    /// a scaled or shifted row and tanh
    L47 "x0 tanh(0) x1 mul(1,2) -> 3" (v0 v2 | ) -> 1 {
        let v1 = tanh(v0); let v3 = mul(v1, v2);
        [v3]
    }
    /// one function of two elements
    L48 "x0 x1 add(0,1) -> 2" (v0 v1 | ) -> 1 {
        let v2 = add(v0, v1);
        [v2]
    }
    /// Hardswish
    L49 "x0 x1 add(0,1) c add(2,3) c le(4,5) c c ge(4,8) c select(9,10,4) select(6,7,11) mul(2,12) c div(13,14) -> 15" (v0 v1 | v3 v5 v7 v8 v10 v14) -> 1 {
        let v2 = add(v0, v1); let v4 = add(v2, v3); let v6 = le(v4, v5); let v9 = ge(v4, v8); let v11 = select(v9, v10, v4); let v12 = select(v6, v7, v11); let v13 = mul(v2, v12); let v15 = div(v13, v14);
        [v15]
    }
    /// LeakyRelu
    L50 "x0 x1 add(0,1) c gt(2,3) c mul(2,5) select(4,2,6) -> 7" (v0 v1 | v3 v5) -> 1 {
        let v2 = add(v0, v1); let v4 = gt(v2, v3); let v6 = mul(v2, v5); let v7 = select(v4, v2, v6);
        [v7]
    }
    /// Elu
    L51 "x0 x1 add(0,1) c gt(2,3) c select(4,5,2) c mul(6,7) expm1(8) c mul(9,10) select(4,2,11) -> 12" (v0 v1 | v3 v5 v7 v10) -> 1 {
        let v2 = add(v0, v1); let v4 = gt(v2, v3); let v6 = select(v4, v5, v2); let v8 = mul(v6, v7); let v9 = expm1(v8); let v11 = mul(v9, v10); let v12 = select(v4, v2, v11);
        [v12]
    }
    /// Hardsigmoid
    L52 "x0 x1 add(0,1) c le(2,3) c c ge(2,6) c c div(2,9) c add(10,11) select(7,8,12) select(4,5,13) -> 14" (v0 v1 | v3 v5 v6 v8 v9 v11) -> 1 {
        let v2 = add(v0, v1); let v4 = le(v2, v3); let v7 = ge(v2, v6); let v10 = div(v2, v9); let v12 = add(v10, v11); let v13 = select(v7, v8, v12); let v14 = select(v4, v5, v13);
        [v14]
    }
    /// Relu6
    L53 "x0 x1 add(0,1) c le(2,3) c c ge(2,6) c select(7,8,2) select(4,5,9) -> 10" (v0 v1 | v3 v5 v6 v8) -> 1 {
        let v2 = add(v0, v1); let v4 = le(v2, v3); let v7 = ge(v2, v6); let v9 = select(v7, v8, v2); let v10 = select(v4, v5, v9);
        [v10]
    }
    /// Gelu
    L54 "x0 x1 add(0,1) gelu(2) -> 3" (v0 v1 | ) -> 1 {
        let v2 = add(v0, v1); let v3 = gelu(v2);
        [v3]
    }
    /// GELU by tanh
    L55 "x0 x1 add(0,1) gelu_tanh(2) -> 3" (v0 v1 | ) -> 1 {
        let v2 = add(v0, v1); let v3 = gelu_tanh(v2);
        [v3]
    }
    /// a scaled or shifted row and ReLU
    L56 "x0 x1 add(0,1) relu(2) -> 3" (v0 v1 | ) -> 1 {
        let v2 = add(v0, v1); let v3 = relu(v2);
        [v3]
    }
    /// a scaled or shifted row and sigmoid
    L57 "x0 x1 add(0,1) sigmoid(2) -> 3" (v0 v1 | ) -> 1 {
        let v2 = add(v0, v1); let v3 = sigmoid(v2);
        [v3]
    }
    /// Silu
    L58 "x0 x1 add(0,1) silu(2) -> 3" (v0 v1 | ) -> 1 {
        let v2 = add(v0, v1); let v3 = silu(v2);
        [v3]
    }
    /// a scaled or shifted row and tanh
    L59 "x0 x1 add(0,1) tanh(2) -> 3" (v0 v1 | ) -> 1 {
        let v2 = add(v0, v1); let v3 = tanh(v2);
        [v3]
    }
    /// SGD
    L60 "x0 x1 c mul(0,2) add(1,3) c mul(4,5) sub(0,6) -> 7" (v0 v1 | v2 v5) -> 1 {
        let v3 = mul(v0, v2); let v4 = add(v1, v3); let v6 = mul(v4, v5); let v7 = sub(v0, v6);
        [v7]
    }
    /// Relu
    L61 "x0 x1 c mul(1,2) mul(0,3) -> 4" (v0 v1 | v2) -> 1 {
        let v3 = mul(v1, v2); let v4 = mul(v0, v3);
        [v4]
    }
    /// SGD
    L62 "x0 x1 c mul(1,2) sub(0,3) -> 4" (v0 v1 | v2) -> 1 {
        let v3 = mul(v1, v2); let v4 = sub(v0, v3);
        [v4]
    }
    /// one function of two elements
    L63 "x0 x1 div(0,1) -> 2" (v0 v1 | ) -> 1 {
        let v2 = div(v0, v1);
        [v2]
    }
    /// one function of two elements
    L64 "x0 x1 maximum(0,1) -> 2" (v0 v1 | ) -> 1 {
        let v2 = maximum(v0, v1);
        [v2]
    }
    /// one function of two elements
    L65 "x0 x1 minimum(0,1) -> 2" (v0 v1 | ) -> 1 {
        let v2 = minimum(v0, v1);
        [v2]
    }
    /// SGD
    L66 "x0 x1 mul(0,1) -> 2" (v0 v1 | ) -> 1 {
        let v2 = mul(v0, v1);
        [v2]
    }
    /// SGD
    L67 "x0 x1 mul(0,1) square(2) -> 3" (v0 v1 | ) -> 1 {
        let v2 = mul(v0, v1); let v3 = square(v2);
        [v3]
    }
    /// a scaled and shifted row
    L68 "x0 x1 mul(0,1) x2 add(2,3) -> 4" (v0 v1 v3 | ) -> 1 {
        let v2 = mul(v0, v1); let v4 = add(v2, v3);
        [v4]
    }
    /// a scaled or shifted row and GELU
    L69 "x0 x1 mul(0,1) x2 add(2,3) gelu(4) -> 5" (v0 v1 v3 | ) -> 1 {
        let v2 = mul(v0, v1); let v4 = add(v2, v3); let v5 = gelu(v4);
        [v5]
    }
    /// a scaled or shifted row and GELU by tanh
    L70 "x0 x1 mul(0,1) x2 add(2,3) gelu_tanh(4) -> 5" (v0 v1 v3 | ) -> 1 {
        let v2 = mul(v0, v1); let v4 = add(v2, v3); let v5 = gelu_tanh(v4);
        [v5]
    }
    /// a scaled or shifted row and ReLU
    L71 "x0 x1 mul(0,1) x2 add(2,3) relu(4) -> 5" (v0 v1 v3 | ) -> 1 {
        let v2 = mul(v0, v1); let v4 = add(v2, v3); let v5 = relu(v4);
        [v5]
    }
    /// a scaled or shifted row and sigmoid
    L72 "x0 x1 mul(0,1) x2 add(2,3) sigmoid(4) -> 5" (v0 v1 v3 | ) -> 1 {
        let v2 = mul(v0, v1); let v4 = add(v2, v3); let v5 = sigmoid(v4);
        [v5]
    }
    /// a scaled or shifted row and SiLU
    L73 "x0 x1 mul(0,1) x2 add(2,3) silu(4) -> 5" (v0 v1 v3 | ) -> 1 {
        let v2 = mul(v0, v1); let v4 = add(v2, v3); let v5 = silu(v4);
        [v5]
    }
    /// a scaled or shifted row and tanh
    L74 "x0 x1 mul(0,1) x2 add(2,3) tanh(4) -> 5" (v0 v1 v3 | ) -> 1 {
        let v2 = mul(v0, v1); let v4 = add(v2, v3); let v5 = tanh(v4);
        [v5]
    }
    /// Adagrad
    L75 "x0 x1 mul(1,1) add(0,2) x2 c mul(1,5) sqrt(3) c add(7,8) div(6,9) sub(4,10) -> 3 11" (v0 v1 v4 | v5 v8) -> 2 {
        let v2 = mul(v1, v1); let v3 = add(v0, v2); let v6 = mul(v1, v5); let v7 = sqrt(v3); let v9 = add(v7, v8); let v10 = div(v6, v9); let v11 = sub(v4, v10);
        [v3, v11]
    }
    /// recurrent cells
    L76 "x0 x1 sigmoid(1) x2 sigmoid(3) c mul(4,5) x3 sigmoid(7) x4 tanh(9) mul(8,10) add(6,11) mul(2,12) x5 sigmoid(14) x6 tanh(16) mul(15,17) add(13,18) tanh(19) mul(0,20) x7 sigmoid(22) c sub(24,23) mul(23,25) mul(21,26) mul(0,23) c sub(29,20) c add(20,31) mul(30,32) mul(28,33) mul(34,15) c sub(36,17) c add(17,38) mul(37,39) mul(35,40) mul(34,17) c sub(43,15) mul(15,44) mul(42,45) mul(34,12) c sub(48,2) mul(2,49) mul(47,50) -> 27 41 46 51" (v0 v1 v3 v7 v9 v14 v16 v22 | v5 v24 v29 v31 v36 v38 v43 v48) -> 4 {
        let v2 = sigmoid(v1); let v4 = sigmoid(v3); let v6 = mul(v4, v5); let v8 = sigmoid(v7); let v10 = tanh(v9); let v11 = mul(v8, v10); let v12 = add(v6, v11); let v13 = mul(v2, v12); let v15 = sigmoid(v14); let v17 = tanh(v16); let v18 = mul(v15, v17); let v19 = add(v13, v18); let v20 = tanh(v19); let v21 = mul(v0, v20); let v23 = sigmoid(v22); let v25 = sub(v24, v23); let v26 = mul(v23, v25); let v27 = mul(v21, v26); let v28 = mul(v0, v23); let v30 = sub(v29, v20); let v32 = add(v20, v31); let v33 = mul(v30, v32); let v34 = mul(v28, v33); let v35 = mul(v34, v15); let v37 = sub(v36, v17); let v39 = add(v17, v38); let v40 = mul(v37, v39); let v41 = mul(v35, v40); let v42 = mul(v34, v17); let v44 = sub(v43, v15); let v45 = mul(v15, v44); let v46 = mul(v42, v45); let v47 = mul(v34, v12); let v49 = sub(v48, v2); let v50 = mul(v2, v49); let v51 = mul(v47, v50);
        [v27, v41, v46, v51]
    }
    /// one function of two elements
    L77 "x0 x1 sub(0,1) -> 2" (v0 v1 | ) -> 1 {
        let v2 = sub(v0, v1);
        [v2]
    }
    /// L1 loss
    L78 "x0 x1 sub(0,1) abs(2) -> 3" (v0 v1 | ) -> 1 {
        let v2 = sub(v0, v1); let v3 = abs(v2);
        [v3]
    }
    /// Huber loss
    L79 "x0 x1 sub(0,1) abs(2) c le(3,4) c select(5,3,6) square(7) c mul(8,9) c sub(3,11) c mul(12,13) select(5,10,14) -> 15" (v0 v1 | v4 v6 v9 v11 v13) -> 1 {
        let v2 = sub(v0, v1); let v3 = abs(v2); let v5 = le(v3, v4); let v7 = select(v5, v3, v6); let v8 = square(v7); let v10 = mul(v8, v9); let v12 = sub(v3, v11); let v14 = mul(v12, v13); let v15 = select(v5, v10, v14);
        [v15]
    }
    /// smooth L1 loss
    L80 "x0 x1 sub(0,1) abs(2) c lt(3,4) square(3) c mul(6,7) c sub(3,9) select(5,8,10) -> 11" (v0 v1 | v4 v7 v9) -> 1 {
        let v2 = sub(v0, v1); let v3 = abs(v2); let v5 = lt(v3, v4); let v6 = square(v3); let v8 = mul(v6, v7); let v10 = sub(v3, v9); let v11 = select(v5, v8, v10);
        [v11]
    }
    /// attention with a mask
    L81 "x0 x1 sub(0,1) exp(2) -> 3" (v0 v1 | ) -> 1 {
        let v2 = sub(v0, v1); let v3 = exp(v2);
        [v3]
    }
    /// mean squared error
    L82 "x0 x1 sub(0,1) square(2) -> 3" (v0 v1 | ) -> 1 {
        let v2 = sub(v0, v1); let v3 = square(v2);
        [v3]
    }
    /// AdamW
    L83 "x0 x1 sub(1,0) c mul(2,3) add(0,4) x2 c mul(6,7) mul(1,1) c mul(9,10) add(8,11) x3 c mul(13,14) x4 mul(5,16) sqrt(12) x5 add(18,19) div(17,20) sub(15,21) -> 5 12 22" (v0 v1 v6 v13 v16 v19 | v3 v7 v10 v14) -> 3 {
        let v2 = sub(v1, v0); let v4 = mul(v2, v3); let v5 = add(v0, v4); let v8 = mul(v6, v7); let v9 = mul(v1, v1); let v11 = mul(v9, v10); let v12 = add(v8, v11); let v15 = mul(v13, v14); let v17 = mul(v5, v16); let v18 = sqrt(v12); let v20 = add(v18, v19); let v21 = div(v17, v20); let v22 = sub(v15, v21);
        [v5, v12, v22]
    }
    /// Adam
    L84 "x0 x1 sub(1,0) c mul(2,3) add(0,4) x2 c mul(6,7) mul(1,1) c mul(9,10) add(8,11) x3 x4 mul(5,14) sqrt(12) x5 add(16,17) div(15,18) sub(13,19) -> 5 12 20" (v0 v1 v6 v13 v14 v17 | v3 v7 v10) -> 3 {
        let v2 = sub(v1, v0); let v4 = mul(v2, v3); let v5 = add(v0, v4); let v8 = mul(v6, v7); let v9 = mul(v1, v1); let v11 = mul(v9, v10); let v12 = add(v8, v11); let v15 = mul(v5, v14); let v16 = sqrt(v12); let v18 = add(v16, v17); let v19 = div(v15, v18); let v20 = sub(v13, v19);
        [v5, v12, v20]
    }
    /// recurrent cells
    L85 "x0 x1 x2 add(1,2) sigmoid(3) mul(0,4) neg(5) add(0,6) x3 x4 x5 add(9,10) sigmoid(11) x6 mul(12,13) add(8,14) tanh(15) c sub(17,16) c add(16,19) mul(18,20) mul(7,21) mul(22,12) x7 sub(24,16) mul(0,25) c sub(27,4) mul(4,28) mul(26,29) mul(22,13) c sub(32,12) mul(12,33) mul(31,34) -> 22 23 30 35" (v0 v1 v2 v8 v9 v10 v13 v24 | v17 v19 v27 v32) -> 4 {
        let v3 = add(v1, v2); let v4 = sigmoid(v3); let v5 = mul(v0, v4); let v6 = neg(v5); let v7 = add(v0, v6); let v11 = add(v9, v10); let v12 = sigmoid(v11); let v14 = mul(v12, v13); let v15 = add(v8, v14); let v16 = tanh(v15); let v18 = sub(v17, v16); let v20 = add(v16, v19); let v21 = mul(v18, v20); let v22 = mul(v7, v21); let v23 = mul(v22, v12); let v25 = sub(v24, v16); let v26 = mul(v0, v25); let v28 = sub(v27, v4); let v29 = mul(v4, v28); let v30 = mul(v26, v29); let v31 = mul(v22, v13); let v33 = sub(v32, v12); let v34 = mul(v12, v33); let v35 = mul(v31, v34);
        [v22, v23, v30, v35]
    }
    /// recurrent cells
    L86 "x0 x1 x2 add(1,2) sigmoid(3) x3 mul(4,5) add(0,6) tanh(7) x4 x5 add(9,10) sigmoid(11) c sub(13,8) mul(12,14) add(8,15) -> 16" (v0 v1 v2 v5 v9 v10 | v13) -> 1 {
        let v3 = add(v1, v2); let v4 = sigmoid(v3); let v6 = mul(v4, v5); let v7 = add(v0, v6); let v8 = tanh(v7); let v11 = add(v9, v10); let v12 = sigmoid(v11); let v14 = sub(v13, v8); let v15 = mul(v12, v14); let v16 = add(v8, v15);
        [v16]
    }
    /// recurrent cells
    L87 "x0 x1 x2 add(1,2) sigmoid(3) x3 mul(4,5) add(0,6) tanh(7) x4 x5 add(9,10) sigmoid(11) x6 sub(13,8) mul(12,14) add(8,15) -> 16" (v0 v1 v2 v5 v9 v10 v13 | ) -> 1 {
        let v3 = add(v1, v2); let v4 = sigmoid(v3); let v6 = mul(v4, v5); let v7 = add(v0, v6); let v8 = tanh(v7); let v11 = add(v9, v10); let v12 = sigmoid(v11); let v14 = sub(v13, v8); let v15 = mul(v12, v14); let v16 = add(v8, v15);
        [v16]
    }
    /// Adagrad
    L88 "x0 x1 x2 c mul(2,3) add(1,4) mul(5,5) add(0,6) c mul(5,8) sqrt(7) c add(10,11) div(9,12) sub(2,13) -> 7 14" (v0 v1 v2 | v3 v8 v11) -> 2 {
        let v4 = mul(v2, v3); let v5 = add(v1, v4); let v6 = mul(v5, v5); let v7 = add(v0, v6); let v9 = mul(v5, v8); let v10 = sqrt(v7); let v12 = add(v10, v11); let v13 = div(v9, v12); let v14 = sub(v2, v13);
        [v7, v14]
    }
    /// Adam
    L89 "x0 x1 x2 c mul(2,3) add(1,4) sub(5,0) c mul(6,7) add(0,8) x3 c mul(10,11) mul(5,5) c mul(13,14) add(12,15) x4 mul(9,17) sqrt(16) x5 add(19,20) div(18,21) sub(2,22) -> 9 16 23" (v0 v1 v2 v10 v17 v20 | v3 v7 v11 v14) -> 3 {
        let v4 = mul(v2, v3); let v5 = add(v1, v4); let v6 = sub(v5, v0); let v8 = mul(v6, v7); let v9 = add(v0, v8); let v12 = mul(v10, v11); let v13 = mul(v5, v5); let v15 = mul(v13, v14); let v16 = add(v12, v15); let v18 = mul(v9, v17); let v19 = sqrt(v16); let v21 = add(v19, v20); let v22 = div(v18, v21); let v23 = sub(v2, v22);
        [v9, v16, v23]
    }
    /// mean squared error
    L90 "x0 x1 x2 sub(1,2) c mul(3,4) mul(0,5) -> 6" (v0 v1 v2 | v4) -> 1 {
        let v3 = sub(v1, v2); let v5 = mul(v3, v4); let v6 = mul(v0, v5);
        [v6]
    }
    /// recurrent cells
    L91 "x0 x1 x2 x3 add(2,3) sigmoid(4) mul(1,5) add(0,6) x4 add(7,8) x5 x6 add(10,11) sigmoid(12) mul(9,13) neg(14) add(9,15) x7 x8 x9 add(18,19) sigmoid(20) x10 mul(21,22) add(17,23) tanh(24) c sub(26,25) c add(25,28) mul(27,29) mul(16,30) mul(31,21) c sub(33,25) mul(9,34) c sub(36,13) mul(13,37) mul(35,38) mul(31,22) c sub(41,21) mul(21,42) mul(40,43) -> 31 32 39 44" (v0 v1 v2 v3 v8 v10 v11 v17 v18 v19 v22 | v26 v28 v33 v36 v41) -> 4 {
        let v4 = add(v2, v3); let v5 = sigmoid(v4); let v6 = mul(v1, v5); let v7 = add(v0, v6); let v9 = add(v7, v8); let v12 = add(v10, v11); let v13 = sigmoid(v12); let v14 = mul(v9, v13); let v15 = neg(v14); let v16 = add(v9, v15); let v20 = add(v18, v19); let v21 = sigmoid(v20); let v23 = mul(v21, v22); let v24 = add(v17, v23); let v25 = tanh(v24); let v27 = sub(v26, v25); let v29 = add(v25, v28); let v30 = mul(v27, v29); let v31 = mul(v16, v30); let v32 = mul(v31, v21); let v34 = sub(v33, v25); let v35 = mul(v9, v34); let v37 = sub(v36, v13); let v38 = mul(v13, v37); let v39 = mul(v35, v38); let v40 = mul(v31, v22); let v42 = sub(v41, v21); let v43 = mul(v21, v42); let v44 = mul(v40, v43);
        [v31, v32, v39, v44]
    }
}
