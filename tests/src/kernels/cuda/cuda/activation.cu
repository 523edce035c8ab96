// An activation of x + bias; bias goes along the rows.
struct Gelu {
    // The approximation by a hyperbolic tangent; 0.7978... is the root of 2 / pi.
    static __device__ float of(float x) {
        return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
    }
};

struct Silu {
    static __device__ float of(float x) { return x / (1.0f + expf(-x)); }
};

template <class Activation>
__global__ void activate(const float* x, const float* bias, float* y, unsigned count, unsigned cols) {
    const unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        y[i] = Activation::of(x[i] + bias[i % cols]);
    }
}
