// SPDX-License-Identifier: Apache-2.0

// Package sectorsum has the sum that shows whether a sector of device memory has changed since it
// was copied. Both a GPU and a CPU can compute it fast: a sector is read by independent lanes, and
// the order in which they end doesn't matter.
//
// A sector is words of 64 bits, little-endian. Lane i takes words i, Lanes+i, 2*Lanes+i, ... The
// lower halves of its words are the coefficients of a polynomial, the highest first, which is
// evaluated at one point; so are the upper halves, at another point. A sector's sum adds up these
// values, each times a factor of its own. All is modulo 2^61-1, a prime. Points and factors are odd
// numbers below 2^58, which are made from the key.
//
// # Why that suffices
//
// Two different sectors differ in a half of some lane. Their polynomials have a degree below 128,
// so they have the same value at fewer than 128 of 2^57 points; if the values differ, the sums are
// the same for only one factor of that lane. So at most one change in 2^50 is missed, whatever it
// is: flipped bits, signs, swapped words. For a VM that changes all of 80 GiB every minute that is
// once in thousands of years. The bound holds for contents that don't depend on the key.
//
// It isn't a signature: whoever knows the key can make a sector with the sum of another one. The
// key is a random number in the worker, whose program could cheat only itself: it would get older
// bytes of its own memory.
package sectorsum

import (
	"encoding/binary"
	"math/bits"
)

const (
	// Bytes is how large a sector is.
	Bytes = 256 << 10
	// Lanes is how many words are taken at a time.
	Lanes = 256

	group = 2 // lanes that are computed together
	// Sums are modulo prime; primeBits is its logarithm.
	prime     = 1<<primeBits - 1
	primeBits = 61
	// Points and factors are below this: products with them can be reduced without a comparison.
	pointBits = 58

	step  = 0x9e3779b97f4a7c15
	mixer = 0xd6e8feb86659fd93
)

// Points are the points that follow from a key.
type Points struct{ Lower, Upper uint64 }

// PointsOf returns the points of a key.
func PointsOf(key uint64) Points { return Points{number(key, 0), number(key, 1)} }

// number is the nth number made from a key. Lane i has the numbers 2*i+2 and 2*i+3, for its halves.
func number(key, n uint64) uint64 { return mix(key+(n+1)*step)>>(64-pointBits) | 1 }

// Of is the sum of a sector. Its length is a multiple of 8*Lanes.
func Of(key uint64, sector []byte) (sum uint64) {
	p := PointsOf(key)
	for lane := uint64(0); lane < Lanes; lane += group {
		var a, b, c, d uint64 // separate variables, for which processors have registers
		for at := int(lane) * 8; at+group*8 <= len(sector); at += Lanes * 8 {
			w := sector[at : at+group*8 : at+group*8]
			v, x := binary.LittleEndian.Uint64(w), binary.LittleEndian.Uint64(w[8:])
			a, b = next(a, p.Lower, v&lower), next(b, p.Upper, v>>32)
			c, d = next(c, p.Lower, x&lower), next(d, p.Upper, x>>32)
		}
		for i, value := range [...]uint64{a, b, c, d} {
			sum = reduced(sum + next(value, number(key, 2*lane+2+uint64(i)), 0))
		}
	}
	return sum
}

const lower = 1<<32 - 1

// next is x*y+w modulo the prime, but not reduced: below 2^62, if x is that, and w half a word.
func next(x, y, w uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return lo&prime + (hi<<(64-primeBits) | lo>>primeBits) + w
}

// reduced is x modulo the prime.
func reduced(x uint64) uint64 {
	x = x&prime + x>>primeBits
	if x >= prime {
		x -= prime
	}
	return x
}

// Each computes the sums of consecutive sectors.
func Each(key uint64, sectors []byte, sums []uint64) {
	for i := range sums {
		sums[i] = Of(key, sectors[i*Bytes:(i+1)*Bytes])
	}
}

// mix makes each bit of a number change about half of the result's bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>32) * mixer
	x = (x ^ x>>32) * mixer
	return x ^ x>>32
}
