// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// TestSingleFunctions compares float32 functions with float64 ones. The bounds
// are those of the CUDA programming guide, with what it says for the fast
// versions.
func TestSingleFunctions(t *testing.T) {
	t.Parallel()
	d := newTest(t, "maths")
	tests := []struct {
		kernel    string
		f         func(float64) float64
		low, high float64
		ulps      float64
		absolute  float64
	}{
		{"sinF", math.Sin, -1000, 1000, 2, 0},
		{"cosF", math.Cos, -1e6, 1e6, 2, 0},
		{"expF", math.Exp, -100, 88, 2, 0},
		{"logF", math.Log, 1e-38, 100, 1, 0},
		{"sqrtF", math.Sqrt, 0, 1e10, 0.5, 0},
		{"rsqrtF", func(x float64) float64 { return 1 / math.Sqrt(x) }, 1e-6, 1e6, 2, 0},
		{"tanhF", math.Tanh, -5, 5, 2, 0},
		{"erfF", math.Erf, -4, 4, 2, 0},
		{"cbrtF", math.Cbrt, -1000, 1000, 1, 0},
		{"powF", func(x float64) float64 { return math.Pow(x, float64(float32(1.7))) }, 0, 1000, 4,
			0},
		{"rcpF", func(x float64) float64 { return 1 / x }, -10, 10, 0.5, 0},
		{"fastSin", math.Sin, -math.Pi, math.Pi, math.Inf(1), 3.59e-7},
		{"fastExp", math.Exp, -20, 20, 2 + 23, 0},
		{"fastLog", math.Log, 2, 100, 3, 0},
		{"fastDiv", func(x float64) float64 { return 1 / x }, 0.1, 1e6, 2, 0},
		{"roundings", func(x float64) float64 {
			away := math.Trunc(x + math.Copysign(0.5, x))
			return math.RoundToEven(x) + math.Floor(x)*2 + math.Ceil(x)*4 + math.Trunc(x)*8 +
				away*16
		}, -100, 100, 0.5, 0},
	}
	const n = 4096
	for _, test := range tests {
		in := randomFloats(n, test.low, test.high)
		in[0], in[1], in[2] = float32(test.low), float32(test.high), 1
		out := put(d, make([]float32, n))
		d.run(test.kernel, n/256, 256, put(d, in), out, int32(n))
		worst, at := 0.0, float32(0)
		for i, got := range get[float32](d, out, n) {
			want := test.f(float64(in[i]))
			off := ulps(got, want)
			if test.absolute > 0 && math.Abs(float64(got)-want) <= test.absolute {
				off = 0
			}
			if off > worst || off != off {
				worst, at = off, in[i]
			}
		}
		if !(worst <= test.ulps) {
			t.Errorf("%s(%v): %.2f ulps off, bound %.2f", test.kernel, at, worst, test.ulps)
		}
	}
}

func TestDoubleFunctions(t *testing.T) {
	t.Parallel()
	d := newTest(t, "maths")
	tests := []struct {
		kernel    string
		f         func(float64) float64
		low, high float64
		ulps      float64
	}{
		{"sinD", math.Sin, -1000, 1000, 3},
		{"expD", math.Exp, -700, 700, 2},
		{"logD", math.Log, 1e-300, 1e3, 2},
		{"sqrtD", math.Sqrt, 0, 1e100, 0},
		// The reference itself is a few units off here.
		{"powD", func(x float64) float64 { return math.Pow(x, 1.7) }, 0, 1e5, 8},
		{"divD", func(x float64) float64 { return 1 / x }, -10, 10, 0},
		{"fmodD", func(x float64) float64 { return math.Mod(x, 0.7) }, -1e5, 1e5, 0},
	}
	const n = 2048
	r := rand.New(rand.NewSource(1))
	for _, test := range tests {
		in := make([]float64, n)
		for i := range in {
			in[i] = test.low + (test.high-test.low)*r.Float64()
		}
		out := put(d, make([]float64, n))
		d.run(test.kernel, n/256, 256, put(d, in), out, int32(n))
		for i, got := range get[float64](d, out, n) {
			want := test.f(in[i])
			unit := math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want)
			if off := math.Abs(got-want) / unit; !(off <= test.ulps) {
				t.Errorf("%s(%v) = %v, want %v: %.2f ulps off", test.kernel, in[i], got, want, off)
				break
			}
		}
	}
}

// exact computes with numbers of unbounded precision and rounds to float64 or
// float32 in the given direction.
func exact(prec uint, mode big.RoundingMode, f func(z *big.Float) *big.Float) float64 {
	z := f(new(big.Float).SetPrec(300))
	r, _ := new(big.Float).SetMode(mode).SetPrec(prec).Set(z).Float64()
	return r
}

func TestDirectedRounding(t *testing.T) {
	t.Parallel()
	d := newTest(t, "maths")
	const n = 512
	in := randomFloats(n, -100, 100)
	wide := make([]float64, n)
	want, wideWant := make([]float32, n), make([]float64, n)
	num := func(x float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(x) }
	directed := func(x float64, prec uint, c1, c3, three float64) (float64, float64, float64,
		float64) {
		return exact(prec, big.ToPositiveInf,
				func(z *big.Float) *big.Float { return z.Add(num(x), num(c1)) }),
			exact(prec, big.ToNegativeInf,
				func(z *big.Float) *big.Float { return z.Mul(num(x), num(c3)) }),
			exact(prec, big.ToZero,
				func(z *big.Float) *big.Float { return z.Quo(num(x), num(three)) }),
			exact(prec, big.ToPositiveInf,
				func(z *big.Float) *big.Float { return z.Sqrt(num(math.Abs(x))) })
	}
	for i := range in {
		wide[i] = float64(in[i]) * 1.000001
		a, b, c, s := directed(float64(in[i]), 24, float64(float32(0.1)), float64(float32(0.3)), 3)
		want[i] = float32(a) - float32(b) + float32(c) + float32(s)
		a, b, c, s = directed(wide[i], 53, 0.1, 0.3, 3)
		wideWant[i] = a - b + c + s
	}
	out, wideOut := put(d, make([]float32, n)), put(d, make([]float64, n))
	d.run("directed", 2, 256, put(d, in), out, int32(n))
	equal(t, "float32", get[float32](d, out, n), want)
	d.run("directedD", 2, 256, put(d, wide), wideOut, int32(n))
	equal(t, "float64", get[float64](d, wideOut, n), wideWant)
}

func TestHalf(t *testing.T) {
	t.Parallel()
	d := newTest(t, "maths")
	const n = 1024
	in, want := make([]uint16, n), make([]uint16, n)
	half := func(x float64) float64 {
		return softfloat.Half.Value(softfloat.Half.Encode(x, softfloat.Nearest))
	}
	for i := range in {
		in[i] = uint16(i*29) & 0x7bff
		x := softfloat.Half.Value(uint64(in[i]))
		want[i] = uint16(softfloat.Half.Encode(half(x*x+half(math.Sqrt(x)))/3, softfloat.Nearest))
	}
	out := put(d, make([]uint16, n))
	d.run("halfMath", 4, 256, put(d, in), out, int32(n))
	for i, got := range get[uint16](d, out, n) {
		if diff := int(got) - int(want[i]); diff < -1 || diff > 1 {
			t.Errorf("halfMath(%#x) = %#x, want %#x", in[i], got, want[i])
			break
		}
	}
	for i := range in {
		x := float32(softfloat.Brain.Value(uint64(in[i])))
		want[i] = uint16(softfloat.Brain.Encode(float64(x*1.5+0.25), softfloat.Nearest))
	}
	d.run("bfloatMath", 4, 256, put(d, in), out, int32(n))
	equal(t, "bfloatMath", get[uint16](d, out, n), want)
}

func TestBlackScholes(t *testing.T) {
	t.Parallel()
	d := newTest(t, "maths")
	const n = 2000
	s, k, years := randomFloats(n, 5, 30), randomFloats(n+1, 1, 100), randomFloats(n+2, 0.25, 10)
	call, sell := put(d, make([]float32, n)), put(d, make([]float32, n))
	d.run("blackScholes", (n+127)/128, 128, put(d, s), put(d, k[:n]), put(d, years[:n]), call, sell,
		int32(n))
	calls, puts := get[float32](d, call, n), get[float32](d, sell, n)
	normal := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	for i := range n {
		S, K, T := float64(s[i]), float64(k[i]), float64(years[i])
		d1 := (math.Log(S/K) + (0.02+0.045)*T) / (0.3 * math.Sqrt(T))
		d2 := d1 - 0.3*math.Sqrt(T)
		e := K * math.Exp(-0.02*T)
		c, p := S*normal(d1)-e*normal(d2), e*normal(-d2)-S*normal(-d1)
		if math.Abs(float64(calls[i])-c) > 1e-4 || math.Abs(float64(puts[i])-p) > 1e-4 {
			t.Fatalf("option %d: call %v, put %v, want %v, %v", i, calls[i], puts[i], c, p)
		}
	}
}

func TestConversions(t *testing.T) {
	t.Parallel()
	d := newTest(t, "maths")
	in := []float64{0, 1.5, -1.5, 2.5, 1e10, -1e10, 1e20, -1e20, 0.3, -0.3, 65504, 65520, 1e-8, 3e9,
		127.5, 255.5,
		math.Inf(1), math.Inf(-1), math.NaN(), 16777217}
	n := len(in)
	clamp := func(x, low, high float64) float64 {
		if x != x {
			return 0
		}
		return max(min(x, high), low)
	}
	out := put(d, make([]uint32, n*16))
	d.run("conversions", 1, 32, put(d, in), out, int32(n))
	got := get[uint32](d, out, n*16)
	for i, x := range in {
		f := float32(x)
		s32 := func(x float64) uint32 {
			return uint32(int32(clamp(x, math.MinInt32, math.MaxInt32)))
		}
		near := float32(nearInt64(x))
		want := map[int]uint32{
			0:  s32(math.Trunc(x)),
			1:  uint32(clamp(math.Trunc(float64(f)), 0, math.MaxUint32)),
			4:  s32(math.Floor(float64(f))),
			5:  s32(math.Ceil(float64(f))),
			6:  s32(math.RoundToEven(float64(f))),
			7:  uint32(softfloat.Half.Encode(float64(f), softfloat.Nearest)),
			8:  math.Float32bits(near),
			9:  uint32(uint8(s32(math.Trunc(float64(f))))),
			11: uint32(clamp(math.Ceil(x), 0, math.MaxUint32)),
			12: math.Float32bits(float32(clamp(float64(f), 0, 1))),
			14: uint32(softfloat.Brain.Encode(float64(f), softfloat.Nearest)),
		}
		if x != x {
			// GPUs give this for NaN in double precision, and 0 for single.
			want[0], want[11] = 1<<31, 1<<31
		}
		for k, w := range want {
			if got[i*16+k] != w {
				t.Errorf("conversion %d of %v: %#x, want %#x", k, x, got[i*16+k], w)
			}
		}
	}
}

// nearInt64 is what CUDA makes of x as a signed integer of 64 bits.
func nearInt64(x float64) int64 {
	switch {
	case x != x:
		return math.MinInt64
	case x >= 0x1p63:
		return math.MaxInt64
	case x < -0x1p63:
		return math.MinInt64
	}
	return int64(x)
}

func TestIntegers(t *testing.T) {
	t.Parallel()
	d := newTest(t, "maths")
	const n = 512
	r := rand.New(rand.NewSource(3))
	in := make([]int32, n)
	for i := range in {
		in[i] = int32(r.Uint32()) >> (r.Intn(4) * 8)
	}
	out := put(d, make([]uint64, n*20))
	d.run("integers", 2, 256, put(d, in), out, int32(n))
	got := get[uint64](d, out, n*20)
	sx := func(x int32) uint64 { return uint64(int64(x)) }
	for i, a := range in {
		b := in[(i+1)%n]
		ua, ub := uint32(a), uint32(b)
		la, lb := int64(a)*int64(b), int64(b)<<20|1
		hi, lo := bits.Mul64(uint64(la), uint64(lb))
		lo, carry := bits.Add64(lo, uint64(ua), 0)
		hi += carry
		mulHigh, _ := bits.Mul64(uint64(la), uint64(lb))
		mulHigh -= uint64(la>>63)&uint64(lb) + uint64(lb>>63)&uint64(la)
		want := map[int]uint64{
			0: sx(a / (b | 1)), 1: sx(a % (b | 1)), 2: uint64(ua / (ub | 1)),
			3: uint64(ua % (ub | 1)),
			4: uint64(la / lb), 5: uint64(la % lb), 6: uint64(la) / uint64(lb),
			7: sx(int32(la >> 32)), 8: uint64(ua) * uint64(ub) >> 32, 9: mulHigh,
			11: uint64(uint32((uint64(ub)<<32|uint64(ua))<<7>>32) ^ uint32((uint64(ub)<<32|
				uint64(ua))>>(ub&31))),
			16: bits.Reverse64(uint64(la)) ^ uint64(la>>(ub&63)) ^ uint64(la)<<(ua&63),
			18: sx(int32(int16(a))*int32(int16(b)) + int32(int8(a)) - int32(uint8(b))),
			19: hi ^ lo,
		}
		for k, w := range want {
			if got[i*20+k] != w {
				t.Fatalf("result %d of %#x, %#x: %#x, want %#x", k, ua, ub, got[i*20+k], w)
			}
		}
	}
}

func TestMonteCarlo(t *testing.T) {
	t.Parallel()
	d := newTest(t, "maths")
	hits := put(d, []uint32{0})
	d.run("monteCarlo", 4, 128, hits, int32(100))
	var want uint32
	for i := range uint32(512) {
		x := 12345 + 747796405*i
		for range 100 {
			x = x*1664525 + 1013904223
			a := float32(x>>8) / 16777216
			x = x*1664525 + 1013904223
			b := float32(x>>8) / 16777216
			if exactFma(float64(a), float64(a), float64(b*b)) < 1 {
				want++
			}
		}
	}
	equal(t, "hits", get[uint32](d, hits, 1), []uint32{want})
}
