// SPDX-License-Identifier: Apache-2.0

package sectorsum

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// lane is the value of a lane, computed just as the package's documentation says.
func lane(key uint64, sector []byte, i int) *big.Int {
	p := PointsOf(key)
	modulus := new(big.Int).SetUint64(prime)
	value := func(point uint64, half int) *big.Int {
		at, v := new(big.Int).SetUint64(point), new(big.Int)
		for from := 8*i + 4*half; from < len(sector); from += 8 * Lanes {
			v.Mul(v, at)
			v.Add(v, big.NewInt(int64(binary.LittleEndian.Uint32(sector[from:]))))
		}
		return v.Mul(v, new(big.Int).SetUint64(number(key, uint64(2*i+2+half))))
	}
	sum := value(p.Lower, 0)
	return sum.Mod(sum.Add(sum, value(p.Upper, 1)), modulus)
}

// TestLanes: the sum adds up the lanes' values, in any order.
func TestLanes(t *testing.T) {
	r := rand.NewChaCha8([32]byte{1})
	sector := make([]byte, Bytes)
	_, _ = r.Read(sector)
	all := new(big.Int)
	for _, i := range rand.Perm(Lanes) {
		all.Add(all, lane(7, sector, i))
	}
	sum := all.Mod(all, new(big.Int).SetUint64(prime)).Uint64()
	if got := Of(7, sector); got != sum {
		t.Errorf("%#x, want %#x", got, sum)
	}
	sums := make([]uint64, 2)
	Each(7, append(make([]byte, Bytes), sector...), sums)
	if sums[1] != sum || sums[0] != Of(7, make([]byte, Bytes)) {
		t.Errorf("%#x of both", sums)
	}
}

// TestChanges: what programs do to memory changes the sum: a bit anywhere, the same bit of two or
// more words, words that change places, a sector that is shifted, a number that changes its sign.
func TestChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sector := make([]byte, Bytes)
	for i := 0; i < Bytes; i += 8 {
		binary.LittleEndian.PutUint64(sector[i:], math.Float64bits(r.Float64()))
	}
	seen := map[uint64]string{Of(3, sector): "nothing"}
	other := make([]byte, Bytes)
	try := func(what string, change func()) {
		copy(other, sector)
		change()
		sum := Of(3, other)
		if before, twice := seen[sum]; twice {
			t.Fatalf("%s has the sum of %s", what, before)
		}
		seen[sum] = what
	}
	for range 300 {
		bit := r.IntN(8 * Bytes)
		try("a bit", func() { other[bit/8] ^= 1 << (bit % 8) })
	}
	for range 300 { // the signs of two words of one lane, and of any two words
		a := r.IntN(Bytes / 8)
		b := (a + (1+r.IntN(Bytes/8/Lanes-1))*Lanes) % (Bytes / 8)
		c := (a + 1 + r.IntN(Bytes/8-1)) % (Bytes / 8)
		try("two signs of a lane", func() { other[8*a+7] ^= 0x80; other[8*b+7] ^= 0x80 })
		if c != b {
			try("two signs", func() { other[8*a+7] ^= 0x80; other[8*c+7] ^= 0x80 })
		}
	}
	// What shifts, rotations and products modulo 2^64 could lose: a bit of one word of a lane and a
	// bit of its next word, and words that are the prime, twice that, or only ones.
	for bit := range 64 {
		for next := range 64 {
			try("a bit each of two words of a lane", func() {
				other[bit/8] ^= 1 << (bit % 8)
				other[8*Lanes+next/8] ^= 1 << (next % 8)
			})
		}
	}
	for _, x := range []uint64{prime, 1<<64 - 1, 1<<32 - 1, 2 * prime} {
		try("a word of ones", func() {
			clear(other[:8])
			other[8*Lanes] ^= 2
			binary.LittleEndian.PutUint64(other, x)
		})
	}
	try("a word of none", func() { clear(other[:8]); other[8*Lanes] ^= 2 })
	try("a row of words that change places", func() {
		copy(other[:8*Lanes], sector[8*Lanes:])
		copy(other[8*Lanes:], sector[:8*Lanes])
	})
	try("a shift by a word", func() { copy(other[8:], sector) })
	try("zeros", func() { clear(other) })
	try("all signs", func() {
		for i := 7; i < Bytes; i += 8 {
			other[i] ^= 0x80
		}
	})
	if Of(4, sector) == Of(3, sector) {
		t.Error("the key doesn't count")
	}
}

func BenchmarkOf(b *testing.B) {
	sector := make([]byte, Bytes)
	b.SetBytes(Bytes)
	for b.Loop() {
		Of(1, sector)
	}
}
