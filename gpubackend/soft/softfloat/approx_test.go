// SPDX-License-Identifier: Apache-2.0

package softfloat

import (
	"math"
	"math/rand"
	"testing"
)

// TestApproximations compares Exp2 and Log2 with those of package math.
func TestApproximations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		f, want func(float64) float64
		value   func(r *rand.Rand) float64
	}{
		{"exp2", Exp2, math.Exp2, func(r *rand.Rand) float64 { return r.NormFloat64() * 60 }},
		{"log2", Log2, math.Log2,
			func(r *rand.Rand) float64 { return math.Exp2(r.NormFloat64() * 40) }},
		{"log2 near 1", Log2, math.Log2,
			func(r *rand.Rand) float64 { return 1 + r.NormFloat64()*1e-3 }},
	}
	r := rand.New(rand.NewSource(1))
	for _, test := range tests {
		for range 20000 {
			x := test.value(r)
			got, want := test.f(x), test.want(x)
			if math.Abs(got-want) > math.Abs(want)*0x1p-30 {
				t.Errorf("%s(%v) = %v, want %v", test.name, x, got, want)
				break
			}
		}
	}
	for _, x := range []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), -1,
		1, 5e-324, 1e308, -1e308} {
		for name, pair := range map[string][2]float64{"exp2": {Exp2(x), math.Exp2(x)},
			"log2": {Log2(x), math.Log2(x)}} {
			if pair[0] != pair[1] && !(pair[0] != pair[0] && pair[1] != pair[1]) {
				t.Errorf("%s(%v) = %v, want %v", name, x, pair[0], pair[1])
			}
		}
	}
}
