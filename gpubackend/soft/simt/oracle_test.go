// SPDX-License-Identifier: Apache-2.0

package simt

import "math/big"

// exactPrecision is enough bits for any sum of a float64 and a product of two.
const exactPrecision = 4500

// exactFma is a*b+c as the nearest float32 of the exact value.
func exactFma(a, b, c float64) float32 {
	num := func(x float64) *big.Float {
		return new(big.Float).SetPrec(exactPrecision).SetFloat64(x)
	}
	x := num(a)
	x.Mul(x, num(b)).Add(x, num(c))
	f, _ := x.Float32()
	return f
}
