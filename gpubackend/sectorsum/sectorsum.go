// SPDX-License-Identifier: Apache-2.0

// Package sectorsum has the sum by which it is seen whether a sector of device memory has changed
// since it was copied. It is made so that a GPU computes it as well as a CPU does: a sector is read
// by lanes that need nothing of one another, and the order in which they end doesn't count.
//
// A sector is words of 64 bits, little-endian. Lane i takes words i, Lanes+i, 2*Lanes+i, ... and
// begins with what the key makes of i. The sum of a sector is that of what its lanes came to,
// mixed.
//
// It finds what has changed by chance or by a program. It is no signature: who knows the key can
// make a sector with the sum of another one. The key is a random number of the worker's, whose
// program could cheat nobody but itself.
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

	group = 4 // lanes that are computed together
	turn  = 29
	prime = 0x9e3779b97f4a7c15
	mixer = 0xd6e8feb86659fd93
)

// Of is the sum of a sector, whose length is a multiple of that of a word for each lane.
func Of(key uint64, sector []byte) (sum uint64) {
	for lane := uint64(0); lane < Lanes; lane += group {
		// variables of their own, which processors have registers for
		a, b := begin(key, lane), begin(key, lane+1)
		c, d := begin(key, lane+2), begin(key, lane+3)
		for at := int(lane) * 8; at+group*8 <= len(sector); at += Lanes * 8 {
			w := sector[at : at+group*8 : at+group*8]
			a = bits.RotateLeft64(a^binary.LittleEndian.Uint64(w), turn) * prime
			b = bits.RotateLeft64(b^binary.LittleEndian.Uint64(w[8:]), turn) * prime
			c = bits.RotateLeft64(c^binary.LittleEndian.Uint64(w[16:]), turn) * prime
			d = bits.RotateLeft64(d^binary.LittleEndian.Uint64(w[24:]), turn) * prime
		}
		sum += mix(a^lane) + mix(b^(lane+1)) + mix(c^(lane+2)) + mix(d^(lane+3))
	}
	return sum
}

// begin is what a lane begins with.
func begin(key, lane uint64) uint64 { return mix(key + lane*prime) }

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
