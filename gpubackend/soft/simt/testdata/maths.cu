// SPDX-License-Identifier: Apache-2.0
// Floating-point functions of all types.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

#define UNARY(name, type, expr) \
extern "C" __global__ void name(const type *in, type *out, int n) \
{ \
	int i = blockIdx.x * blockDim.x + threadIdx.x; \
	if (i < n) { \
		type x = in[i]; \
		out[i] = expr; \
	} \
}

UNARY(sinF, float, sinf(x))
UNARY(cosF, float, cosf(x))
UNARY(expF, float, expf(x))
UNARY(logF, float, logf(x))
UNARY(sqrtF, float, sqrtf(x))
UNARY(rsqrtF, float, rsqrtf(x))
UNARY(tanhF, float, tanhf(x))
UNARY(erfF, float, erff(x))
UNARY(cbrtF, float, cbrtf(x))
UNARY(powF, float, powf(x, 1.7f))
UNARY(rcpF, float, 1 / x)
UNARY(fastSin, float, __sinf(x))
UNARY(fastExp, float, __expf(x))
UNARY(fastLog, float, __logf(x))
UNARY(fastDiv, float, __fdividef(1.0f, x))
UNARY(roundings, float, rintf(x) + floorf(x) * 2 + ceilf(x) * 4 + truncf(x) * 8 + roundf(x) * 16)
UNARY(sinD, double, sin(x))
UNARY(expD, double, exp(x))
UNARY(logD, double, log(x))
UNARY(sqrtD, double, sqrt(x))
UNARY(powD, double, pow(x, 1.7))
UNARY(divD, double, 1 / x)
UNARY(fmodD, double, fmod(x, 0.7))
UNARY(directed, float, __fadd_ru(x, 0.1f) - __fmul_rd(x, 0.3f) + __fdiv_rz(x, 3.0f) + __fsqrt_ru(fabsf(x)))
UNARY(directedD, double, __dadd_ru(x, 0.1) - __dmul_rd(x, 0.3) + __ddiv_rz(x, 3.0) + __dsqrt_ru(fabs(x)))
UNARY(halfMath, __half, __hfma(x, x, hsqrt(__habs(x))) / __float2half(3.0f))
UNARY(half2Math, __half2, __hadd2(__hmul2(x, x), __h2div(x, __floats2half2_rn(2.0f, 3.0f))))
UNARY(bfloatMath, __nv_bfloat16, __float2bfloat16(__bfloat162float(x) * 1.5f + 0.25f))

extern "C" __global__ void blackScholes(const float *s, const float *k, const float *t, float *call, float *put, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	const float r = 0.02f, v = 0.3f;
	float sq = sqrtf(t[i]);
	float d1 = (logf(s[i] / k[i]) + (r + 0.5f * v * v) * t[i]) / (v * sq), d2 = d1 - v * sq;
	float n1 = 0.5f * erfcf(-d1 * 0.70710678f), n2 = 0.5f * erfcf(-d2 * 0.70710678f);
	float e = expf(-r * t[i]);
	call[i] = s[i] * n1 - k[i] * e * n2;
	put[i] = k[i] * e * (1 - n2) - s[i] * (1 - n1);
}

extern "C" __global__ void monteCarlo(unsigned *hits, int rounds)
{
	unsigned x = 12345u + 747796405u * (blockIdx.x * blockDim.x + threadIdx.x), count = 0;
	for (int i = 0; i < rounds; i++) {
		x = x * 1664525u + 1013904223u;
		float a = (x >> 8) * (1.0f / 16777216.0f);
		x = x * 1664525u + 1013904223u;
		float b = (x >> 8) * (1.0f / 16777216.0f);
		count += a * a + b * b < 1.0f;
	}
	atomicAdd(hits, count);
}

extern "C" __global__ void conversions(const double *in, unsigned *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	double x = in[i];
	float f = (float)x;
	unsigned *o = out + i * 16;
	o[0] = (int)x;
	o[1] = (unsigned)f;
	o[2] = (unsigned long long)x >> 7;
	o[3] = (long long)f;
	o[4] = __float2int_rd(f);
	o[5] = __float2int_ru(f);
	o[6] = __float2int_rn(f);
	o[7] = __half_as_ushort(__float2half(f));
	o[8] = __float_as_uint((float)(long long)x);
	o[9] = (unsigned char)(int)f;
	o[10] = (short)x;
	o[11] = __double2uint_ru(x);
	o[12] = __float_as_uint(__saturatef(f));
	o[13] = __float_as_uint(__double2float_rz(x));
	o[14] = __bfloat16_as_ushort(__float2bfloat16(f));
	o[15] = __float_as_uint(__int2float_rd((int)f | 0x1000001));
}

extern "C" __global__ void integers(const int *in, unsigned long long *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	int a = in[i], b = in[(i + 1) % n];
	unsigned ua = a, ub = b;
	long long la = (long long)a * b, lb = (long long)b << 20 | 1;
	unsigned long long *o = out + i * 20;
	o[0] = a / (b | 1);
	o[1] = a % (b | 1);
	o[2] = ua / (ub | 1);
	o[3] = ua % (ub | 1);
	o[4] = la / lb;
	o[5] = la % lb;
	o[6] = (unsigned long long)la / (unsigned long long)lb;
	o[7] = __mulhi(a, b);
	o[8] = __umulhi(ua, ub);
	o[9] = __mul64hi(la, lb);
	o[10] = __umul24(a, b) + __mul24(a, b);
	o[11] = __funnelshift_l(a, b, 7) ^ __funnelshift_r(a, b, b & 63);
	o[12] = __byte_perm(a, b, a & 0x7777);
	o[13] = __sad(a, b, 3u) + __usad(a, b, 3u);
	o[14] = __dp4a(a, b, 5) + __dp2a_lo(a, b, 6);
	o[15] = __clzll(la) + __ffsll(la) * 100 + __popcll(la) * 10000 + __clz(a) * 1000000;
	o[16] = __brevll(la) ^ (unsigned long long)(la >> (b & 63)) ^ ((unsigned long long)la << (a & 63));
	o[17] = __hadd(a, b) + __rhadd(a, b) + abs(a);
	o[18] = (short)a * (short)b + (signed char)a - (unsigned char)b;
	unsigned __int128 w = (unsigned __int128)(unsigned long long)la * (unsigned long long)lb + ua;
	o[19] = (unsigned long long)(w >> 64) ^ (unsigned long long)w;
}
