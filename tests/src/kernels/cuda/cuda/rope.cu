// Rotary embedding, in place: turns each pair (x[i], x[half + i]) of a head by the angle of its position.
// A thread takes a pair.
extern "C" __global__ void rope(
    float* x, const float* cosines, const float* sines, unsigned positions, unsigned heads, unsigned half
) {
    const unsigned pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= positions * heads * half) {
        return;
    }
    const unsigned i = pair % half;
    const unsigned head = pair / half;
    const unsigned angle = head / heads * half + i;
    float* first = x + size_t(head) * 2 * half + i;

    const float a = first[0];
    const float b = first[half];
    first[0] = a * cosines[angle] - b * sines[angle];
    first[half] = b * cosines[angle] + a * sines[angle];
}
