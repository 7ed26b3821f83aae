// SPDX-License-Identifier: Apache-2.0

// Package sectorsum has the sum by which it is seen whether a sector of device memory has changed
// since it was copied. It is made so that a GPU computes it as well as a CPU does: a sector is read
// by lanes that need nothing of one another, and the order in which they end doesn't count.
//
// A sector is words of 64 bits, little-endian. Lane i takes words i, Lanes+i, 2*Lanes+i, ... It
// reads the lower halves of its words as the coefficients of a polynomial, the first one's the
// highest, and takes the value of that at a point; and so the upper halves, at another point. The
// sum of a sector is that of all lanes' values, each times a factor of its own. All is modulo
// 2^61-1, a prime. Points and factors are odd numbers below 2^58 that are made of the key.
//
// # Why that suffices
//
// Two different sectors differ in a half of some lane. Their polynomials have a degree below 128,
// and so have the same value at fewer than 128 points of 2^57; with other values the sums are the
// same for one factor of that lane. So a change isn't seen once in 2^50 times at the most, whatever
// it is: bits that flip, signs, words that change places. A VM that changes all of 80 GiB every
// minute comes to that once in thousands of years. The bound is for contents that don't depend on
// the key.
//
// It is no signature: who knows the key can make a sector with the sum of another one. The key is a
// random number of the worker's, whose program would cheat nobody but itself: it would get older
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
	// prime is what sums are modulo, and primeBits its logarithm.
	prime     = 1<<primeBits - 1
	primeBits = 61
	// below it are points and factors: products of them can be reduced without a comparison.
	pointBits = 58

	step  = 0x9e3779b97f4a7c15
	mixer = 0xd6e8feb86659fd93
)

// Points are what a key comes to, but for factors.
type Points struct{ Lower, Upper uint64 }

// PointsOf are those of a key.
func PointsOf(key uint64) Points { return Points{number(key, 0), number(key, 1)} }

// number is the nth that is made of a key. Lane i has 2*i+2 and 2*i+3, for its halves.
func number(key, n uint64) uint64 { return mix(key+(n+1)*step)>>(64-pointBits) | 1 }

// Of is the sum of a sector, whose length is a multiple of that of a word for each lane.
func Of(key uint64, sector []byte) (sum uint64) {
	p := PointsOf(key)
	for lane := uint64(0); lane < Lanes; lane += group {
		var a, b, c, d uint64 // variables of their own, which processors have registers for
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

// Each puts the sums of consecutive sectors.
func Each(key uint64, sectors []byte, sums []uint64) {
	for i := range sums {
		sums[i] = Of(key, sectors[i*Bytes:(i+1)*Bytes])
	}
}

// mix has each bit of a number change about half of the result's.
func mix(x uint64) uint64 {
	x = (x ^ x>>32) * mixer
	x = (x ^ x>>32) * mixer
	return x ^ x>>32
}
